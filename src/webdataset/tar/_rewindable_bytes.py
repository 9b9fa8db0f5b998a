"""Bytes of a stream that can be read again until they are forgotten."""

from __future__ import annotations

from webdataset.errors import FormatError, TruncatedShard, Where

from ._byte_window import TRUSTED, WINDOW, Readable
from ._parse_header import BLOCK


class HeldBytes:
    """Bytes of a stream, from the first that was not forgotten to the end of what was read.

    >>> import io
    >>> held = HeldBytes(io.BytesIO(b"hello world"))
    >>> held.take(5, "a word"), held.peek(6), held.offset
    (b'hello', b' world', 5)
    >>> held.rewind(0)
    >>> held.find(b"world", 0, keep=False)
    6
    """

    def __init__(self, stream: Readable) -> None:
        self._read = stream.read
        self._held = bytearray()
        self._base = 0  # the offset of the first byte held
        self._at = 0
        self._ended = False
        self.failure: FormatError | None = None

    @property
    def offset(self) -> int:
        """The offset of the next byte."""
        return self._base + self._at

    @property
    def end(self) -> int:
        """The offset after the last byte held."""
        return self._base + len(self._held)

    def peek(self, count: int) -> bytes:
        """The next bytes; fewer at the end."""
        self.available(count)
        return bytes(self._held[self._at : self._at + count])

    def skip(self, count: int) -> None:
        """Skip bytes."""
        self._at += count

    def take(self, count: int, what: str) -> bytes:
        """Exactly the next `count` bytes."""
        data = self.peek(count)
        if len(data) < count:
            raise TruncatedShard(f"the archive ends inside {what}", Where(offset=self.offset))
        self._at += count
        return data

    def read(self, size: int, /) -> bytes:
        """Up to `size` bytes, as a stream; what was read is forgotten."""
        data = self.peek(min(size, WINDOW))
        self._at += len(data)
        self.forget()
        return data

    def available(self, count: int) -> int:
        """How many of the next `count` bytes there are."""
        return self.available_at(self.offset + count) - self.offset

    def available_at(self, stop: int) -> int:
        """Read on until `stop`, or the end if that comes first: which of the two it is."""
        while self.end < stop and not self._ended:
            try:
                piece = self._read(min(max(WINDOW, stop - self.end), TRUSTED)) or b""
            except FormatError as error:  # damaged compression: what came before it is still good
                self.failure, piece = error, b""
            self._held += piece
            self._ended = not piece
        return min(self.end, stop)

    def bytes_at(self, start: int, count: int) -> bytes:
        """Bytes that are held."""
        first = start - self._base
        return bytes(self._held[first : first + count])

    def rewind(self, offset: int) -> None:
        """Go to a byte that is held."""
        self._at = offset - self._base

    def forget(self) -> None:
        """Free the bytes before the position, if they are so many that copying the others is worth it."""
        if self._at > WINDOW:
            del self._held[: self._at]
            self._base += self._at
            self._at = 0

    def find(self, pattern: bytes, start: int, *, keep: bool) -> int | None:
        """Where a pattern occurs from `start` on; with `keep` only in what is held."""
        while True:
            found = self._held.find(pattern, max(start - self._base, 0))
            if found >= 0:
                return self._base + found
            if keep or self._ended:
                return None
            # A header begins 257 bytes before its magic.
            start = max(start, self.end - len(pattern))
            self.rewind(max(self.end - BLOCK, self._base))
            self.forget()
            self.available_at(self.end + WINDOW)
