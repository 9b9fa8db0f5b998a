"""A stream of bytes in one direction, with the two properties that readers of shards rely on.

* `read(n)` returns `n` bytes, fewer only when the stream ends or fails. After a failure the bytes that had already
  arrived are handed out first and the *next* read raises, so nothing that was received is lost. Who gets fewer bytes
  than expected reads once more: `b""` is a verified end, an exception is the reason.
* An end is only ever reported when the place has vouched for it (length, exit status, end marker).
"""

from __future__ import annotations

import io
from abc import abstractmethod
from typing import Any

from ._store import PIECE

# Readers of archives ask for headers and payloads in turn; a place is asked for what it has there, up to so much.
_BUFFER = 256 << 10


class Stream(io.RawIOBase):
    """A forward-only binary stream; subclasses say where the next bytes come from.

    `position` is how far the place has been read; what was not yet asked for waits in a small buffer.
    """

    buffered = _BUFFER

    def __init__(self, position: int = 0) -> None:
        self.position = position
        self._failure: BaseException | None = None
        self._buffer, self._at = b"", 0

    @abstractmethod
    def pull(self, size: int) -> bytes:
        """The next 1 to `size` bytes, as soon as there are any, or b"" at the verified end."""

    def readable(self) -> bool:
        return True

    def tell(self) -> int:
        return self.position - (len(self._buffer) - self._at)

    def read1(self, size: int = PIECE, /) -> bytes:
        """At most `size` bytes, as soon as there are any."""
        at = self._at
        if at < len(self._buffer):
            self._at = at + (size if size > 0 else PIECE)
            piece = self._buffer[at : self._at]
            if self._at >= len(self._buffer):
                self._buffer, self._at = b"", 0
            return piece
        if self.closed:
            raise ValueError("read of a closed stream")
        if self._failure is not None:
            raise self._failure
        wanted = size if size > 0 else PIECE
        piece = self.pull(max(wanted, self.buffered))
        self.position += len(piece)
        if len(piece) <= wanted:
            return piece
        self._buffer, self._at = piece, wanted
        return piece[:wanted]

    def read(self, size: int | None = -1, /) -> bytes:
        """Exactly `size` bytes, fewer at the end or just before a failure; all of them when `size` is negative."""
        endless = size is None or size < 0
        missing = PIECE if endless else size or 0
        pieces: list[bytes] = []
        while missing > 0:
            piece = self._next(missing, pieces)
            if not piece:
                break
            pieces.append(piece)
            missing = PIECE if endless else missing - len(piece)
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def readinto(self, buffer: Any, /) -> int:
        piece = self.read1(len(buffer))
        buffer[: len(piece)] = piece
        return len(piece)

    def _next(self, size: int, pieces: list[bytes]) -> bytes:
        try:
            return self.read1(size)
        except Exception as error:
            if not pieces:
                raise
            self._failure = error
            return b""
