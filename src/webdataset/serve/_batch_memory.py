"""Memory for large arrays that are received: reused as soon as no array refers to it.

New memory must be cleared by the system first, which can take longer than receiving the data.
"""

from __future__ import annotations

import weakref
from collections import deque

import numpy as np


class BatchMemory:
    """Blocks of memory that are reused when no array refers to them any more.

    >>> memory = BatchMemory(limit=1 << 20)
    >>> first = memory.take(1000)
    >>> array = np.frombuffer(first, "u1")
    >>> del first
    >>> memory.free_bytes  # the array still uses it
    0
    >>> del array
    >>> memory.free_bytes
    1000

    Args:
        limit: how many bytes are kept for reuse.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._free: deque[np.ndarray] = deque()  # appended to by any thread that drops an array

    @property
    def free_bytes(self) -> int:
        """How many bytes are kept for reuse."""
        return sum(block.nbytes for block in list(self._free))

    def take(self, size: int) -> memoryview:
        """Memory of this size, with any content."""
        block = self._find_free_block(size)
        if block is None:
            block = np.empty(size, np.uint8)
        # Everything that is made from the memoryview keeps `in_use` alive: slices, casts, arrays, tensors.
        in_use = block[:size]
        weakref.finalize(in_use, self._free.append, block).atexit = False
        return memoryview(in_use)  # type: ignore[arg-type]  # arrays are buffers since Python 3.12 only in name

    def _find_free_block(self, size: int) -> np.ndarray | None:
        """A block that is large enough and not much larger."""
        found = None
        for _ in range(len(self._free)):
            block = self._free.popleft()
            if found is None and size <= block.nbytes <= 2 * size:
                found = block
            else:
                self._free.append(block)
        while self.free_bytes > self._limit:
            self._free.popleft()
        return found
