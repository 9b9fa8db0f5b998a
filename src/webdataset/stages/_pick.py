"""A random item out of a list."""

from __future__ import annotations

from typing import Any


def pick(buf: list[Any], rng: Any) -> Any:
    """Take a random item out of a list; the last one fills its place.

    >>> import random
    >>> items = [1, 2, 3]
    >>> picked = pick(items, random.Random(0))
    >>> sorted([picked, *items])
    [1, 2, 3]
    """
    chosen = int(rng.random() * len(buf))
    item = buf[chosen]
    buf[chosen] = buf[-1]
    buf.pop()
    return item
