"""A forward-only stream of bytes with two guarantees for readers of shards.

* `read(n)` returns `n` bytes, fewer only when the stream ends or fails. After a failure the bytes that arrived before
  are returned first and the *next* read raises, so no received byte is lost. A reader that gets fewer bytes than
  expected reads again: `b""` is a verified end, an exception is the reason. `read()` without a size raises at once.
* The end is reported only when it was verified (length, exit status, end marker).
"""

from __future__ import annotations

import io
import weakref
from abc import abstractmethod
from typing import Any

from webdataset.errors import StoreError

from ._store import PIECE

# Reads into memory of this size or more skip the buffer, which would copy the bytes once more. Smaller reads are
# headers; the rest of a window is rarely so small.
_LARGE = 1 << 12


class Stream(io.RawIOBase):
    """A forward-only binary stream; subclasses define how the next bytes are read (`fill`).

    `position` is the position in the source; a buffer of `buffered` bytes holds bytes that were not read from the
    stream yet. Readers of archives read headers and payloads in turn: Python's buffer, which is written in C, reuses
    its memory. New memory for each piece would cost more in page faults than this one copy.
    """

    buffered = PIECE

    def __init__(self, position: int = 0) -> None:
        self.position = position
        self._read_position = position
        self._failure: Exception | None = None
        # A buffer of one byte has no effect: larger reads skip it.
        self._reader = io.BufferedReader(_BufferSource(self), max(1, self.buffered))

    @abstractmethod
    def fill(self, view: memoryview) -> int:
        """Write the next bytes to `view` as soon as there are any; returns their number, 0 at the verified end."""

    def readable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._read_position

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
        """At most as many bytes as fit into the buffer, as soon as there are any."""
        if len(buffer) >= _LARGE and self.position == self._read_position and not self.closed:
            count = self._refill(memoryview(buffer))  # the buffer is empty: skip it, without a copy
        else:
            count = self._reader.readinto1(buffer)
        if not count and len(buffer) and self._failure is not None:
            raise self._failure
        self._read_position += count
        return count

    def peek(self, size: int = 1, /) -> bytes:
        """The next bytes without reading them: at least one, unless this is the end."""
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
        self._read_position += len(piece)
        return piece

    def readall(self) -> bytes:
        """All bytes up to the verified end."""
        pieces = []
        while piece := self.read(PIECE):
            pieces.append(piece)
        return b"".join(pieces)

    def _refill(self, view: memoryview) -> int:
        """Called by the buffer: a failure looks like an end to it, so that it returns what it has."""
        if self._failure is not None:
            return 0
        try:
            count = self.fill(view)
        except Exception as error:
            self._failure = error
            return 0
        except BaseException:
            self._failure = StoreError("an earlier read was interrupted", hint="open the stream again")
            raise
        self.position += count
        return count


class _BufferSource(io.RawIOBase):
    """The source of the buffer; it has no strong reference to its stream, which is closed when it is deleted."""

    def __init__(self, stream: Stream) -> None:
        self._stream = weakref.ref(stream)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any, /) -> int:
        stream = self._stream()
        return 0 if stream is None else stream._refill(buffer)
