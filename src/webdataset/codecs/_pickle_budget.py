"""How much one pickle may build: counted in bytes, and refused when it exceeds the limit.

An honest pickle builds about as much as it contains. A hostile one refers to one object thousands of times, copies it,
or uses it as a key whose hash takes for ever. Everything that costs more than the bytes that ask for it is charged.
"""

from __future__ import annotations

import sys
from collections import Counter
from typing import Any

from webdataset.decompress import too_large
from webdataset.errors import UnsafeContent

from ._field_limit import field_limit

# What a key may cost to hash and compare. Python hashes nested tuples recursively, on the C stack, and caches nothing.
_KEY_BYTES = 1 << 20
_KEY_DEPTH = 100
# Keys of one container with the same hash. Each is compared with all others, so many of them take quadratic time.
_SAME_HASH = 100
# Hashes of these are cheap, cached, and cannot be chosen: Python seeds them in every process.
_SEEDED = (str, bytes)
_SMALL = 2**60  # integers below this have different hashes
_HASHABLE_CONTAINERS = (tuple, frozenset)
_ITEM = 8  # bytes of a reference


class Budget:
    """What a pickle of this size may still spend.

    >>> budget = Budget(size=100, limit=1000)
    >>> budget.spend(900)
    >>> budget.spend(900)
    Traceback (most recent call last):
    webdataset.errors.FormatError: the pickle builds more than 1,000 bytes – raise WDS_DECOMPRESS_LIMIT if you ...

    Args:
        size: bytes of the pickle. It may always build four times as much.
        limit: bytes it may build in any case; None means the environment variable `WDS_DECOMPRESS_LIMIT`.
    """

    __slots__ = ("_hashes", "_left", "_limit")

    def __init__(self, size: int, limit: int | None = None) -> None:
        self._limit = max(field_limit(limit), 4 * size)
        self._left = self._limit
        self._hashes: dict[int, Counter[int]] = {}

    def spend(self, size: int) -> None:
        """Count bytes that are about to be built."""
        self._left -= size
        if self._left < 0:
            raise too_large(f"the pickle builds more than {self._limit:,} bytes")

    def admit_key(self, container: Any, key: Any) -> None:
        """Count a key of a dict or an item of a set; refuse one that is too costly to hash."""
        if type(key) in _SEEDED or (type(key) is int and -_SMALL < key < _SMALL):
            return
        self.spend(_weigh(key))
        same = self._hashes.setdefault(id(container), Counter())
        value = hash(key)
        same[value] += 1
        if same[value] > _SAME_HASH:
            raise UnsafeContent(f"the pickle has more than {_SAME_HASH} keys with the same hash in one container")


def _weigh(key: Any) -> int:
    """The bytes that hashing a key looks at; nested tuples count as often as they occur."""
    total, level = 0, [key]
    for _ in range(_KEY_DEPTH):
        inner: list[Any] = []
        for each in level:
            is_container = type(each) in _HASHABLE_CONTAINERS
            total += _ITEM * len(each) + _ITEM if is_container else sys.getsizeof(each)
            if total > _KEY_BYTES:
                raise UnsafeContent(f"the pickle has a key of more than {_KEY_BYTES:,} bytes")
            if is_container:
                inner.extend(each)
        if not inner:
            return total
        level = inner
    raise UnsafeContent(f"the pickle has a key of more than {_KEY_DEPTH} nested tuples")
