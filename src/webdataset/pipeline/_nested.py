"""A dataset as a stage of another: the outer one decides its epoch, and its cursor is part of the outer cursor."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from webdataset.errors import StateError
from webdataset.flow import Json, Pass, Progress, Recall, Resumable

from ._cursor import Cursor, as_cursor
from ._run import Run
from ._running_pass import RunOptions


class Nestable(Protocol):
    """What a dataset must offer to be read inside another."""

    repetitions: int  # passes in an epoch

    @property
    def continues(self) -> bool:
        """Whether an epoch goes on where the one before it stopped."""

    def run(self, cursor: Cursor, options: RunOptions | None = None) -> Run:
        """An iteration that starts at this cursor."""

    def again(self, origin: Json) -> Any:
        """Make the item of a run's origin once more."""


class NestedProgress(Progress):
    """The run of a dataset inside another, and the cursor that it began this pass of the outer dataset with."""

    def __init__(self, dataset: Nestable, during: Pass) -> None:
        self.dataset = dataset
        self._number = during.epoch
        self.start: Cursor | StateError = Cursor(during.epoch)
        self.run: Run | None = None

    def open(self) -> Iterator[Any]:
        """The items of the dataset's epoch."""
        if self.run is None:
            self.run = self.dataset.run(self._known_start())
        return self.run.epoch()

    def _known_start(self) -> Cursor:
        if isinstance(self.start, StateError):
            raise self.start
        return self.start

    @property
    def origin(self) -> Json:
        """The origin of the item in the inner dataset, with the number of its pass."""
        return None if self.run is None else self.run.origin

    def save(self) -> Json:
        """The dataset's cursor."""
        return self._known_start() if self.run is None else self.run.cursor()

    def save_start(self) -> Json:
        """The cursor that this pass began with; None if that follows from the number of the pass."""
        start = self._known_start()
        return None if start == Cursor(self._number) else start

    def save_next(self) -> Json:
        """The cursor that the next pass begins with; None if that follows from the number of the pass."""
        start = self.next_start()
        return None if start == Cursor(self._number + 1) else start

    def next_start(self) -> Cursor:
        """The cursor that the dataset's next epoch begins with."""
        return self._known_start() if self.run is None else self.run.next_cursor(goes_on=self.dataset.continues)

    def restart(self) -> None:
        """Begin the dataset's next epoch in the same pass of the outer one."""
        if self.run is None or not self.run.can_go_on or not self.dataset.continues:
            self.start, self.run = self.next_start(), None

    def load(self, saved: Json, recall: Recall) -> None:
        """Go on from a saved cursor."""
        saved = as_cursor(saved)
        self.start = saved
        self.run = None if saved.is_beginning else self.dataset.run(saved)

    def follow(self, before: Progress) -> None:
        """Go on with the run of the pass before, if epochs continue; else begin as `before.save_next()` says."""
        assert isinstance(before, NestedProgress)
        run = before.run
        if run is None or not run.can_go_on or not self.dataset.continues:
            super().follow(before)
            return
        run.new_epoch()
        self.run = run
        try:
            self.start = run.cursor()
        except StateError as error:
            self.start = error

    def close(self) -> None:
        """Close the dataset's files."""
        if self.run is not None:
            self.run.close()


class PartsProgress(Progress):
    """Where several datasets inside another began this pass of the outer one, and their runs."""

    def __init__(self, parts: Sequence[NestedProgress]) -> None:
        self.parts = parts

    def save_start(self) -> Json:
        """How the datasets began this pass."""
        return _start([part.save_start() for part in self.parts])

    def save_next(self) -> Json:
        """How the datasets begin the next pass."""
        return _start([part.save_next() for part in self.parts])

    def load(self, saved: Json, recall: Recall) -> None:
        """Load the cursor of each dataset."""
        if len(saved["datasets"]) != len(self.parts):
            raise StateError(
                f"the checkpoint has {len(saved['datasets'])} datasets here, this pipeline has {len(self.parts)}",
                hint="load it into the pipeline that saved it",
            )
        for part, cursor in zip(self.parts, saved["datasets"], strict=True):
            if cursor is not None:
                part.load(cursor, recall)

    def follow(self, before: Progress) -> None:
        """Continue each dataset after its own pass before."""
        assert isinstance(before, PartsProgress)
        for part, earlier in zip(self.parts, before.parts, strict=True):
            part.follow(earlier)

    def end_pass(self) -> None:
        """Close the datasets whose next epoch does not continue this one."""
        for part in self.parts:
            if not part.dataset.continues:
                part.close()

    def close(self) -> None:
        """Close what the datasets have open."""
        for part in self.parts:
            part.close()


def _start(datasets: list[Json]) -> Json:
    return {"datasets": datasets} if any(each is not None for each in datasets) else None


@dataclass(frozen=True)
class Nested(Resumable):
    """The items of one epoch of a dataset, in every pass of the pipeline around it."""

    dataset: Any

    def start(self, during: Pass) -> NestedProgress:
        """Return the progress of a pass, whose number is that of the dataset's epoch."""
        return NestedProgress(self.dataset, during)

    def run(self, items: Iterator[Any], at: NestedProgress, /) -> Iterator[Any]:
        """Yield the items of the epoch."""
        try:
            yield from at.open()
        except BaseException as error:
            at.interrupted = not isinstance(error, GeneratorExit)
            raise
        finally:
            if not self.dataset.continues:
                at.close()

    def again(self, origin: Json, recall: Recall) -> Any:
        """Make the item again from the dataset."""
        return self.dataset.again(origin)

    def __repr__(self) -> str:
        return repr(self.dataset)
