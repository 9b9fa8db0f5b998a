"""Bytes with random access as a file, for libraries that need a file."""

from __future__ import annotations

import io
from typing import Any, Protocol


class ReadsRanges(Protocol):
    """Random access to bytes."""

    def read(self, start: int, length: int) -> bytes:
        """Exactly these bytes."""
        ...


class SeekableRange(io.RawIOBase):
    """A range of bytes as a file: decoders and readers of archives fetch only the parts that they need.

    >>> from webdataset import stores
    >>> from webdataset.index import open_bytes
    >>> stores.write_bytes("memory://doc-seekable/a.bin", b"..hello")
    >>> SeekableRange(open_bytes("memory://doc-seekable/a.bin"), 2, 5).read()
    b'hello'
    """

    def __init__(self, source: ReadsRanges, offset: int, size: int) -> None:
        super().__init__()
        self._source, self._offset, self._size = source, offset, size
        self._at = 0

    def readable(self) -> bool:
        """Return True."""
        return True

    def seekable(self) -> bool:
        """Return True."""
        return True

    def readinto(self, buffer: Any, /) -> int:
        """The next bytes."""
        length = max(0, min(len(buffer), self._size - self._at))
        buffer[:length] = self._source.read(self._offset + self._at, length) if length else b""
        self._at += length
        return length

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        """Go to a byte."""
        self._at = max(0, offset + (0, self._at, self._size)[whence])
        return self._at
