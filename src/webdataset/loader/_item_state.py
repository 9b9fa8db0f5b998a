"""Where a dataset was when the item that was handed on last left it; this rides beside the items.

Asking a pipeline for its state costs something (a shuffle lists what it holds), and a loader needs the state beside
every item, because nobody knows at which one the user will stop. So it is asked as often as costs a fiftieth of the
time, and in between the items are counted: a place is a state and how many items to leave out after it. The
place in a plan is a few integers; it is asked for at every item, and needs no leaving out.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any, NamedTuple

from webdataset.errors import StateError
from webdataset.flow import Json, Progress, Recall
from webdataset.pipeline import Stream, is_plan, settled

# A state takes 5 µs where nothing is held and 0.1 ms with a thousand samples in a shuffle: so every 0.25 ms, or 5 ms.
_PAUSE = 50


class Tagged(NamedTuple):
    """An item, and the place after it: a state (or why there is none) and the items handed on since."""

    item: Any
    state: Json | StateError
    since: int


class Batching(NamedTuple):
    """How a loader makes batches of a dataset that yields samples."""

    size: int
    collate: Callable[[list[Any]], Any]
    drop_last: bool = False


def described(dataset: Any, batching: Batching | None, workers: str) -> str:
    """What a checkpoint remembers of a loader: the dataset has stages of its own, and a plan goes on with any workers.

    >>> described([1, 2], None, "threads")
    'WebLoader(batching=None, workers=threads)'
    """
    planned = getattr(dataset, "plan", None) is not None
    return f"WebLoader({batching=})" if planned else f"WebLoader({batching=}, {workers=!s})"


def tagged(stream: Stream, size: int) -> Iterator[Tagged]:
    """The items of one epoch, each with the place after it.

    >>> from webdataset.pipeline import DataPipeline
    >>> dataset = DataPipeline([1, 2])
    >>> first, second = tagged(dataset.open(), -1)
    >>> list(dataset.open(place(first)).epoch(-1))
    [2]
    """
    state, since, pause_ends = _ask(stream), 0, 0.0
    for item in stream.epoch(size):
        since += 1
        now = time.perf_counter()
        if now >= pause_ends or is_plan(state):
            said = _ask(stream)
            if not isinstance(said, StateError) or isinstance(state, StateError):  # else count on from the last one
                state, since = said, 0
            asked = time.perf_counter()
            pause_ends = asked + _PAUSE * (asked - now)
        yield Tagged(item, state, since)


def batched(tags: Iterator[Tagged], batching: Batching | None) -> Iterator[Tagged]:
    """Put items together; the place of a batch is that of its last item."""
    if batching is None:
        yield from tags
        return
    while group := list(islice(tags, batching.size)):
        if len(group) == batching.size or not batching.drop_last:
            yield group[-1]._replace(item=batching.collate([tag.item for tag in group]))


def place(tag: Tagged) -> Json:
    """The place of a tag as JSON, to be given to `Stream`; raises what made it impossible."""
    if isinstance(tag.state, StateError):
        raise tag.state
    skip = tag.state.get("skip", 0) + tag.since
    return {**tag.state, "skip": skip} if skip else tag.state


def _ask(stream: Stream) -> Json | StateError:
    try:
        return stream.state()
    except StateError as error:  # the run goes on; only whoever wants to save it hears of this
        return error


class Place(Progress):
    """The progress of a stage that is a whole dataset: the place after the last item."""

    def __init__(self) -> None:
        self.tag: Tagged | None = None
        self.before: Tagged | None = None  # the tag of the item before
        self.loaded: Json = None

    def begin(self, stream: Stream) -> None:
        """Be where the stream is before its first item: should that one fail, its epoch has begun nevertheless."""
        self.tag = Tagged(None, _ask(stream), 0)

    def take_back(self) -> bool:
        """The place before the last item."""
        self.tag = self.before
        return True

    def save(self) -> Json:
        """The place as JSON, or None before the beginning."""
        return settled([place(self.tag)]) if self.tag is not None else self.loaded

    def load(self, saved: Json, recall: Recall) -> None:
        """Go on after that item."""
        self.loaded = saved
