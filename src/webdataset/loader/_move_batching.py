"""Batches are made inside the dataset: then a plan can share whole steps, and one mechanism saves every state."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

from webdataset.arguments import require_count
from webdataset.pipeline import DataPipeline, FluidWrapper
from webdataset.plan import ArrayBatches
from webdataset.stages import Batched, Bucketed, Listed, Unbatched, Unlisted, default_collation_fn


def batch_inside(
    dataset: DataPipeline, size: int, collate: Callable[[Sequence[Any]], Any] | None, drop_last: bool
) -> DataPipeline:
    """The dataset with batches of so many of its items.

    >>> list(batch_inside(DataPipeline([1, 2, 3]), 2, list, False))
    [[1, 2], [3]]

    A dataset whose epochs are cut (`with_epoch`, `repeat`) counts samples, so its batches are made around it.
    """
    batched = Batched(
        require_count("WebLoader", "batch_size", size, least=1),
        _DefaultCollation() if collate is None else collate,
        not drop_last,
    )
    if dataset.repetitions == 1 and dataset.nsamples <= 0:
        inner = dataset.compose(batched)
        inner.share_epochs(dataset)
        return inner
    return FluidWrapper(dataset).compose(batched)


def converted(item: Any) -> Any:
    """What torch's `DataLoader` makes of an item that is not batched: arrays are tensors, and tuples lists.

    >>> converted({"x": (1, "a")})
    {'x': [1, 'a']}
    """
    try:
        from torch.utils.data import default_convert
    except ImportError:
        return item
    return _converted(item, default_convert)


def _converted(item: Any, convert: Callable[[Any], Any]) -> Any:
    """The same as `convert`. A batch of JSON takes 0.1 µs a sample instead of 6: torch copies every dict."""
    kind = type(item)
    if kind is dict:
        return item if _are_plain(item.values()) else {name: _converted(each, convert) for name, each in item.items()}
    if kind is list and (_are_plain(item) or _are_plain_dicts(item)):
        return item
    if kind in {list, tuple}:
        return [_converted(each, convert) for each in item]
    return item if kind in _PLAIN else convert(item)


_PLAIN = frozenset({str, bytes, memoryview, int, float, bool, type(None)})


def _are_plain(values: Iterable[Any]) -> bool:
    return _PLAIN.issuperset(map(type, values))


def _are_plain_dicts(values: Sequence[Any]) -> bool:
    return {dict}.issuperset(map(type, values)) and _are_plain(chain.from_iterable(map(dict.values, values)))


def as_it_is(item: Any) -> Any:
    """The item itself: batches that were made inside the dataset are not converted again."""
    return item


def default_batch_size(dataset: Any) -> int | None:
    """The batch size that was not given: None where the dataset makes batches itself, else 1, as in torch.

    >>> default_batch_size(DataPipeline([1, 2], Batched(2))), default_batch_size(DataPipeline([1, 2]))
    (None, 1)
    """
    return None if makes_batches(dataset) else 1


def makes_batches(dataset: Any) -> bool:
    """Whether what a dataset yields are batches, as far as its stages tell."""
    if isinstance(dataset, ArrayBatches):
        return True
    stages: Sequence[Any] = dataset.pipeline if isinstance(dataset, DataPipeline) else ()
    for stage in reversed(stages):
        if isinstance(stage, (Batched, Bucketed, Listed)):
            return True
        if isinstance(stage, (Unbatched, Unlisted)):
            return False
    return bool(stages) and makes_batches(stages[0])


@dataclass(frozen=True)
class _DefaultCollation:
    """torch's collation where torch is installed, for every kind of loader; a checkpoint does not tell it from ours."""

    def __call__(self, samples: Sequence[Any]) -> Any:
        try:
            from ._collate_shared import default_collate
        except ImportError:  # threads, and a loader without workers, do not need torch
            return default_collation_fn(samples)
        return default_collate(samples)

    def __eq__(self, other: object) -> bool:
        return other is default_collation_fn or isinstance(other, _DefaultCollation)

    def __hash__(self) -> int:
        return hash(_DefaultCollation)
