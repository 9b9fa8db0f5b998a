"""What may be a stage of a pipeline, and how each kind is started."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from os import PathLike
from typing import Any

from webdataset.errors import SpecError, StageError
from webdataset.flow import PerItem, Resumable

from ._torch_iterable import is_iterable_dataset


class PipelineStage(ABC):
    """A stage as a class: derive from it and write `run`.

    >>> class Double(PipelineStage):
    ...     def run(self, src):
    ...         for number in src:
    ...             yield 2 * number
    >>> from webdataset.pipeline import DataPipeline
    >>> list(DataPipeline([1, 2], Double()))
    [2, 4]
    """

    def invoke(self, *args: Any, **kw: Any) -> Any:
        """The older name of `run`."""
        return self.run(*args, **kw)

    @abstractmethod
    def run(self, src: Iterator[Any], /) -> Iterator[Any]:
        """Turn one stream into another; the first stage is called without an argument."""


def is_stage(value: Any) -> bool:
    """Whether it can only be a stage or a dataset, not an item of data."""
    return callable(value) or isinstance(value, PipelineStage) or is_iterable_dataset(value)


def check_stage(stage: Any, *, first: bool) -> None:
    """Refuse an object that cannot run as a stage, where the pipeline is written."""
    if isinstance(stage, type) and issubclass(stage, PerItem | Resumable | PipelineStage):
        raise SpecError(f"expected a stage, got the class {stage.__name__}", hint="call it, as in wds.batched(16)")
    if callable(stage) or isinstance(stage, PipelineStage):
        return
    if first and isinstance(stage, str | bytes | PathLike):
        raise SpecError(f"{stage!r:.200} is a name, not a source", hint="wds.SimpleShardList(...) lists shards")
    if first and isinstance(stage, Iterable):
        return
    position = "the first stage" if first else "a stage after the first"
    raise SpecError(
        f"{stage!r:.200} is not a valid pipeline stage: {position} must be "
        + ("an iterable or a callable" if first else "a callable on an iterator"),
        hint="a stage is a generator function, or a call such as wds.map(f)",
    )


def is_opaque(stage: Any) -> bool:
    """Whether it is unknown what a stage holds: it is of a kind without a `Progress`."""
    return not isinstance(stage, (PerItem, Resumable))


def is_drawn_by_torch(stage: Any) -> bool:
    """Whether torch draws the order of every pass: a `DataLoader` with `shuffle=True`, or with a sampler that draws.

    >>> from torch.utils.data import DataLoader
    >>> is_drawn_by_torch(DataLoader([1, 2], shuffle=True)), is_drawn_by_torch(DataLoader([1, 2]))
    (True, False)
    """
    loader = getattr(stage, "loader", stage)  # `OnDevice` has torch's loader inside
    samplers = getattr(loader, "sampler", None), getattr(getattr(loader, "batch_sampler", None), "sampler", None)
    return any(hasattr(sampler, "generator") for sampler in samplers)


def invoke(stage: Any, items: Iterator[Any] | None) -> Iterator[Any]:
    """Start a stage of unknown kind on the stream before it (None for the first stage)."""
    if items is None and isinstance(stage, Iterable) and not isinstance(stage, PipelineStage):
        return iter(stage)
    run: Callable[..., Any] = stage.run if isinstance(stage, PipelineStage) else stage
    stream = run() if items is None else run(items)
    if not hasattr(stream, "__iter__") and not hasattr(stream, "__getitem__"):
        raise StageError(
            f"the stage {stage!r:.200} returned {stream!r:.80}, not an iterator",
            hint="a stage takes all samples and yields: is there a `yield`? For a function of one sample use map",
        )
    return iter(stream)
