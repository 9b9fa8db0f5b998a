"""How much one pickle may build: counted in bytes, and refused when it exceeds the limit.

A harmless pickle builds about as much as it contains. A hostile one refers to one object thousands of times, copies it,
or uses it as a key whose hash takes very long. Everything that can cost more than its bytes in the pickle is counted.
"""

from __future__ import annotations

import sys
from collections import Counter, defaultdict, deque
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

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
_NOTE = 300  # bytes of what is noted of a container
_MOST_NESTED = 100


class Budget:
    """The number of bytes that a pickle may still build.

    >>> budget = Budget(size=100, limit=1000)
    >>> budget.spend(900)
    >>> budget.spend(900)
    Traceback (most recent call last):
    webdataset.errors.FormatError: the pickle builds more than 1,000 bytes – raise WDS_DECOMPRESS_LIMIT if you ...

    Args:
        size: bytes of the pickle. It may always build four times as much.
        limit: bytes it may build in any case; None means the environment variable `WDS_DECOMPRESS_LIMIT`.
    """

    __slots__ = ("_hashes", "_left", "_limit", "_nested")

    def __init__(self, size: int, limit: int | None = None) -> None:
        self._limit = max(field_limit(limit), 4 * size)
        self._left = self._limit
        self._hashes: dict[int, Counter[int]] = {}
        self._nested: dict[int, _Nesting] = {}

    def spend(self, size: int) -> None:
        """Count bytes that are about to be built."""
        self._left -= size
        if self._left < 0:
            raise too_large(f"the pickle builds more than {self._limit:,} bytes")

    def admit_keys(self, container: Any, keys: Iterable[Any]) -> None:
        """Count keys of a dict or items of a set before they are added; refuse those that are too costly to hash."""
        if not container:  # another one may have had its id
            self._hashes.pop(id(container), None)
        for key in keys:
            if type(key) in _SEEDED or (type(key) is int and -_SMALL < key < _SMALL):
                continue
            self.spend(_hashed_bytes(key))
            same = self._hashes.get(id(container))
            if same is None:
                self.spend(_NOTE)
                same = self._hashes[id(container)] = Counter()
            value = hash(key)
            same[value] += 1
            if same[value] > _SAME_HASH:
                raise UnsafeContent(f"the pickle has more than {_SAME_HASH} keys with the same hash in one container")

    def nest(self, outer: Any, items: Iterable[Any]) -> None:
        """Refuse items that would nest containers so deeply that freeing them overflows the C stack."""
        inner = [self._nesting(each) for each in items if _is_freed_recursively(each)]
        if not inner:
            return
        own = self._nesting(outer)
        # What is inside another container must be complete, or the level of the other would be wrong.
        if own.is_inside or max(each.level for each in inner) >= _MOST_NESTED:
            what = "arrays of objects, deques or defaultdicts inside each other"
            raise UnsafeContent(f"the pickle has more than {_MOST_NESTED} levels, or a circle, of {what}")
        own.level = max(own.level, 1 + max(each.level for each in inner))
        for each in inner:
            each.is_inside = True

    def _nesting(self, container: Any) -> _Nesting:
        found = self._nested.get(id(container))
        if found is None:
            self.spend(_NOTE)
            found = self._nested[id(container)] = _Nesting(container)
        return found


@dataclass(slots=True)
class _Nesting:
    container: Any  # so that no other one gets its id
    level: int = 0
    is_inside: bool = False


def _is_freed_recursively(value: Any) -> bool:
    """Whether Python or NumPy free the items of a container recursively; they do so for these types only."""
    return type(value) in {defaultdict, deque} or (type(value) is np.ndarray and value.dtype.hasobject)


def _hashed_bytes(key: Any) -> int:
    """The number of bytes that hashing a key reads; nested tuples count as often as they occur."""
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
