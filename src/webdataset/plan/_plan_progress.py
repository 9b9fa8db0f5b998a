"""How far a reader is in its part of an epoch, and what it leaves to others."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Protocol

from webdataset.errors import StateError
from webdataset.flow import Json, Origin, Pass, Progress, Recall
from webdataset.order import Order, Reader, Remaining

# What an origin says of a sample besides its number: that it is marked, and as what.
COUNTED, PADDING = "counted", "padding"


class Holding(Protocol):
    """A progress of what was taken and not handed on."""

    origins: Sequence[Json]


class PlanProgress(Progress):
    """What was left of the epoch when this process began, and how many of its own positions it took since."""

    def __init__(self, during: Pass, order: Order, batch: int = 1, last: str | None = None) -> None:
        self.during, self.order = during, order
        self.rest = Remaining(len(order))
        self.taken = 0
        self.number: int | None = None  # of the sample that was handed on last, where that is not plain from the count
        self.mark = ""  # of that sample
        self._batch, self._last = batch, last
        self._me = self.reader()[:-1]
        self._begun = 0
        self._even = True
        self._saved = self.rest.save()

    @property
    def origin(self) -> Json:
        """The number, in the order of storage, of the sample that was handed on last, and which of mine it is."""
        number = self.rest.position + self.taken - 1 if self.number is None else self.number
        return Origin(self.mark, number, self.taken) if self.taken else None

    def reader(self) -> Reader:
        """Who this is and how much it took."""
        here = self.during.world
        return Reader(here.rank, here.ranks, here.worker, here.workers, self._batch, self.taken)

    def turns(self) -> int:
        """How many positions, padding included, are this reader's in all."""
        here = self.during.world
        steps = self.rest.steps(self._batch, here.ranks, "pad" if here.ranks == 1 else self._last or "pad")
        return len(steps.of_worker(here.worker, here.workers)) * self._batch

    def place(self, holding: Iterable[Holding], handed_on: int, *, drops: bool) -> Json:
        """Where this reader is for whoever goes on: without what was not handed on, which will be read again.

        `even` says that every position taken was handed on, in batches: then all ranks are at the same step.
        """
        taken = self.taken
        for each in holding:
            if each.origins:
                taken = min(taken, next(_samples(each.origins[0]))[2] - 1)
        even = self._even and not drops and taken - self._begun == handed_on * self._batch
        return {"rest": self._saved, "readers": [[*self._me, taken]], "even": even}

    def save(self) -> Json:
        """The rest, and how much of it this reader took."""
        return {"rest": self._saved, "readers": [list(self.reader())]}

    def load(self, saved: Json, recall: Recall) -> None:
        """Go on with a rest, as one of the readers that were saved, if they were."""
        self.rest = Remaining.load(saved["rest"], len(self.order))
        self._saved = self.rest.save()
        if "readers" in saved:
            self.taken = self._begun = self._myself(saved["readers"]).taken
            self._even = False

    def _myself(self, readers: Any) -> Reader:
        me = self.reader()
        for each in readers:
            if tuple(each[:-1]) == me[:-1]:
                return Reader(*each)
        rank, ranks, _, workers, batch, _ = readers[0]
        raise StateError(
            f"the checkpoint is that of rank {rank} of {ranks} with {workers} workers and batches of {batch}; here is "
            f"rank {me.rank} of {me.ranks} with {me.workers} workers and batches of {me.batch}",
            hint="samples were dropped, so ranks are at different places: join the checkpoints of all ranks with "
            "wds.merge_states to resume on another topology",
        )


def _samples(origin: Json) -> Iterator[Any]:
    """The origins of the samples in an item, which may be a batch."""
    if isinstance(origin, list):
        for part in origin:
            yield from _samples(part)
    else:
        yield origin
