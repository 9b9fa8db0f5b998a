"""Progress that is one number: how many items a stage has taken."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from webdataset.flow import Json, Pass, Progress, Recall, count_in


class CountTaken(Progress):
    """How many items were taken.

    >>> CountTaken().save()
    0
    """

    taken = 0

    def save(self) -> Json:
        """The number."""
        return self.taken

    def load(self, saved: Json, recall: Recall) -> None:
        """Go on counting."""
        self.taken = count_in(saved)


class Collected(CountTaken):
    """All items from upstream, which are taken again on resume, and how many items were yielded."""

    rewinds = True

    def __init__(self, during: Pass) -> None:
        self.during = during
        self.items: list[Any] = []
        self.origins: list[Json] = []
        self.last: Json = None

    @property
    def origin(self) -> Json:
        """The origin of the item that was yielded last."""
        return self.last

    def fill(self, items: Iterator[Any]) -> int:
        """Take all items; return how many there are."""
        for item in items:
            self.items.append(item)
            self.origins.append(super().origin)
        return len(self.items)
