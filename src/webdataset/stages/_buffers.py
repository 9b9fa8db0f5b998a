"""Progress of stages that keep items for a while: the items, and where each of them came from."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from webdataset.errors import StateError
from webdataset.flow import Json, Progress, Recall


class LastOrigin(Progress):
    """A progress that notes the origin of the item that was yielded last."""

    handed: Json = None

    @property
    def origin(self) -> Json:
        """The origin noted when the item was yielded."""
        return self.handed

    def upstream_origin(self) -> Json:
        """The origin of the item just taken."""
        return self.upstream.origin if self.upstream is not None else None


class Buffer(LastOrigin):
    """Items taken and not yielded, in one list, with their origins.

    >>> at = Buffer()
    >>> at.take("a")
    >>> at.items
    ['a']
    """

    def __init__(self) -> None:
        self.items: list[Any] = []
        self.origins: list[Json] = []
        self.skip = 0  # items to drop before the first is taken: only after a checkpoint of version 1

    def take(self, item: Any) -> None:
        """Keep an item and where it came from."""
        self.items.append(item)
        self.origins.append(self.upstream.origin if self.upstream is not None else None)

    def hand_all(self) -> None:
        """Empty the buffer: all its items are about to be yielded as one."""
        self.handed = None if None in self.origins else self.origins
        self.items, self.origins = [], []

    def save(self) -> Json:
        """Return the origins of the items, not the items; None if the buffer is empty."""
        return {"held": recallable(self.origins)} if self.origins else None

    def load(self, saved: Json, recall: Recall) -> None:
        """Fill the buffer again by the origins."""
        self.skip = saved.get("skip", 0)
        self.origins = list(saved["held"])
        self.items = [recall(origin) for origin in self.origins]


class Grouped(LastOrigin):
    """Items taken and not yielded, in several lists.

    >>> at = Grouped(2)
    >>> at.take("a", 1)
    >>> at.items
    [[], ['a']]
    """

    def __init__(self, groups: int = 0) -> None:
        self.items: list[list[Any]] = [[] for _ in range(groups)]
        self.origins: list[list[Json]] = [[] for _ in range(groups)]
        self._arrived: list[Any] = []  # the item that is in no group yet
        self._origin: Json = None  # of the item that arrived last

    def arrivals(self, items: Iterable[Any]) -> Iterator[Any]:
        """Yield the items, each kept until it is taken into a group: finding its group may fail."""
        yield from self._arrived
        for item in items:
            self._arrived, self._origin = [item], self.upstream_origin()
            yield item
        self._arrived = []

    def take(self, item: Any, group: int) -> None:
        """Keep an item, or a part of it, in a group; the number after the last one makes a new group."""
        self._arrived = []
        if group == len(self.items):
            self.items.append([])
            self.origins.append([])
        self.items[group].append(item)
        self.origins[group].append(self._origin)

    def hand(self, group: int) -> None:
        """Empty a group: its items are about to be yielded as one."""
        self.handed = None if None in self.origins[group] else self.origins[group]
        self.items[group], self.origins[group] = [], []

    def remove(self, group: int) -> None:
        """Empty a group and remove it."""
        self.hand(group)
        del self.items[group], self.origins[group]

    def save(self) -> Json:
        """Return the origins, group by group."""
        arrived = {"arrived": recallable([self._origin])} if self._arrived else {}
        return {"held": [recallable(origins) for origins in self.origins], **arrived}

    def load(self, saved: Json, recall: Recall) -> None:
        """Fill the groups again by the origins."""
        self.origins = [list(origins) for origins in saved["held"]]
        self.items = [[recall(origin) for origin in origins] for origins in self.origins]
        if "arrived" in saved:
            [self._origin] = saved["arrived"]
            self._arrived = [recall(self._origin)]


class Counted(Progress):
    """How many items were taken.

    >>> Counted().save()
    {'taken': 0}
    """

    def __init__(self) -> None:
        self.taken = 0

    def save(self) -> Json:
        """One number."""
        return {"taken": self.taken}

    def load(self, saved: Json, recall: Recall) -> None:
        """Go on counting."""
        self.taken = saved["taken"]


def recallable(origins: list[Json]) -> list[Json]:
    """Return a copy of the origins, if all items can be read again.

    >>> recallable([["a.tar", 0, 0], None])
    Traceback (most recent call last):
    webdataset.errors.StateError: a buffer holds 1 item of unknown origin, which could not be read again ...
    """
    unknown = sum(origin is None for origin in origins)
    if unknown:
        raise StateError(
            f"a buffer holds {unknown} item{'s' if unknown > 1 else ''} of unknown origin, "
            "which could not be read again",
            hint="read from shards or another source that knows origins, and keep stages of your own, which may hide "
            "them, after shuffle()",
        )
    return list(origins)
