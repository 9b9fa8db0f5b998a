"""Batches made inside the dataset: a plan can only share whole steps among ranks and workers if it knows what a step is."""

from __future__ import annotations

from typing import Any

from webdataset.errors import MissingDependency
from webdataset.pipeline import Plannable
from webdataset.stages import Batched, Listed, default_collation_fn


def batch_inside(dataset: Any, batch_size: int | None, settings: dict[str, Any], workers: str) -> tuple[Any, Any, Any]:
    """A planned dataset of samples with its batches, no batch size, and what is left of the settings; else all as given.

    >>> batch_inside([1, 2], 2, {"drop_last": True}, "threads")
    ([1, 2], 2, {'drop_last': True})
    """
    size = _DEFAULT[workers] if batch_size == -1 and workers in _DEFAULT else batch_size
    if size is None or not isinstance(dataset, Plannable) or dataset.plan is None or _makes_batches(dataset):
        return dataset, batch_size, settings
    settings = dict(settings)
    collate, drop_last = settings.pop("collate_fn", None), settings.pop("drop_last", False)
    inner = dataset.compose(Batched(size, collate or _usual(workers), not drop_last))
    inner.epochs = dataset.epochs  # `dataset.set_epoch()` goes on to number this loader's epochs
    return inner, None, settings


_DEFAULT = {"processes": 1, "threads": None}


def _makes_batches(dataset: Plannable) -> bool:
    return any(isinstance(stage, (Batched, Listed)) for stage in dataset.pipeline)


def _usual(workers: str) -> Any:
    if workers == "threads":
        return default_collation_fn
    try:
        from torch.utils.data import default_collate
    except ImportError as error:
        raise MissingDependency("torch", extra="torch", why="to start worker processes") from error
    return default_collate
