"""How many bytes an item holds, near enough to keep a budget."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

_SMALL = 64  # a number, a short string, a reference


def size_of(item: Any) -> int:
    """Bytes of an item: what buffers, arrays and tensors hold, and a little for everything else.

    >>> size_of({"jpg": bytes(1000), "cls": 3})
    1064
    """
    if isinstance(item, (bytes, bytearray, str)):
        return len(item)
    if isinstance(item, dict):
        return sum(map(size_of, item.values()))
    if isinstance(item, (list, tuple)):
        return sum(map(size_of, item))
    size = getattr(item, "nbytes", None)  # arrays, tensors, memoryviews
    return size if isinstance(size, int) else _SMALL


def size_of_many(items: Sequence[Any]) -> int:
    """Bytes of neighbours, as if all were like the first: looking at each costs as much as a small sample.

    >>> size_of_many([bytes(1000)] * 3)
    3000
    """
    return len(items) * size_of(items[0]) if items else 0
