"""The state that is attached to each item of a loader: where the dataset was after it.

Making a cursor takes time (a shuffle lists the samples in its buffer), and a loader needs one with every item, because
the user may stop at any of them. So a new cursor is made only so often that it takes a fiftieth of the time. In between
items are counted: their state is the last cursor, and how many items to skip after it. The cursor of a plan is a few
integers; it is made at every item.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any, NamedTuple

from webdataset.errors import StateError
from webdataset.flow import Json, Pass, Progress, Recall
from webdataset.pipeline import Cursor, Nestable, NestedProgress, Run, RunOptions, as_cursor
from webdataset.plan import reads_by_plan

# The pause after a cursor, in multiples of the time that it took. A cursor takes 5 µs where no stage holds samples, and
# 0.1 ms with a thousand samples in a shuffle: so there is one every 0.25 ms, or every 5 ms.
_PAUSE = 50


class Tagged(NamedTuple):
    """An item with its state.

    Attributes:
        item: the item.
        cursor: the latest cursor, or the error that says why there is none.
        since: how many items were yielded after the cursor was made.
        epoch: the number of the pass that the item is from.
        origin: where the item came from, if origins are kept.
    """

    item: Any
    cursor: Cursor | StateError
    since: int
    epoch: int
    origin: Json = None

    def after(self) -> Cursor:
        """Return the cursor after this item.

        Raises:
            StateError: the dataset has no cursor there.
        """
        if isinstance(self.cursor, StateError):
            raise self.cursor
        return self.cursor.after(self.since)


def loader_text(dataset: Any, workers: str) -> str:
    """Return the text that identifies a loader in a checkpoint: without the kind of workers if it reads a plan.

    >>> loader_text([1, 2], "threads")
    'WebLoader(batching=None, workers=threads)'
    """
    planned = reads_by_plan(getattr(dataset, "pipeline", ()))
    return "WebLoader(batching=None)" if planned else f"WebLoader(batching=None, workers={workers})"


def tagged(run: Run, *, origins: bool = False) -> Iterator[Tagged]:
    """Yield the items of one epoch, each with its state.

    >>> from webdataset.pipeline import DataPipeline
    >>> dataset = DataPipeline([1, 2])
    >>> first, second = tagged(dataset.run(Cursor(epoch=0)))
    >>> list(dataset.run(first.after()).epoch())
    [2]
    """
    cursor, since, pause_ends, weights, made_in = _cursor_of(run), 0, 0.0, run.weights, run.pass_number
    for item in run.epoch():
        since += 1
        now = time.perf_counter()
        # A cursor has the weights and the pass of the time when it was made; the next epoch follows from the pass.
        changed, later = weights and weights != run.weights, run.pass_number != made_in
        if now >= pause_ends or changed or later or (isinstance(cursor, Cursor) and cursor.plan is not None):
            latest = _cursor_of(run)
            keeps_counting = isinstance(latest, StateError) and isinstance(cursor, Cursor) and run.is_repeatable
            if not keeps_counting or changed:
                cursor, since = latest, 0
            weights, made_in = run.weights, run.pass_number
            made = time.perf_counter()
            pause_ends = made + _PAUSE * (made - now)
        yield Tagged(item, cursor, since, run.pass_number, run.origin if origins else None)


def _cursor_of(run: Run) -> Cursor | StateError:
    try:
        return run.cursor()
    except StateError as error:  # the run goes on; `state_dict()` raises the error
        return error


class LoaderProgress(NestedProgress):
    """The progress of a loader that reads its dataset in this process: the state of the item that was yielded last."""

    def __init__(self, dataset: Nestable, during: Pass) -> None:
        super().__init__(dataset, during)
        self.tag: Tagged | None = None
        self.before: Tagged | None = None  # the tag of the item before
        self.complete = False

    def load(self, saved: Json, recall: Recall) -> None:
        """Go on from a saved cursor."""
        self.complete = isinstance(saved, dict) and "next" in saved
        self.start = as_cursor(saved["next"] if self.complete else saved)

    def begin(self, options: RunOptions) -> Run:
        """Start the dataset's epoch with the loader's options."""
        if self.run is None:
            self.run = self.dataset.run(self._known_start(), options)
        # Now, not with the first item: if that fails, the epoch has begun nevertheless.
        self.tag = Tagged(None, _cursor_of(self.run), 0, self.run.pass_number)
        return self.run

    def note(self, tag: Tagged) -> None:
        """Note the item that is yielded next. No call may come between the two: Ctrl-C is raised when a call ends."""
        self.before, self.tag = self.tag, tag

    @property
    def origin(self) -> Json:
        """The origin of the item that was yielded last."""
        return None if self.tag is None else self.tag.origin

    def take_back(self) -> bool:
        """Go back to the state before the last item."""
        self.tag = self.before
        return True

    def save(self) -> Json:
        """Return the dataset's cursor after the last item, or that of the next epoch if it does not follow from it."""
        if self.complete and not self.dataset.continues and self.save_next() is not None:
            return {"next": self.next_start()}
        return self._known_start() if self.tag is None else self.tag.after().settled()

    def next_start(self) -> Cursor:
        """Return the cursor that the dataset's next epoch begins with. Prefetched items do not count."""
        if self.complete:
            return super().next_start()
        if self.dataset.continues:
            return (self._known_start() if self.tag is None else self.tag.after()).next_epoch()
        return Cursor((self._known_start().epoch if self.tag is None else self.tag.epoch) + 1)

    def follow(self, before: Progress) -> None:
        """Go on with the run of the pass before, if that pass is complete."""
        assert isinstance(before, LoaderProgress)
        if before.complete:
            super().follow(before)
            return
        Progress.follow(self, before)

    def close(self) -> None:
        """Close the dataset's files. A run that was left early is closed by the thread that reads it."""
        if self.complete:
            super().close()
