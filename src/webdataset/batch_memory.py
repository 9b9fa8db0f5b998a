"""The memory of batches: in a worker process it is shared memory, so that batches are not copied when they are sent."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
Allocate = Callable[[int], Array | None]

_allocate: Allocate | None = None


def use_for_batches(allocate: Allocate) -> None:
    """Allocate the batches of this process with this function.

    Args:
        allocate: returns memory of so many bytes, or None for ordinary memory.
    """
    global _allocate  # noqa: PLW0603 - one place for the whole process, which is a worker
    _allocate = allocate


def empty_batch(shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    """Return an array as `numpy.empty` does, in the memory of batches.

    >>> empty_batch((2, 3), np.dtype("f4")).shape
    (2, 3)
    """
    if _allocate is not None and not dtype.hasobject:
        found = _allocate(math.prod(shape) * dtype.itemsize)
        if found is not None:
            return found.view(dtype).reshape(shape)
    return np.empty(shape, dtype)
