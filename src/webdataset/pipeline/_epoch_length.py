"""`len()` of a pipeline: how many items an epoch has, or an error."""

from __future__ import annotations

from typing import Any

from webdataset import world
from webdataset.plan import count_items

ENDLESS = 10**18


class KnownLength:
    """The length of a pipeline.

    Attributes:
        pipeline: the stages.
        size: the length that the user declared, or None.
        repetitions: how many passes an epoch has.
        nsamples: how many items an epoch has; any number if not positive.
    """

    pipeline: list[Any]
    size: int | None
    repetitions: int
    nsamples: int

    def __len__(self) -> int:
        length = self._length() if self.size is None else self.size
        if length is None:
            raise TypeError(
                f"the length of this {type(self).__name__} is unknown: it repeats for ever, mixes datasets, "
                "has no index, or a stage may leave samples out; declare it with .with_length(n)"
            )
        return length

    def _length(self) -> int | None:
        """How many items an epoch has; None if that is not known."""
        if self.nsamples > 0 and not self._sizes_epochs:
            return None
        items = self._source_items() if self.repetitions < ENDLESS else None
        return self._of_passes(None if items is None else count_items(self._counting_stages(), items))

    def _of_passes(self, items: int | None) -> int | None:
        """How many items an epoch has if a pass has `items`; None if that is not known."""
        if self.repetitions == ENDLESS:
            return self.nsamples if self.nsamples > 0 else None
        if items is None or self.nsamples <= 0:
            return None if items is None else items * self.repetitions
        return min(items * self.repetitions, self.nsamples)

    def _counting_stages(self) -> list[Any]:
        """The stages that change the number of the items of the first stage."""
        return self.pipeline[1:]

    @property
    def _sizes_epochs(self) -> bool:
        """Whether `with_epoch` sets the length: not for a stream, whose epoch has that many items in each worker."""
        return False

    def _source_items(self) -> int | None:
        """How many items the first stage has; None if that is not known."""
        first: Any = self.pipeline[0] if self.pipeline else None
        if not isinstance(first, KnownLength):
            return first.steps(world.current().ranks) if getattr(first, "planned", None) == "batches" else None
        return first._length() if first.size is None else first.size

    @property
    def _is_one_pass(self) -> bool:
        """Whether an epoch is exactly one pass."""
        return self.repetitions == 1 and self.nsamples <= 0
