"""How far the reader is: in the middle of one shard, or between two."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from webdataset.errors import SpecError
from webdataset.flow import Json, Origin, Progress, Recall, count_in, url_as_json, url_from_json

ShardItem = Mapping[str, Any]

UNKNOWN = -1  # the offset of samples in compressed shards, which can only be counted


class InShard(Progress):
    """The shard that is open, how many of its samples were yielded, and where the last of them began.

    >>> at = InShard()
    >>> at.open({"url": "a.tar"})
    >>> at.hold([0, 2048])
    >>> at.taken = 2
    >>> at.origin
    Origin(shard='a.tar', number=1, offset=2048)
    >>> at.save()
    {'shard': {'url': 'a.tar'}, 'taken': 2, 'offset': 2048}
    """

    def __init__(self) -> None:
        self.shard: ShardItem | None = None
        self._address: Json = None
        self.taken = 0
        self._offsets = [UNKNOWN]  # of the last sample and of those that are yielded next
        self._before = 0  # how many samples were yielded before the first of these

    def open(self, shard: ShardItem) -> None:
        """Begin with a shard."""
        self.shard, self.taken = shard, 0
        self._address = url_as_json(shard["url"])
        self._offsets, self._before = [UNKNOWN], 0

    def hold(self, offsets: list[int]) -> None:
        """Set the offsets of the samples that are yielded next."""
        # The last one that was yielded stays first: the position is after it until the next one is yielded.
        last = self._offsets[self.taken - self._before - 1] if self.taken else UNKNOWN
        self._offsets, self._before = [last, *offsets], self.taken - 1

    def finish(self) -> None:
        """End the shard: all its samples were yielded."""
        self.shard, self.taken = None, 0

    @property
    def offset(self) -> int:
        """The offset of the sample that was yielded last; looked up only when needed."""
        return self._offsets[self.taken - self._before - 1]

    @property
    def origin(self) -> Origin | None:
        """Where the sample that was yielded last came from."""
        last = self.taken - 1
        if self.shard is None or last < 0:
            return None
        # The same as Origin(…) in half the time; this is called once per sample.
        return tuple.__new__(Origin, (self._address, last, self._offsets[last - self._before]))

    def save(self) -> Json:
        """Return the shard without objects of this process (an open stream), and two numbers."""
        if self.shard is None:
            return None
        shard = {name: value for name, value in self.shard.items() if isinstance(value, str | int | float | None)}
        shard["url"] = self._address
        return {"shard": shard, "taken": self.taken, "offset": self.offset if self.taken else UNKNOWN}

    def load(self, saved: Json, recall: Recall) -> None:
        """Go on from a saved progress."""
        if saved is None:
            return
        self.open({**saved["shard"], "url": url_from_json(saved["shard"]["url"])})
        self.taken = count_in(saved["taken"])
        self._offsets, self._before = [offset_in(saved["offset"])], self.taken - 1


def offset_in(saved: Json) -> int:
    """An offset as a checkpoint has it; anything else is a ValueError."""
    return UNKNOWN if saved == UNKNOWN else count_in(saved)


def as_shard(item: Any) -> ShardItem:
    """Return a shard item as a mapping.

    >>> as_shard("a.tar")
    {'url': 'a.tar'}
    """
    if isinstance(item, str):
        return {"url": item}
    if not isinstance(item, Mapping) or not isinstance(item.get("url"), str):
        raise SpecError(f'expected a shard such as {{"url": "a.tar"}}, got {item!r}')
    return item
