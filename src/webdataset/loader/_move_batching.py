"""Batches are made inside the dataset: then a plan can share whole steps, and one mechanism saves every state."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from webdataset.errors import SpecError
from webdataset.pipeline import DataPipeline, FluidWrapper, Plannable
from webdataset.stages import Batched, Listed, default_collation_fn


def batch_inside(
    dataset: DataPipeline, size: int, collate: Callable[[Sequence[Any]], Any] | None, drop_last: bool, workers: str
) -> DataPipeline:
    """The dataset with batches of so many of its items.

    >>> list(batch_inside(DataPipeline([1, 2, 3]), 2, list, False, "threads"))
    [[1, 2], [3]]

    A dataset whose epochs are cut (`with_epoch`, `repeat`) counts samples, so its batches are made around it.
    """
    if isinstance(size, bool) or not isinstance(size, int) or size < 1:
        raise SpecError(f"batch_size={size!r}", hint="a whole number, 1 or more, or None")
    batched = Batched(size, _DefaultCollation(workers) if collate is None else collate, not drop_last)
    if dataset.repetitions == 1 and dataset.nsamples <= 0:
        inner = dataset.compose(batched)
        inner.share_epochs(dataset)
        return inner
    return FluidWrapper(dataset).compose(batched)


def as_it_is(item: Any) -> Any:
    """The item itself: batches that were made inside the dataset are not converted again."""
    return item


def makes_batches(dataset: Any) -> bool:
    """Whether an indexed dataset makes batches itself: then they decide what a step is."""
    return (
        isinstance(dataset, Plannable)
        and dataset.plan is not None
        and any(isinstance(stage, (Batched, Listed)) for stage in dataset.pipeline)
    )


@dataclass(frozen=True)
class _DefaultCollation:
    """What each kind of loader makes batches with; a checkpoint does not tell them apart."""

    workers: str

    def __call__(self, samples: Sequence[Any]) -> Any:
        if self.workers == "processes":
            try:
                from ._collate_shared import default_collate
            except ImportError:  # a loader without workers does not need torch
                return default_collation_fn(samples)
            return default_collate(samples)
        return default_collation_fn(samples)

    def __eq__(self, other: object) -> bool:
        return other is default_collation_fn or isinstance(other, _DefaultCollation)

    def __hash__(self) -> int:
        return hash(_DefaultCollation)
