"""The memory of batches: in a worker process it is shared memory, so that sending them copies nothing."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
Allocate = Callable[[int], Array | None]

_allocate: Allocate | None = None


def use_for_batches(allocate: Allocate) -> None:
    """Allocate the batches of this process elsewhere.

    Args:
        allocate: returns so many bytes, or None.
    """
    global _allocate  # noqa: PLW0603 - one place for the whole process, which is a worker
    _allocate = allocate


def empty_batch(shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    """As `numpy.empty`, for a batch.

    >>> empty_batch((2, 3), np.dtype("f4")).shape
    (2, 3)
    """
    if _allocate is not None and not dtype.hasobject:
        found = _allocate(math.prod(shape) * dtype.itemsize)
        if found is not None:
            return found.view(dtype).reshape(shape)
    return np.empty(shape, dtype)
