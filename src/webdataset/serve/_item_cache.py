"""A bounded cache of made items: jobs that read the same epoch share every decode, also one that is still running."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

from webdataset.mutex import Mutex


@dataclass(frozen=True)
class Made:
    """Encoded items: their tree in msgpack and their frames, and the size of these in bytes."""

    frames: list[Any]
    size: int


class MadeItems:
    """The items that were used last, up to so many bytes.

    >>> cache = MadeItems(limit=10)
    >>> cache.get(b"a", lambda: Made([], 6)).size, cache.hits
    (6, 0)
    >>> _ = cache.get(b"a", lambda: None)
    >>> cache.hits
    1
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._lock = Mutex()
        self._kept: OrderedDict[bytes, Made] = OrderedDict()
        self._under_way: dict[bytes, Future[Made]] = {}
        self.size = 0
        self.hits = 0

    def get(self, key: bytes, make: Callable[[], Made]) -> Made:
        """The items of a key: from the cache, from another thread that is making them, or made now."""
        with self._lock:
            if key in self._kept:
                self._kept.move_to_end(key)
                self.hits += 1
                return self._kept[key]
            future = self._under_way.get(key)
            if future is None:
                own_future = self._under_way[key] = Future()
        if future is not None:
            made = future.result()
            with self._lock:
                self.hits += 1
            return made
        return self._make(key, make, own_future)

    def _make(self, key: bytes, make: Callable[[], Made], own_future: Future[Made]) -> Made:
        try:
            made = make()
        except BaseException as error:
            with self._lock:
                del self._under_way[key]
            own_future.set_exception(error)
            raise
        with self._lock:
            del self._under_way[key]
            if made.size <= self._limit:
                self._kept[key] = made
                self.size += made.size
            while self.size > self._limit:
                self.size -= self._kept.popitem(last=False)[1].size
        own_future.set_result(made)
        return made
