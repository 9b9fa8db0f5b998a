"""`LRUCache`: values by key; the least recently used are removed first."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, ItemsView, KeysView, ValuesView
from typing import Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")


class LRUCache(Generic[K, V]):
    """A dict of at most `capacity` entries.

    >>> cache = LRUCache(2)
    >>> cache["a"], cache["b"] = 1, 2
    >>> cache["a"]
    1
    >>> cache["c"] = 3
    >>> cache["b"] is None, sorted(cache.keys())
    (True, ['a', 'c'])

    Args:
        capacity: how many entries.
        release_handler: called with the key and value of an entry that is removed.
    """

    def __init__(self, capacity: int, release_handler: Callable[[K, V], object] | None = None) -> None:
        self.capacity, self.release_handler = capacity, release_handler
        self.cache: OrderedDict[K, V] = OrderedDict()

    def __getitem__(self, key: K) -> V | None:
        if key not in self.cache:
            return None
        self.cache.move_to_end(key)
        return self.cache[key]

    def __setitem__(self, key: K, value: V) -> None:
        before = self.cache.pop(key, None)
        self.cache[key] = value
        if before is not None and before is not value:
            self._release(key, before)
        while len(self.cache) > self.capacity:
            self._release(*self.cache.popitem(last=False))

    def __delitem__(self, key: K) -> None:
        self._release(key, self.cache.pop(key))

    def __len__(self) -> int:
        return len(self.cache)

    def __contains__(self, key: object) -> bool:
        return key in self.cache

    def keys(self) -> KeysView[K]:
        """From the least to the most recently used."""
        return self.cache.keys()

    def values(self) -> ValuesView[V]:
        """In the same order."""
        return self.cache.values()

    def items(self) -> ItemsView[K, V]:
        """In the same order."""
        return self.cache.items()

    def clear(self) -> None:
        """Remove all entries."""
        while self.cache:
            self._release(*self.cache.popitem(last=False))

    def _release(self, key: K, value: V) -> None:
        if self.release_handler is not None:
            self.release_handler(key, value)
