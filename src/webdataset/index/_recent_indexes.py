"""The indexes that were used last, within a limit of memory."""

from __future__ import annotations

import logging
from collections import OrderedDict

from webdataset import config
from webdataset.mutex import Mutex

from ._shard_index import ShardIndex

_log = logging.getLogger(__name__)


class RecentIndexes:
    """Indexes by the number of their shard. The least recently used one is dropped when they exceed the limit.

    >>> from ._build_index import build
    >>> recent = RecentIndexes(limit=0)
    >>> recent.put(0, build([("a.txt", 512, 3)])), recent.put(1, build([("b.txt", 512, 3)]))
    ([], [0])
    >>> recent.get(0), recent.get(1).key(0)
    (None, 'b')

    Args:
        limit: bytes; None takes the environment variable WDS_INDEX_MEMORY. The last one used is always kept.
    """

    def __init__(self, limit: int | None = None) -> None:
        self._limit = limit
        self._indexes: OrderedDict[int, tuple[ShardIndex, int]] = OrderedDict()
        self._bytes = 0
        self._logged = False
        self._lock = Mutex()

    def get(self, shard: int) -> ShardIndex | None:
        """The index of a shard, if it is still there."""
        with self._lock:
            found = self._indexes.get(shard)
            if found is None:
                return None
            self._indexes.move_to_end(shard)
            return found[0]

    def put(self, shard: int, index: ShardIndex) -> list[int]:
        """Keep an index, or one that has grown; returns the shards whose indexes were dropped for it."""
        limit = config.read("WDS_INDEX_MEMORY") if self._limit is None else self._limit
        gone = []
        with self._lock:
            self._bytes -= self._indexes.pop(shard, (None, 0))[1]
            self._indexes[shard] = index, index.nbytes
            self._bytes += index.nbytes
            while self._bytes > limit and len(self._indexes) > 1:
                number, (_, size) = self._indexes.popitem(last=False)
                self._bytes -= size
                gone.append(number)
        if gone and not self._logged:
            self._logged = True
            _log.info("indexes take more than %d MB and are read again when needed: WDS_INDEX_MEMORY", limit / 1e6)
        return gone

    def __len__(self) -> int:
        return len(self._indexes)

    def __reduce__(self) -> tuple[type[RecentIndexes], tuple[int | None]]:
        return RecentIndexes, (self._limit,)  # another process reads its own
