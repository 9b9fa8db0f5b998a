"""How many bytes an item holds, near enough to keep a budget."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

_SMALL = 64  # a number, a short string, a reference
_FEW = 16  # a sample, or a small batch; the entries of a longer list are much alike
_LOOKED_AT = 4  # neighbours, or a few more; of large items, which come in fours at most, each


def size_of(item: Any) -> int:
    """Bytes of an item: what buffers, arrays, tensors and pictures hold, and a little for everything else.

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
    """Bytes of neighbours, as if all were like a few of them: looking at each costs as much as a small sample.

    >>> size_of_many([bytes(1000)] * 30), size_of_many([])
    (30000, 0)
    """
    some = items[:: len(items) // _LOOKED_AT or 1]
    return sum(map(measure, some)) * len(items) // max(1, len(some))
