"""Tar shards as one of the formats: what everything else is converted to and from."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any, ClassVar

from webdataset.index import IndexedShards
from webdataset.samples import read_shard
from webdataset.writers import TarWriter

from ._record_format import Format, Part, Record, RecordFile, RecordSink


@dataclass(frozen=True)
class Tar(Format):
    """Tar shards. Fields are bytes, and their extensions determine their types.

    Attributes:
        index: store an index beside each shard that is written.
        options: more arguments for `TarWriter`.
    """

    index: bool = False
    options: dict[str, Any] = field(default_factory=dict)

    name: ClassVar[str] = "tar"
    suffixes: ClassVar[tuple[str, ...]] = (".tar", ".tgz", ".tar.gz", ".tar.bz2", ".tar.xz", ".tar.zst")
    by_extension: ClassVar[bool] = True

    def open(self, part: Part) -> RecordFile:
        """Open one shard."""
        return _TarFile(part.url)

    def create(self, url: str) -> RecordSink:
        """Begin to write one shard."""
        return TarWriter(url, index=self.index or None, **self.options)


class _TarFile(RecordFile):
    def __init__(self, url: str) -> None:
        self._url = url
        self._opened: IndexedShards | None = None

    def __len__(self) -> int:
        return len(self._indexed)

    def records(self, start: int = 0) -> Iterator[Record]:
        if start:
            yield from (self[number] for number in range(start, len(self)))
            return
        samples: Any = read_shard(self._url)
        with closing(samples):
            yield from samples

    def __getitem__(self, number: int) -> Record:
        record: Record = self._indexed[number]
        return record

    @property
    def _indexed(self) -> IndexedShards:
        if self._opened is None:
            self._opened = IndexedShards([self._url])
        return self._opened

    def close(self) -> None:
        if self._opened is not None:
            self._opened.close()
