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


class Stream(io.RawIOBase):
    """A forward-only binary stream; subclasses say where the next bytes come from."""

    def __init__(self, position: int = 0) -> None:
        self.position = position
        self._failure: BaseException | None = None

    @abstractmethod
    def pull(self, size: int) -> bytes:
        """The next 1 to `size` bytes, or b"" at the verified end."""

    def readable(self) -> bool:
        return True

    def tell(self) -> int:
        return self.position

    def read1(self, size: int = PIECE, /) -> bytes:
        """At most `size` bytes, as soon as there are any."""
        if self.closed:
            raise ValueError("read of a closed stream")
        if self._failure is not None:
            raise self._failure
        piece = self.pull(size if size > 0 else PIECE)
        self.position += len(piece)
        return piece

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
