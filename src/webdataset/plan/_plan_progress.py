"""How far a reader is in its part of an epoch."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from webdataset.flow import Json, Origin, Pass, Progress, Recall
from webdataset.order import Order, Reader, Remaining, numbers_of

from ._plan_state import PlanState

Ints = NDArray[np.int64]

# The mark of a sample in its origin: the value of its field `__pad__`; empty if it has no such field.
COUNTED, PADDING = "counted", "padding"


class Holding(Protocol):
    """The progress of a stage that may hold samples, as `PlanProgress.state` reads it."""

    origins: Sequence[Json]
    stopped: bool


class PlanProgress(Progress):
    """What remained of the epoch when this process began, and how many positions of its own part it took since."""

    def __init__(self, during: Pass, order: Order, batch: int = 1, last: str | None = None) -> None:
        self.during, self.order = during, order
        self.remaining = Remaining(len(order))
        self.taken = 0
        self.number: int | None = None  # of the sample that was yielded last; None if it follows from `taken`
        self.mark = ""  # of that sample: COUNTED, PADDING or empty
        self._batch, self._last = batch, last
        self._identity = self.reader()
        self._begun = 0
        self._in_step = True

    @property
    def origin(self) -> Json:
        """The mark of the sample that was yielded last, its number in the order of storage, and how many were taken."""
        number = self.remaining.position + self.taken - 1 if self.number is None else self.number
        return Origin(self.mark, number, self.taken) if self.taken else None

    def reader(self) -> Reader:
        """Return which reader this is, and how many positions it took."""
        here = self.during.world
        return Reader(here.rank, here.ranks, here.worker, here.workers, self._batch, self.taken)

    def turns(self) -> int:
        """Return how many positions this reader has in total, padding included."""
        here = self.during.world
        steps = self.remaining.steps(self._batch, here.ranks, "pad" if here.ranks == 1 else self._last or "pad")
        return len(steps.of_worker(here.worker, here.workers)) * self._batch

    def numbers(self, first: int, stop: int) -> Ints:
        """Return the numbers, in what remains, of some turns of this reader; numbers after the end are padding."""
        numbers = numbers_of(self.reader(), np.arange(first, stop))
        # One rank needs no padding for equal steps: its last step is short.
        return numbers[numbers < len(self.remaining)] if self.during.world.ranks == 1 else numbers

    def positions(self, first: int, stop: int) -> Ints:
        """Return the positions of some turns of this reader; padding begins the epoch again."""
        return self.remaining.positions(self.numbers(first, stop))

    def state(self, holding: Iterable[Holding], yielded: int, *, drops: bool) -> PlanState:
        """Return where this reader is. Samples that were taken and not yielded are read again on resume.

        If a handler has ended the stream, all positions of this reader are done. The readers are in step if every
        position taken was yielded, in batches: then all ranks are at the same step.

        Args:
            holding: the progresses of the stages that may hold samples.
            yielded: how many batches were yielded.
            drops: whether a stage may leave samples out.
        """
        taken = self.turns() if self.stopped else self.taken
        for progress in holding:
            if progress.stopped:
                taken = self.turns()
            elif progress.origins:
                taken = min(taken, next(_samples(progress.origins[0]))[2] - 1)
        in_step = self._in_step and not drops and taken - self._begun == yielded * self._batch
        return PlanState(self.remaining, (self._identity._replace(taken=taken),), in_step)

    def save(self) -> Json:
        """Return what remained, and how much of it this reader took, as JSON."""
        return PlanState(self.remaining, (self.reader(),), in_step=False).to_json()

    def load(self, saved: Json, recall: Recall) -> None:
        """Go on as one of the readers that were saved, or with what remains after all of them."""
        state = saved if isinstance(saved, PlanState) else PlanState.from_json(saved)
        state.remaining.check_samples(len(self.order))
        self.remaining, self.taken = state.for_reader(self._identity)
        self._begun = self.taken
        self._in_step = state.in_step or self.remaining is not state.remaining


def _samples(origin: Json) -> Iterator[Any]:
    """Yield the origins of the samples of an item, which may be a batch."""
    if isinstance(origin, list):
        for part in origin:
            yield from _samples(part)
    else:
        yield origin
