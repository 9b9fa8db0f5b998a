"""How many bytes an item holds, estimated well enough for a memory limit."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

_SMALL = 64  # a number, a short string, a reference
_FEW = 16  # a sample, or a small batch; the entries of a longer list are much alike
_MEASURED = 4  # of many neighbours about so many are measured; large items, in groups of at most four, are all measured


def size_of(item: Any) -> int:
    """Return the bytes of an item: those of buffers, arrays, tensors and pictures, and a little for everything else.

    >>> size_of({"jpg": bytes(1000), "cls": 3})
    1064
    """
    if isinstance(item, (bytes, bytearray, str)):
        return len(item)
    if isinstance(item, dict):
        return sum(map(size_of, item.values()))
    if isinstance(item, (list, tuple)):
        return sum(map(size_of, item)) if len(item) < _FEW else size_of_many(item)
    size = getattr(item, "nbytes", None)  # arrays, tensors, memoryviews
    if isinstance(size, int):
        return size
    bands = getattr(item, "getbands", None)  # Pillow's pictures
    return _SMALL if bands is None else int(item.width * item.height * len(bands()))


def size_of_many(items: Sequence[Any], measure: Callable[[Any], int] = size_of) -> int:
    """Return the bytes of neighbours, estimated from a few: measuring an item takes as long as making a small sample.

    >>> size_of_many([bytes(1000)] * 30), size_of_many([])
    (30000, 0)
    """
    some = items[:: len(items) // _MEASURED or 1]
    return sum(map(measure, some)) * len(items) // max(1, len(some))
