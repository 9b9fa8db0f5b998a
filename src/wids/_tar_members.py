"""The members of a local tar file by number: read once from header to header, then by position."""

from __future__ import annotations

import io
import os
from pathlib import Path
from typing import Any, NamedTuple

from webdataset import config, tar
from webdataset.errors import TruncatedShard, Where, located
from webdataset.mutex import Mutex


class Row(NamedTuple):
    """Where a member is."""

    name: str
    offset: int
    size: int


class TarMembers:
    """Names, positions and contents of the members of one file.

    >>> import tempfile
    >>> with tempfile.NamedTemporaryFile() as file:
    ...     _ = file.write(tar.encode_header("a.txt", 3) + b"abc" + tar.padding(3) + tar.END_OF_ARCHIVE)
    ...     file.flush()
    ...     members = TarMembers(file.name)
    >>> members.rows, members.read(0)
    ([Row(name='a.txt', offset=0, size=3)], b'abc')
    >>> members.close()

    Every dialect of tar is read as `webdataset` reads it: long names whole, and members of equal names each by itself.
    The contents are read from the open file, not mapped: a file that is truncated meanwhile is an error.
    """

    def __init__(self, file: Any) -> None:
        named = isinstance(file, str | os.PathLike)
        self.path: str | None = os.fspath(file) if named else getattr(file, "name", None)
        self._stream: Any = Path(file).open("rb") if named else file  # noqa: SIM115 - closed by `close`
        self._lock = Mutex()
        self.rows: list[Row] = []
        self._starts: list[int] = []
        try:
            with located(shard=self.path):
                self._read_headers()
        except BaseException:
            self._stream.close()
            raise

    def _read_headers(self) -> None:
        self._stream.seek(0)
        for run in tar.read_runs(self._stream, limit=config.read("WDS_DECOMPRESS_LIMIT")):
            sizes = [stop - start for start, stop in zip(run.starts, run.stops, strict=True)]
            self.rows += map(Row, run.names, run.offsets, sizes)
            self._starts += [run.base + start for start in run.starts]

    def __len__(self) -> int:
        return len(self.rows)

    def names(self) -> list[str]:
        """The names of all members, in their order."""
        return [row.name for row in self.rows]

    def get_file(self, i: int) -> tuple[str, io.BytesIO]:
        """Name and content of a member, as a stream."""
        return self.rows[i].name, io.BytesIO(self.read(i))

    def read(self, number: int) -> bytes:
        """The content of a member."""
        size = self.rows[number].size
        with self._lock:
            self._stream.seek(self._starts[number])
            data: bytes = self._stream.read(size)
        if len(data) != size:
            raise TruncatedShard(f"expected {size} bytes, got {len(data)}", Where(shard=self.path))
        return data

    def fileno(self) -> int:
        """The descriptor of the open file."""
        return int(self._stream.fileno())

    def close(self) -> None:
        """Close the file."""
        self._stream.close()
