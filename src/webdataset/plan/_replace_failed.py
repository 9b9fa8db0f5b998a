"""Replace samples that failed or were filtered out, so that every rank has the same number of full batches.

With `failed="replace"` a plan yields slots: the number of a sample, and its value, `DROP` once it was left out. Slots
go through the functions of one sample as samples do. Where a batch is made, or at the end of the pipeline, each empty
slot is filled with a sample of the same batch, made again from its bytes and marked `__pad__`. If none of the batch
is left, the nearest one in the order of storage is used. So the replacement depends on the batch alone, and is the same
in a resumed run.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import chain, islice
from typing import Any, NamedTuple

from webdataset.errors import StageError
from webdataset.flow import DROP, EndOfStreamError, Origin, Recall
from webdataset.handlers import unnoted
from webdataset.stages import Batched

from ._plan_progress import PADDING

# How many samples are tried for a batch that has none left. More would keep all other ranks waiting.
_TRIES = 1000
_HINT = "check the handler and the filters: they leave out whole runs of samples"


class Slot(NamedTuple):
    """The number of a sample in the order of storage, and its value: `DROP` once it was left out."""

    number: int
    value: Any


def in_slots(function: Callable[[Any], Any]) -> Callable[[Slot], Slot]:
    """Return the function of a sample as a function of its slot.

    >>> in_slots(lambda n: n if n % 2 else DROP)(Slot(7, 4))
    Slot(number=7, value=DROP)
    """

    def apply(slot: Slot) -> Slot:
        return slot if slot.value is DROP else Slot(slot.number, function(slot.value))

    return apply


def never_drops(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return the function of a whole batch with an error if it drops the batch, which cannot be replaced."""

    def apply(batch: Any) -> Any:
        result = function(batch)
        if result is DROP:
            raise StageError(
                "a function left out a whole batch, which failed='replace' cannot replace",
                hint="leave samples out before batched()",
            )
        return result

    return apply


class Replacements:
    """Fills empty slots.

    Args:
        samples: how many samples the dataset has.
        recall: makes the slot of an origin again, as it is before batching.
    """

    def __init__(self, samples: int, recall: Recall) -> None:
        self._samples, self._recall = samples, recall

    def one(self, slot: Slot) -> Any:
        """Return the value of a slot, or a replacement."""
        return self.fill([slot])[0]

    def batching(self, stage: Batched) -> Batched:
        """Return the same batching stage for slots."""
        collate = stage.collation_fn

        def filled(slots: Sequence[Slot]) -> Any:
            values = self.fill(slots)
            return values if collate is None else collate(values)

        return Batched(stage.batchsize, filled, stage.partial)

    def fill(self, slots: Sequence[Slot]) -> list[Any]:
        """Return the values of the slots, with a replacement for each empty one."""
        values = [slot.value for slot in slots]
        if not any(value is DROP for value in values):  # not `in`, which compares arrays
            return values
        good = deque(slot.number for slot in slots if slot.value is not DROP)
        for position, slot in enumerate(slots):
            if slot.value is DROP:
                values[position] = self._replacement(good, slot.number)
                good.rotate(-1)  # the next empty slot gets another sample
        return values

    def _replacement(self, good: Iterable[int], number: int) -> Any:
        """Return a sample of the batch, or else the nearest one, marked as padding."""
        for candidate in islice(chain(good, self._nearest(number)), _TRIES):
            # A handler may end the stream at a sample when it is read in its order, not when it replaces another.
            with unnoted(), suppress(EndOfStreamError):
                value = self._recall(Origin(PADDING, candidate, 0)).value
                if value is not DROP:
                    return value
        raise StageError(
            f"no sample to replace sample {number}: all of the {min(_TRIES, self._samples)} nearest failed, too",
            hint=_HINT,
        )

    def _nearest(self, number: int) -> Iterator[int]:
        return chain(range(number - 1, -1, -1), range(number, self._samples))
