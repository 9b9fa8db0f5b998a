"""Batches made inside the dataset: a plan can only share whole steps if it knows what a step is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from webdataset.pipeline import Plannable
from webdataset.stages import Batched, Listed, default_collation_fn

USUAL: Any = object()  # a batch size that was not given


def batch_inside(dataset: Any, batch_size: Any, settings: dict[str, Any], workers: str) -> tuple[Any, Any, Any]:
    """A planned dataset with its batches, no batch size, and what is left of the settings; any other as it was given.

    >>> batch_inside([1, 2], 2, {"drop_last": True}, "threads")
    ([1, 2], 2, {'drop_last': True})
    """
    size = _DEFAULT.get(workers) if batch_size is USUAL else batch_size
    if size is None or not isinstance(dataset, Plannable) or dataset.plan is None or _makes_batches(dataset):
        return dataset, batch_size, settings
    settings = dict(settings)
    collate, drop_last = settings.pop("collate_fn", None), settings.pop("drop_last", False)
    inner = dataset.compose(Batched(size, collate or _Usual(workers), not drop_last))
    inner.epochs = dataset.epochs  # `dataset.set_epoch()` goes on to number this loader's epochs
    return inner, None, settings


_DEFAULT = {"processes": 1, "threads": None}


def _makes_batches(dataset: Plannable) -> bool:
    return any(isinstance(stage, (Batched, Listed)) for stage in dataset.pipeline)


@dataclass(frozen=True)
class _Usual:
    """What each kind of loader makes batches with; a checkpoint does not tell them apart."""

    workers: str

    def __call__(self, samples: Sequence[Any]) -> Any:
        if self.workers == "threads":
            return default_collation_fn(samples)
        from ._collate_shared import default_collate

        return default_collate(samples)

    def __repr__(self) -> str:
        return "usual"
