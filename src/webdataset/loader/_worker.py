"""The part of the loader that runs in a worker process: the dataset, made into parcels, each with its place."""

from __future__ import annotations

import pickle
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import dropwhile
from typing import Any

from webdataset import recycle, world
from webdataset.errors import StageError
from webdataset.flow import Json, PerItem, Resumable
from webdataset.pipeline import DataPipeline, TorchIterable
from webdataset.stages import Batched, Bucketed
from webdataset.stores import counters, growth

from ._item_state import Batching, Tagged, batched, tagged
from ._meter import Meter, timed
from ._pin_memory import pinned
from ._shared_memory import Blocks
from ._stage_timer import Watch
from ._transfer import Parcel, pack


@dataclass(frozen=True)
class Start:
    """Where the workers begin.

    `turn` is the worker whose item comes next. torch asks the workers in turns, beginning with the first; so those
    before `turn` send one empty message ahead.
    """

    places: list[Json]
    turn: int = 0


@dataclass(slots=True)
class Post:
    """A message of a worker: an item with its place, or a failure, or nothing; and what was counted meanwhile."""

    worker: int
    parcel: Parcel | Unpacked | None = None
    place: Tagged | None = None
    failure: Failure | None = None
    counted: dict[str, tuple[int, float]] = field(default_factory=dict)
    moved: dict[str, float] = field(default_factory=dict)

    def pin_memory(self) -> Any:
        """Called by torch's pinning thread where there is a device to copy to."""
        if self.parcel is not None:
            self.parcel = Unpacked(pinned(self.parcel.unpack()))
        return self


@dataclass(slots=True)
class Unpacked:
    """A value that does not travel."""

    value: Any

    def unpack(self) -> Any:
        """The value, once."""
        value, self.value = self.value, None
        return value


class Failure:
    """An exception of a worker, as it was, with the traceback that it had there."""

    def __init__(self, error: Exception, worker: int) -> None:
        text = "".join(traceback.format_exception(error)).rstrip()
        error.add_note(f"in worker process {worker}:\n{text}")
        try:
            self._pickled = pickle.dumps(error)
            pickle.loads(self._pickled)  # noqa: S301  # our own: some exceptions can be pickled and not unpickled
        except Exception:
            self._pickled = pickle.dumps(StageError(f"{type(error).__name__} in worker process {worker}:\n{text}"))

    def raise_again(self) -> None:
        """Raise it here."""
        raise pickle.loads(self._pickled)  # noqa: S301  # our own


@dataclass(eq=False)
class Posted(TorchIterable):
    """What torch gives to its workers instead of the dataset.

    Args:
        dataset: what is read.
        batching: how to make batches of its items.
        convert: what becomes of every item or batch.
        start: where to begin the first epoch.
        blocks: how many blocks of shared memory a worker keeps for its batches; with none they travel through the pipe.
        watched: time every single stage.
    """

    dataset: DataPipeline
    batching: Batching | None
    convert: Callable[[Any], Any]
    start: Start | None = None
    blocks: int = 0
    watched: bool = False
    _blocks: Blocks | None = field(default=None, repr=False)

    def __iter__(self) -> Iterator[Post]:
        """The messages of this worker, for one epoch."""
        here = world.current().worker
        start, self.start = self.start, None
        if start is not None and here < start.turn:
            yield Post(here)
        if self._blocks is None and self.blocks:
            self._blocks = Blocks(self.blocks)
            if _lets_go(self.dataset, self.batching):
                recycle.use_for_batches(self._blocks.room)
        before = counters.snapshot()
        try:
            for post in self.posts(here, start.places[here] if start is not None else None):
                self._pack(post)
                now = counters.snapshot()
                post.moved, before = growth(before, now), now
                yield post
            yield Post(here, moved=counters.since(before))  # a stream says what it moved when it ends
        except Exception as error:
            yield Post(here, failure=Failure(error, here))

    def _pack(self, post: Post) -> None:
        began = time.perf_counter()
        post.parcel = pack(post.parcel.unpack(), self._blocks) if post.parcel is not None else None
        spent = time.perf_counter() - began
        post.counted["packing"] = (1, spent)

    def posts(self, here: int, place: Json) -> Iterator[Post]:
        """The items of one epoch, each with its place and what was counted since the one before; not packed yet."""
        meter = Meter()
        how = {"watch": Watch(meter)} if self.watched else {}
        tags = batched(tagged(self.dataset.open(place, **how), self.dataset.nsamples), self.batching)
        for tag in timed(tags, meter, "busy"):
            with meter.timing("busy"):
                item = Unpacked(self.convert(tag.item))
            counted = {name: (meter.counts[name], meter.seconds[name]) for name in meter.counts}
            meter.clear()
            with meter.timing("idle"):
                yield Post(here, item, tag._replace(item=None), counted=counted)


def _lets_go(dataset: DataPipeline, batching: Batching | None) -> bool:
    """Whether a batch stays as it is once it has been handed on: a generator of the user's may go on to change it."""
    stages = list(dropwhile(lambda stage: not isinstance(stage, (Batched, Bucketed)), dataset.pipeline))
    if not stages:
        return batching is not None
    return all(isinstance(stage, (PerItem, Resumable)) for stage in stages)
