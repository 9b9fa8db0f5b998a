"""The state that is attached to each item of a loader: where the dataset was after it.

Asking a run for its cursor costs something (a shuffle lists what it holds), and a loader needs one with every item,
because the user may stop at any of them. So it is asked as often as costs a fiftieth of the time, and in between the
items are counted: a cursor, and how many items to skip after it. The cursor of a plan is a few integers; it is asked
for at every item.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any, NamedTuple

from webdataset.errors import StateError
from webdataset.flow import Json, Pass, Progress, Recall
from webdataset.pipeline import Cursor, Nestable, NestedProgress, Run, RunOptions, as_cursor
from webdataset.plan import reads_by_plan

# A cursor takes 5 µs where nothing is held and 0.1 ms with a thousand samples in a shuffle: so every 0.25 ms, or 5 ms.
_PAUSE = 50


class Tagged(NamedTuple):
    """An item with its state: a cursor (or why there is none), the items yielded since, its pass, and its origin."""

    item: Any
    cursor: Cursor | StateError
    since: int
    epoch: int
    origin: Json = None

    def after(self) -> Cursor:
        """Where the dataset was after this item.

        Raises:
            StateError: it could not say.
        """
        if isinstance(self.cursor, StateError):
            raise self.cursor
        return self.cursor.after(self.since)


def described(dataset: Any, workers: str) -> str:
    """What a checkpoint remembers of a loader: the dataset has stages of its own, and a plan goes on with any workers.

    >>> described([1, 2], "threads")
    'WebLoader(batching=None, workers=threads)'
    """
    planned = reads_by_plan(getattr(dataset, "pipeline", ()))
    return "WebLoader(batching=None)" if planned else f"WebLoader(batching=None, workers={workers})"


def tagged(run: Run, *, origins: bool = False) -> Iterator[Tagged]:
    """The items of one epoch, each with its state.

    >>> from webdataset.pipeline import DataPipeline
    >>> dataset = DataPipeline([1, 2])
    >>> first, second = tagged(dataset.run(Cursor(epoch=0)))
    >>> list(dataset.run(first.after()).epoch())
    [2]
    """
    cursor, since, pause_ends, weights, asked_in = _ask(run), 0, 0.0, run.weights, run.pass_number
    for item in run.epoch():
        since += 1
        now = time.perf_counter()
        # A cursor knows the weights and the pass of its time; the next epoch follows from the pass.
        changed, later = weights and weights != run.weights, run.pass_number != asked_in
        if now >= pause_ends or changed or later or (isinstance(cursor, Cursor) and cursor.plan is not None):
            said = _ask(run)
            counts_on = isinstance(said, StateError) and isinstance(cursor, Cursor) and run.is_repeatable
            if not counts_on or changed:
                cursor, since = said, 0
            weights, asked_in = run.weights, run.pass_number
            asked = time.perf_counter()
            pause_ends = asked + _PAUSE * (asked - now)
        yield Tagged(item, cursor, since, run.pass_number, run.origin if origins else None)


def _ask(run: Run) -> Cursor | StateError:
    try:
        return run.cursor()
    except StateError as error:  # the run goes on; the error is raised if the state is asked for
        return error


class LoaderProgress(NestedProgress):
    """The progress of a loader whose dataset is read in this process: the state of the item that was yielded last."""

    def __init__(self, dataset: Nestable, during: Pass) -> None:
        super().__init__(dataset, during)
        self.tag: Tagged | None = None
        self.before: Tagged | None = None  # the tag of the item before
        self.complete = False

    def load(self, saved: Json, recall: Recall) -> None:
        """Start there, with the loader's options."""
        self.complete = isinstance(saved, dict) and "next" in saved
        self.start = as_cursor(saved["next"] if self.complete else saved)

    def begin(self, options: RunOptions) -> Run:
        """Start the dataset's epoch."""
        if self.run is None:
            self.run = self.dataset.run(self._known_start(), options)
        # Should the first item fail, its epoch has begun nevertheless.
        self.tag = Tagged(None, _ask(self.run), 0, self.run.pass_number)
        return self.run

    def note(self, tag: Tagged) -> None:
        """The item of this tag is yielded next, with no call in between: Ctrl-C comes when a call ends."""
        self.before, self.tag = self.tag, tag

    @property
    def origin(self) -> Json:
        """The origin of the item that was yielded last."""
        return None if self.tag is None else self.tag.origin

    def take_back(self) -> bool:
        """The state before the last item."""
        self.tag = self.before
        return True

    def save(self) -> Json:
        """The dataset's cursor after the last item; where the next epoch begins, if that does not follow from it."""
        if self.complete and not self.dataset.continues and self.save_next() is not None:
            return {"next": self.next_start()}
        return self._known_start() if self.tag is None else self.tag.after().settled()

    def next_start(self) -> Cursor:
        """The cursor that the dataset's next epoch begins with. Prefetched items do not count."""
        if self.complete:
            return super().next_start()
        if self.dataset.continues:
            return (self._known_start() if self.tag is None else self.tag.after()).next_epoch()
        return Cursor((self._known_start().epoch if self.tag is None else self.tag.epoch) + 1)

    def follow(self, before: Progress) -> None:
        """Go on with the run of the pass before, if it came to its end."""
        assert isinstance(before, LoaderProgress)
        if before.complete:
            super().follow(before)
            return
        Progress.follow(self, before)

    def close(self) -> None:
        """Close the dataset's files; a run that was left early is closed by the thread that reads it."""
        if self.complete:
            super().close()
