"""A stream of bytes in one direction, with the two properties that readers of shards rely on.

* `read(n)` returns `n` bytes, fewer only when the stream ends or fails. After a failure the bytes that had already
  arrived are handed out first and the *next* read raises, so nothing that was received is lost. Who gets fewer bytes
  than expected reads once more: `b""` is a verified end, an exception is the reason. `read()` of everything raises at
  once, because nobody can tell that it is not everything.
* An end is only ever reported when the place has vouched for it (length, exit status, end marker).
"""

from __future__ import annotations

import io
import weakref
from abc import abstractmethod
from typing import Any

from webdataset.errors import StoreError

from ._store import PIECE

# A reader with so much room brings a buffer of its own.
_LARGE = 1 << 16


class Stream(io.RawIOBase):
    """A forward-only binary stream; subclasses say where the next bytes come from.

    `position` is how far the place has been read; what was not yet asked for waits in a buffer of `buffered` bytes.
    Readers of archives ask for headers and payloads in turn: the buffer serves them in C, out of memory that is used
    again and again. Fresh memory for each piece costs more in page faults than this one copy.
    """

    buffered = PIECE

    def __init__(self, position: int = 0) -> None:
        self.position = position
        self._told = position
        self._failure: Exception | None = None
        # One byte of buffer is none: larger reads go past it, straight into their own bytes.
        self._reader = io.BufferedReader(_Place(self), max(1, self.buffered))

    @abstractmethod
    def fill(self, view: memoryview) -> int:
        """Put the next bytes there, as soon as there are any, and say how many; 0 at the verified end."""

    def readable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._told

    def read(self, size: int | None = -1, /) -> bytes:
        """Exactly `size` bytes, fewer at the end or just before a failure; all of them when `size` is negative."""
        if size is None or size < 0:
            return self.readall()
        return self._checked(self._reader.read(size), size)

    def read1(self, size: int = PIECE, /) -> bytes:
        """At most `size` bytes, as soon as there are any."""
        wanted = size if size > 0 else PIECE
        return self._checked(self._reader.read1(wanted), wanted)

    def readinto(self, buffer: Any, /) -> int:
        """At most as many bytes as there is room for, as soon as there are any."""
        if len(buffer) >= _LARGE and self.position == self._told and not self.closed:
            count = self._refill(memoryview(buffer))  # nothing waits in the buffer: past it, without a copy
        else:
            count = self._reader.readinto1(buffer)
        if not count and len(buffer) and self._failure is not None:
            raise self._failure
        self._told += count
        return count

    def peek(self, size: int = 1, /) -> bytes:
        """The next bytes without taking them: one at least, unless this is the end."""
        piece = self._reader.peek(size)
        if not piece and self._failure is not None:
            raise self._failure
        return piece

    def close(self) -> None:
        if hasattr(self, "_reader"):  # a constructor may have failed before
            self._reader.close()
        super().close()

    def _checked(self, piece: bytes, wanted: int) -> bytes:
        if not piece and wanted and self._failure is not None:
            raise self._failure
        self._told += len(piece)
        return piece

    def readall(self) -> bytes:
        """All bytes up to the verified end."""
        pieces = []
        while piece := self.read(PIECE):
            pieces.append(piece)
        return b"".join(pieces)

    def _refill(self, view: memoryview) -> int:
        """What the buffer calls: a failure looks like an end to it, so that it hands out what it has."""
        if self._failure is not None:
            return 0
        try:
            count = self.fill(view)
        except Exception as error:
            self._failure = error
            return 0
        except BaseException:
            self._failure = StoreError("an earlier reading was interrupted", hint="open the stream again")
            raise
        self.position += count
        return count


class _Place(io.RawIOBase):
    """The end of the buffer where bytes come in; it must not keep its stream alive."""

    def __init__(self, stream: Stream) -> None:
        self._stream = weakref.ref(stream)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any, /) -> int:
        stream = self._stream()
        return 0 if stream is None else stream._refill(buffer)
