"""Whether threads may read ahead: items that were read and not used must not change the next pass."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import Any

from webdataset.handlers import may_stop

from ._inner_datasets import inner_datasets
from ._stage_kinds import is_opaque


def must_not_read_ahead(dataset: Any) -> bool:
    """Whether reading ahead in a pass of this dataset could change the passes after it.

    It could if a pass may end before its input does, and the next pass begins where the input was left.

    >>> from webdataset import DataPipeline, slice
    >>> must_not_read_ahead(DataPipeline(DataPipeline([1, 2]).with_epoch(4), slice(3)))
    True
    >>> must_not_read_ahead(DataPipeline(DataPipeline([1, 2]), slice(3)))
    False
    """
    return _may_end_early(dataset) and _goes_on(dataset)


def _may_end_early(dataset: Any) -> bool:
    restarts = dataset.nsamples > 0 and not dataset.continues  # the epoch ends after so many items, inside a pass
    return restarts or any(_may_cut(stage) for stage in dataset.pipeline[1:])


def _may_cut(stage: Any) -> bool:
    return is_opaque(stage) or getattr(stage, "cuts", False) or may_stop(getattr(stage, "handler", None))


def _goes_on(dataset: Any) -> bool:
    inner = list(inner_datasets(dataset))
    stages = chain(dataset.pipeline, *(each.pipeline for each in inner))
    return any(each.continues or each.repetitions > 1 for each in inner) or any(
        getattr(stage, "carries", False) or isinstance(stage, Iterator) for stage in stages
    )
