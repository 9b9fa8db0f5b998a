"""How far a reader is in its part of an epoch, and what it leaves to others."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from webdataset.flow import Json, Origin, Pass, Progress, Recall
from webdataset.order import Order, Reader, Remaining, numbers_of

from ._plan_state import PlanState

Ints = NDArray[np.int64]

# What an origin says of a sample besides its number: that it is marked, and as what.
COUNTED, PADDING = "counted", "padding"


class Holding(Protocol):
    """A progress of what was taken and not yielded, unless a handler has ended its stream."""

    origins: Sequence[Json]
    stopped: bool


class PlanProgress(Progress):
    """What remained of the epoch when this process began, and how many of its own positions it took since."""

    def __init__(self, during: Pass, order: Order, batch: int = 1, last: str | None = None) -> None:
        self.during, self.order = during, order
        self.remaining = Remaining(len(order))
        self.taken = 0
        self.number: int | None = None  # of the sample that was yielded last, where that does not follow from `taken`
        self.mark = ""  # of that sample
        self._batch, self._last = batch, last
        self._me = self.reader()
        self._begun = 0
        self._in_step = True

    @property
    def origin(self) -> Json:
        """The number, in the order of storage, of the sample that was yielded last, and which of mine it is."""
        number = self.remaining.position + self.taken - 1 if self.number is None else self.number
        return Origin(self.mark, number, self.taken) if self.taken else None

    def reader(self) -> Reader:
        """Which reader this is, and how much it took."""
        here = self.during.world
        return Reader(here.rank, here.ranks, here.worker, here.workers, self._batch, self.taken)

    def turns(self) -> int:
        """How many positions, padding included, this reader has in all."""
        here = self.during.world
        steps = self.remaining.steps(self._batch, here.ranks, "pad" if here.ranks == 1 else self._last or "pad")
        return len(steps.of_worker(here.worker, here.workers)) * self._batch

    def numbers(self, first: int, stop: int) -> Ints:
        """The numbers, in what remains, of these of my turns; those after the end are padding."""
        numbers = numbers_of(self.reader(), np.arange(first, stop))
        # With one rank no other one needs as many steps: the last one is short.
        return numbers[numbers < len(self.remaining)] if self.during.world.ranks == 1 else numbers

    def positions(self, first: int, stop: int) -> Ints:
        """The positions of these of my turns; padding begins the epoch again."""
        return self.remaining.positions(self.numbers(first, stop))

    def state(self, holding: Iterable[Holding], yielded: int, *, drops: bool) -> PlanState:
        """Where this reader is, without what was not yielded, which will be read again.

        If a handler has ended the stream, all positions of this reader are done. The readers are in step if every
        position taken was yielded, in batches: then all ranks are at the same step.
        """
        taken = self.turns() if self.stopped else self.taken
        for each in holding:
            if each.stopped:
                taken = self.turns()
            elif each.origins:
                taken = min(taken, next(_samples(each.origins[0]))[2] - 1)
        in_step = self._in_step and not drops and taken - self._begun == yielded * self._batch
        return PlanState(self.remaining, (self._me._replace(taken=taken),), in_step)

    def save(self) -> Json:
        """What remained, and how much of it this reader took."""
        return PlanState(self.remaining, (self.reader(),), in_step=False).to_json()

    def load(self, saved: Json, recall: Recall) -> None:
        """Go on as one of the readers that were saved, or with what they left."""
        state = saved if isinstance(saved, PlanState) else PlanState.from_json(saved)
        state.remaining.check_samples(len(self.order))
        self.remaining, self.taken = state.for_reader(self._me)
        self._begun = self.taken
        self._in_step = state.in_step or self.remaining is not state.remaining


def _samples(origin: Json) -> Iterator[Any]:
    """The origins of the samples in an item, which may be a batch."""
    if isinstance(origin, list):
        for part in origin:
            yield from _samples(part)
    else:
        yield origin
