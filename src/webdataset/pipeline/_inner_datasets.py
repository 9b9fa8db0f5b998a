"""The datasets inside a dataset: their seeds, the weights of mixes, and which of them decides the epoch."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from webdataset.errors import SpecError

from ._stage_kinds import is_drawn_by_torch, is_opaque

if TYPE_CHECKING:
    from ._source_choice import Shares


def inner_datasets(dataset: Any) -> Iterator[Any]:
    """Yield the datasets inside this one, at any depth, also those of loaders."""
    for inner in directly_inside(dataset):
        yield inner
        yield from inner_datasets(inner)


def directly_inside(dataset: Any) -> Iterator[Any]:
    """Yield the datasets that are stages of this one, and those that its stages read."""
    for stage in dataset.pipeline:
        yield from filter(_is_dataset, (getattr(stage, "dataset", None), *_together(stage)))


def inner_seeds(dataset: Any) -> Iterator[int]:
    """Yield the seeds of the datasets inside this one, but not those of loaders: their checkpoints have them."""
    for stage in dataset.pipeline:
        for inner in _together(stage):
            if _is_dataset(inner):
                yield inner.seed
                yield from inner_seeds(inner)


def _together(stage: Any) -> tuple[Any, ...]:
    """A stage that may be a dataset, and what it mixes or joins."""
    return stage, *getattr(stage, "datasets", ()), *getattr(stage, "sources", ())


def shares_of_mixes(dataset: Any) -> list[Shares]:
    """The weights of every mix inside, and of the dataset itself, if it is one."""
    return [each.shares for each in (dataset, *inner_datasets(dataset)) if each.shares is not None]


def check_owner_of_epoch(dataset: Any) -> None:
    """Refuse a dataset inside which `set_epoch` was called on another one: it would apply to some passes only."""
    if any(inner._epochs.requested for inner in inner_datasets(dataset)):
        raise SpecError(
            "set_epoch was called on a dataset inside another one, which decides about the epoch",
            hint="call set_epoch on the outer one",
        )


def is_repeatable(dataset: Any) -> bool:
    """Whether a pass that is run again has the same order, judged by the stages."""
    return not any(is_drawn_by_torch(stage) for each in (dataset, *inner_datasets(dataset)) for stage in each.pipeline)


def is_replayed(dataset: Any) -> bool:
    """Whether a pass that was left can be resumed only by reading it from its beginning: a stage is of unknown kind."""
    return any(is_opaque(stage) and not _is_dataset(stage) for stage in dataset.pipeline)


def _is_dataset(value: Any) -> bool:
    return isinstance(getattr(value, "pipeline", None), list) and hasattr(value, "shares")
