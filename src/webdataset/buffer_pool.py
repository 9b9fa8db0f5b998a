"""A buffer pool for large arrays.

New memory costs the kernel a fault and a cleared page for every 4 kB, and what is freed goes back to it: normalised
photos in batches of 64 spend a fifth of their CPU time there. So the memory of an array made here is kept when the
last view of it is gone, and becomes the next array of that size.
"""

from __future__ import annotations

import math
import threading
import weakref
from collections import deque
from collections.abc import Callable
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
Allocate = Callable[[int], Array | None]

_LEAST = 1 << 17  # below it, malloc keeps memory as well
_SIZES = 4  # kept at a time: an image and its batch, and one more of each
_KEPT = 1 << 26  # bytes of one size, though two arrays always


class Recycler:
    """Makes arrays, and keeps the memory of those that are gone.

    >>> recycler = Recycler()
    >>> array = recycler.empty((1024, 1024), np.dtype(np.float32))
    >>> array[0, 0], address = 7, array.ctypes.data
    >>> del array
    >>> recycler.empty((2048, 512), np.dtype(np.float32)).ctypes.data == address
    True
    """

    def __init__(self) -> None:
        self.allocate: Allocate | None = None
        self._spare: dict[int, deque[bytearray]] = {}
        self._lock = threading.Lock()  # for new sizes alone: garbage may be collected, and memory come back, anywhere

    def empty(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
        """As `numpy.empty`."""
        size = math.prod(shape) * dtype.itemsize
        if size < _LEAST or dtype.hasobject:
            return np.empty(shape, dtype)
        spare = self._spare.get(size)
        if spare is None:
            spare = self._begin(size)
        try:
            memory = spare.pop()
        except IndexError:
            memory = bytearray(size)
        # A view of a view refers to the array at the root, as long as that is not made of an array itself.
        root = np.frombuffer(memory, np.uint8)
        weakref.finalize(root, spare.append, memory).atexit = False
        return root.view(dtype).reshape(shape)

    def _begin(self, size: int) -> deque[bytearray]:
        with self._lock:
            spare = self._spare.setdefault(size, deque(maxlen=max(2, _KEPT // size)))
            while len(self._spare) > _SIZES:
                del self._spare[next(iter(self._spare))]
        return spare


_recycler = Recycler()


def empty(shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    """An array with any contents, its memory used again after it if it is large.

    >>> empty((64, 3, 224, 224), np.dtype("f4")).shape
    (64, 3, 224, 224)
    """
    return _recycler.empty(shape, dtype)


def use_for_batches(allocate: Allocate) -> None:
    """Allocate batches elsewhere: in shared memory, so that sending them copies nothing.

    Args:
        allocate: returns so many bytes, or None.
    """
    _recycler.allocate = allocate


def empty_batch(shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    """As `empty`, for a batch.

    >>> empty_batch((2, 3), np.dtype("f4")).shape
    (2, 3)
    """
    if _recycler.allocate is not None and not dtype.hasobject:
        found = _recycler.allocate(math.prod(shape) * dtype.itemsize)
        if found is not None:
            return found.view(dtype).reshape(shape)
    return empty(shape, dtype)
