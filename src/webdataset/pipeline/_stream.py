"""The items of a pipeline, pass after pass, with a place that can be saved.

Nothing here refers back to the pipeline, and no generator is held by what it refers to: so when a user forgets an
iteration, its files, threads and processes go at once and not with some later garbage collection.
"""

from __future__ import annotations

import inspect
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from webdataset import world
from webdataset.errors import StateError
from webdataset.flow import Json, Pass

from ._epochs import EpochCounter
from ._merge_states import check_place, is_portable
from ._running import Running


@dataclass(frozen=True)
class Passes:
    """What is repeated: the stages, how often, and how they are run (settings of `Running`)."""

    stages: Sequence[Any]
    seed: int
    epochs: EpochCounter
    repetitions: int
    how: dict[str, Any] = field(default_factory=dict)

    def run(self, epoch: int, state: Json = None) -> Running:
        """Start the pass number `epoch`, from the beginning or from a saved state."""
        return Running(self.stages, Pass(self.seed, epoch, world.current()), state=state, **self.how)


class Stream:
    """Up to so many passes, one after the other.

    >>> stream = Stream(Passes([[1, 2]], 0, EpochCounter(), repetitions=2))
    >>> list(stream.epoch(3)), list(stream.epoch(3))
    ([1, 2, 1], [2])
    """

    def __init__(self, passes: Passes, state: Json = None) -> None:
        if state is not None:
            check_place(state)
        self._at = _At(passes, state)
        self._items = self._at.items(begun=state is not None and state["pass"] is not None)
        self._in_epoch = state["in_epoch"] if state else 0
        self._skip = state.get("skip", 0) if state else 0  # items that were handed on after the state was saved

    def epoch(self, size: int) -> Iterator[Any]:
        """The next `size` items, or all of them if `size` is not positive."""
        self._leave_out_skipped()
        if size <= 0:
            yield from self._items
            return
        for item in islice(self._items, size - self._in_epoch):
            self._in_epoch += 1
            yield item
        self._in_epoch = 0

    def _leave_out_skipped(self) -> None:
        for _ in islice(self._items, self._skip):
            self._in_epoch += 1
        self._skip = 0

    def next_epoch(self) -> Stream | None:
        """This stream, ready for another epoch, or None when it has ended, be it by an error or Ctrl-C."""
        self._in_epoch = 0  # an epoch that was left early is over
        return None if inspect.getgeneratorstate(self._items) == inspect.GEN_CLOSED else self

    def state(self) -> Json:
        """Where the stream is, as JSON; after the last item of the last pass, the beginning of the next pass."""
        state = {**self._at.state(), "in_epoch": self._in_epoch}
        if not is_portable(state["pass"]):
            here = world.current()
            state["world"] = [here.ranks, here.workers]
        return {**state, "skip": self._skip} if self._skip else state

    @property
    def origin(self) -> Json:
        """Of the item that was handed on last: its pass, and its origin in that; None if nobody can tell."""
        running = self._at.running
        origin = running.origin
        return None if origin is None else {"epoch": running.during.epoch, "item": origin}

    @property
    def pass_number(self) -> int:
        """The number of the pass that is being read."""
        return self._at.running.during.epoch

    def close(self) -> None:
        """Close what the current pass holds open."""
        self._items.close()
        self._at.running.close()


class _At:
    """Which pass it is, and how many were before it."""

    def __init__(self, passes: Passes, state: Json) -> None:
        self._passes = passes
        self._done = state["passes"] if state else 0
        self.finished = False
        if state:
            if "world" in state:
                _check_world(state["world"])
            passes.epochs.go_on(state["epoch"])
            self.running = passes.run(state["epoch"], state["pass"])
        else:
            self.running = passes.run(passes.epochs.next())

    def items(self, *, begun: bool) -> Generator[Any, None, None]:
        """The items of all passes; an empty pass is the last, unless it was saved after its last item (`begun`)."""
        try:
            while True:
                empty, begun = not begun, False
                first = list(islice(self.running.items, 1))
                empty = empty and not first
                while first:
                    self.running.handed_on += 1
                    yield first.pop()  # and keep no name for it: a batch that the user has forgotten must not live on
                    first = list(islice(self.running.items, 1)) if self.running.counts else []
                yield from self.running.items
                self._done += 1
                if empty or self._done >= self._passes.repetitions:
                    self.finished = True
                    return
                epoch = self.running.during.epoch + 1
                self._passes.epochs.begin(epoch)
                self.running = self._passes.run(epoch)
        finally:
            self.running.close()

    def state(self) -> dict[str, Json]:
        if self.finished:
            return {"epoch": self.running.during.epoch + 1, "passes": 0, "pass": None}
        return {"epoch": self.running.during.epoch, "passes": self._done, "pass": self.running.state()}


def _check_world(saved: Json) -> None:
    here = world.current()
    if not isinstance(saved, list) or len(saved) != 2:
        raise StateError(f"the checkpoint says {saved!r:.40} for its ranks and workers", hint="load one that was saved")
    if saved != [here.ranks, here.workers]:
        raise StateError(
            f"the checkpoint is of {saved[0]} ranks with {saved[1]} workers, here are {here.ranks} with {here.workers}",
            hint="a stream without an index resumes on the same numbers; index the shards to resume on any",
        )
