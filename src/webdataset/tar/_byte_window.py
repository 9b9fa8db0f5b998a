"""Bytes of a stream, and their offsets in the archive. This file does not depend on the meaning of the bytes.

The bytes that are available are `data[at:end]`, in a window that is reused. Readers use `data` directly if what they
need is inside, and call `take` otherwise. A slice of `data` is a copy, so readers may keep it. So is a slice of
`shown`; with `windows` it is a view instead, of a window that is not reused before all its views are deleted.
"""

from __future__ import annotations

import mmap
from collections.abc import Callable
from typing import Protocol

from webdataset.errors import TruncatedShard, Where
from webdataset.read_methods import find_readinto

from ._parse_header import BLOCK
from ._window_memory import Windows, new_window


class Readable(Protocol):
    """What a stream must have. It may return fewer bytes than requested; none mean the end."""

    def read(self, size: int, /) -> bytes | None:
        """Up to `size` bytes."""


# Measured on shards of 1 kB samples: 256 kB 355 k/s, 512 kB 356 k/s, 1 MB 406 k/s, 2 MB 302 k/s (the window leaves
# the cache). The first window is small, so that the first sample and a recalled one cost little; each one doubles.
WINDOW = 1 << 20
FIRST_WINDOW = 1 << 16

# glibc gives memory back as soon as 128 kB at the end of the heap are free, and takes it again for the next samples:
# 15 % of the time of photos. The limit is twice the largest block that was ever freed, so one is made and freed.
bytes(WINDOW)

# From this mean payload on, two reads for each member are faster than copying it out of the window: 100 kB take 14 µs
# in a window, and without it 12 µs for the reads and 10 µs for their bookkeeping.
LARGE = 1 << 18

# No more than this is allocated for a size in a header before the bytes are there; untouched memory costs nothing.
TRUSTED = 1 << 25


class Blocks:
    """The archive's bytes, in order.

    >>> import io
    >>> blocks = Blocks(io.BytesIO(b"a" * 512 + b"b" * 600))
    >>> blocks.peek() == b"a" * 512
    True
    >>> blocks.skip(512)
    >>> blocks.take(600, "the payload")[-1:], blocks.offset
    (b'b', 1112)
    """

    def __init__(
        self,
        stream: Readable,
        *,
        start: int = 0,
        window: int = WINDOW,
        windows: Windows | None = None,
        memory: mmap.mmap | None = None,
    ) -> None:
        self._read: Callable[[int], bytes | None] = stream.read
        self._readinto: Callable[[memoryview], int | None] = find_readinto(stream)
        self.base = start  # the offset of the first byte of `data`
        self._limit = window
        self._window = min(FIRST_WINDOW, window)
        self._failure: Exception | None = None
        self._ended = False
        self._owed = 0  # padding that was skipped before it was read
        self._windows = windows
        self.data = new_window(window) if memory is None else memory
        self.shown: mmap.mmap | memoryview = self.data  # the same bytes
        self.show: Callable[[bytes], bytes | memoryview] = bytes if windows is None else memoryview
        self._view = memoryview(self.data)
        self.at = self.end = 0
        self.fills = 0  # how often `data` has changed
        self.mean = 0.0  # of recent payload sizes

    @property
    def offset(self) -> int:
        """The offset of the next byte."""
        return self.base + self.at + self._owed

    def peek(self) -> bytes:
        """The next block; shorter only at the end of the stream, where it is empty."""
        if self.at >= self.end:
            self._fill()
        return self.data[self.at : min(self.at + BLOCK, self.end)]

    def skip(self, count: int) -> None:
        """Skip bytes that are in `data`, or padding that was not read yet."""
        self.at += count
        beyond = self.at - self.end
        if beyond > 0:
            self._owed += beyond
            self.at = self.end

    def take(self, count: int, what: str) -> bytes:
        """Return exactly the next `count` bytes; `what` names them in the error if some are missing."""
        start, stop = self.at, self.at + count
        if stop <= self.end:
            self.at = stop
            return self.data[start:stop]
        head = self.data[start : self.end]
        self._drop()
        pieces, missing = [head] if head else [], count - len(head)
        while missing:
            piece = self._pull(min(missing, TRUSTED))
            if not piece:
                raise self._truncated(f"the archive is truncated: {count - missing:,} of {count:,} bytes of {what}")
            pieces.append(piece)
            self.base += len(piece)
            missing -= len(piece)
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def read(self, size: int, /) -> bytes:
        """Return up to `size` bytes: what is left, as a stream, including its failure."""
        if self.at < self.end:
            return self.take(min(size, self.end - self.at), "the archive")
        self._drop()
        piece = self._pull(size)
        self.base += len(piece)
        return piece

    def extend(self) -> bool:
        """Read more if less than half a window is available; return whether `data` has more now.

        The available bytes are moved to the front. They are at most half a window, so a byte is moved once on average.
        """
        left = self.end - self.at
        if self._ended or self._failure is not None or self.mean >= LARGE or 2 * left > self._window:
            return False
        self._refill(self._grown())
        return self.end > left

    def discard(self, count: int, what: str) -> None:
        """Read the next `count` bytes without keeping them."""
        while count:
            count -= len(self.take(min(count, WINDOW), what))

    def discard_rest(self) -> None:
        """Read to the end, so that a late failure of the stream is noticed."""
        while True:
            self.at = self.end
            self._refill(self._limit)
            if not self.end:
                self._raise_failure()
                return

    def _drop(self) -> None:
        self.base += self.end
        self.at = self.end = 0
        self.fills += 1

    def _grown(self) -> int:
        size = self._window
        self._window = min(2 * size, self._limit)
        return size

    def _fill(self) -> None:
        # Large payloads are read by a separate call, into a bytes object of their own, without a copy.
        size = BLOCK if self.mean >= LARGE else self._grown()
        self._refill(size + self._owed)
        available = self.end - self.at
        if available < max(self._owed, 1):
            self._raise_failure()
        if available < self._owed:
            self._drop()
            raise self._truncated("the archive is truncated in the padding of a member")
        self.at += self._owed
        self._owed = 0

    def _refill(self, stop: int) -> None:
        """Move the available bytes to the front of `data`, and read up to `stop`, or to the end or failure."""
        left = self.end - self.at
        if self._windows is None:
            self.data.move(0, self.at, left)
        else:
            rest = self._view[self.at : self.end]
            self.data, self.shown = self._windows.take()
            self._view = memoryview(self.data)
            self._view[:left] = rest
        self.base += self.at
        self.at, self.end = 0, left
        self.fills += 1
        try:
            while self.end < stop and not self._ended:
                count = self._readinto(self._view[self.end : stop])
                self.end += count or 0
                self._ended = not count
        except Exception as error:
            self._failure, self._ended = error, True

    def _pull(self, count: int) -> bytes:
        """Return `count` bytes in a new object, or those before the end or a failure."""
        self._raise_failure()
        pieces, have = [], 0
        try:
            while have < count and (piece := self._read(count - have)):
                if len(piece) == count:
                    return piece
                pieces.append(piece)
                have += len(piece)
        except Exception as error:
            if not pieces:
                raise
            self._failure, self._ended = error, True
        return b"".join(pieces)

    def _raise_failure(self) -> None:
        """Raise the failure of the stream, now that all bytes before it were used."""
        if self._failure is not None:
            raise self._failure

    def _truncated(self, what: str) -> TruncatedShard:
        return TruncatedShard(
            what, Where(offset=self.base), hint="fetch or write it again, or save what is left: wds check --fix"
        )
