"""Index, size and checksum of an archive, recorded while it is written, so that it need not be read again."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from webdataset import stores
from webdataset.errors import SpecError
from webdataset.index import (
    Description,
    IndexBuilder,
    ShardEntry,
    ShardIndex,
    index_url,
    save_index,
    seen_from,
    write_description,
)

if TYPE_CHECKING:
    from ._tar_writer import Placed


class Record:
    """Index, size and checksum of one archive.

    >>> record = Record()
    >>> record.add("0001", [("txt", 512, 5, "0001.txt")])
    >>> record.see(b"the bytes of the archive")
    >>> record.entry("a.tar")
    ShardEntry(url='a.tar', nsamples=1, filesize=24, md5sum='157f203c149e8287685f1fa6a4588c73', ...)

    Args:
        described: also compute the checksum, which costs more than the rest.
    """

    def __init__(self, *, described: bool = True) -> None:
        self._builder = IndexBuilder()
        self._checksum = hashlib.md5(usedforsecurity=False)  # what wids descriptions hold
        self._size = 0
        self.described = described

    def add(self, key: str, placed: Sequence[Placed | tuple[str, int, int, str]]) -> None:
        """One more sample, as `on_sample` reports it."""
        for _, offset, size, name in placed:
            self._builder.add(name, offset, size)

    def see(self, data: bytes) -> None:
        """More bytes of the archive, as they are stored."""
        self._checksum.update(data)
        self._size += len(data)

    @cached_property
    def index(self) -> ShardIndex:
        """The index of the archive; complete at its end."""
        return self._builder.finish()

    def entry(self, url: str) -> ShardEntry:
        """The archive as a line of a description."""
        return ShardEntry(url, len(self.index), self._size, self._checksum.hexdigest())


class Records:
    """Index and description of a series of archives.

    >>> records = Records("memory://doc-record/%d.tar", index=True, description="memory://doc-record/all.json")
    >>> records.keep(records.begin(), "memory://doc-record/0.tar")
    >>> records.close()
    >>> stores.list_urls("memory://doc-record/")
    ['memory://doc-record/0.idx', 'memory://doc-record/all.json']

    Args:
        pattern: how the archives are named.
        index: True stores the index of each archive beside it, a directory or URL stores it there.
        description: where the description of all archives goes.
    """

    def __init__(self, pattern: str, index: Any, description: str | os.PathLike[str] | None) -> None:
        self.location, self._indexed = index_location(index)
        self._description = None if description is None else stores.as_address(description)
        self._entries: list[ShardEntry] = []
        if self._indexed:
            index_url(pattern, self.location)  # refuses a location that cannot hold an index
        if self._description is not None and pattern.startswith("pipe:"):
            raise SpecError("a description cannot name the output of a command", hint="write to a path or URL")
        if self._description is not None:
            seen_from(self._description, pattern)  # refuses a location from which the archives could not be named

    def begin(self) -> Record | None:
        """The record of one more archive, if there is anything to record."""
        described = self._description is not None
        return Record(described=described) if self._indexed or described else None

    def keep(self, record: Record, url: str) -> None:
        """Store the index of an archive that was published, and add the archive to the description."""
        if self._indexed:
            save_index(record.index, url, self.location)
        if self._description is not None:
            self._entries.append(record.entry(seen_from(self._description, url)))

    def close(self) -> None:
        """Store the description of all archives that were published, completely or not at all."""
        if self._description is not None and self._entries:
            stores.write_bytes(self._description, write_description(Description(self._entries)))


def index_location(index: Any) -> tuple[str | None, bool]:
    """(location, whether to store an index) for a value of `index=`.

    >>> index_location(True), index_location("indexes/"), index_location(None)
    ((None, True), ('indexes/', True), (None, False))
    """
    if index is None or isinstance(index, bool):
        return None, bool(index)
    if not isinstance(index, str | os.PathLike):
        raise SpecError(f"index={index!r}: expected True (next to the shard), a directory or a URL")
    return stores.as_address(index), True
