"""Where the datasets of all worker processes are, and whose turn it is."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from webdataset.errors import StateError
from webdataset.flow import Json, Pass, Progress, Recall
from webdataset.order import Remaining
from webdataset.pipeline import Cursor, InPlan, Nestable, as_cursor, check_types, is_replayed
from webdataset.plan import PlanState, join_workers

from ._item_state import Tagged

if TYPE_CHECKING:
    from ._worker import Message


class WorkerCursors(Progress):
    """Where the dataset of every worker was when the last of its items was yielded, and whose turn it is."""

    def __init__(self, dataset: Nestable, workers: int, during: Pass, *, origins: bool) -> None:
        self.dataset, self.workers, self.origins = dataset, workers, origins
        self.epoch = during.epoch
        self.starts: list[Cursor] | None = None  # given by a checkpoint, or by the epoch before
        self.turn = self.first_turn = 0
        self.tags: list[Tagged | None] = [None] * workers
        self.nexts: list[Cursor | None] = [None] * workers  # where the workers that came to their end begin next
        self.last: tuple[int, Tagged | None] = 0, None  # the worker of the last item, and its tag before that
        self.outcome = "left"
        self.iteration = 0  # which one of the loader

    def note(self, message: Message) -> None:
        """The item of this message is yielded next, with no call in between: Ctrl-C comes when a call ends."""
        self.last = message.worker, self.tags[message.worker]
        self.tags[message.worker] = message.tag
        self.turn = (message.worker + 1) % self.workers

    def take_back(self) -> bool:
        """The cursors before the last item, which is its worker's turn again."""
        self.turn = worker = self.last[0]
        self.tags[worker] = self.last[1]
        return True

    @property
    def origin(self) -> Json:
        """The origin of the item that was yielded last."""
        tag = self.tags[self.last[0]]
        return None if tag is None else tag.origin

    def save(self) -> Json:
        """A cursor for every worker; or one for all of them, if they follow a plan and are in the same pass of it.

        When all workers came to their end: where they begin next, if that does not follow from their cursors.
        """
        if self.outcome == "complete" and not self.dataset.continues:
            following = self.save_next()
            if following is not None:
                return {"next": following}
        return self._together([self._of(worker) for worker in range(self.workers)], self.turn)

    def _together(self, cursors: list[Cursor], turn: int) -> Json:
        return together(cursors, turn, exact=self.dataset.repetitions > 1)

    def _of(self, worker: int) -> Cursor:
        tag = self.tags[worker]
        return self._start_of(worker) if tag is None else tag.after()

    def _start_of(self, worker: int) -> Cursor:
        return Cursor(self.epoch) if self.starts is None else self.starts[worker]

    def save_start(self) -> Json:
        """The cursors that this epoch began with; None if those follow from the number of the pass."""
        if self.starts is None:
            return None
        return self._together([self._start_of(worker) for worker in range(self.workers)], self.first_turn)

    def save_next(self) -> Json:
        """The cursors that the next epoch begins with; None if those follow from the number of the pass."""
        nexts = [self._next_of(worker) for worker in range(self.workers)]
        if all(cursor == Cursor(self.epoch + 1) for cursor in nexts):
            return None
        return self._together(nexts, self.turn if self.dataset.continues and self.outcome != "complete" else 0)

    def _next_of(self, worker: int) -> Cursor:
        # To go on where a pass can only be read again from its beginning would take longer every epoch.
        goes_on = self.dataset.continues and (self.lets_workers_live or not is_replayed(self.dataset))
        known = self.nexts[worker] if self.outcome == "complete" and goes_on == self.dataset.continues else None
        if known is not None:
            return known if goes_on else replace(known, epoch=self._next_pass)
        return self._of(worker).next_epoch() if goes_on else Cursor(self._next_pass)

    @property
    def _next_pass(self) -> int:
        """The pass that all workers begin next: after the latest that one of them is in."""
        starts = self.nexts if self.outcome == "complete" else []
        known = [cursor.epoch for cursor in starts if cursor is not None]
        return max(known, default=0) or self._last_epoch + 1

    @property
    def _last_epoch(self) -> int:
        """The latest pass that a worker is in."""
        return max(self._start_of(number).epoch if tag is None else tag.epoch for number, tag in enumerate(self.tags))

    def load(self, saved: Json, recall: Recall) -> None:
        """Start there."""
        if isinstance(saved, dict) and "next" in saved:
            self.nexts, self.outcome = list(per_worker(saved["next"], self.workers)[0]), "complete"
            return
        cursors, self.turn = per_worker(saved, self.workers)
        self.starts, self.first_turn = cursors, self.turn

    def follow(self, before: Progress) -> None:
        """Begin where the epoch before says. Workers that live on know it, or are told the number of the pass."""
        assert isinstance(before, WorkerCursors)
        super().follow(before)
        passes = {cursor.epoch for cursor in before.nexts if cursor is not None}
        self.workers_know = before.lets_workers_live and (self.dataset.continues or len(passes) == 1)

    workers_know = False  # where they begin

    @property
    def lets_workers_live(self) -> bool:
        """Whether the workers came to their end, and wait for the next epoch."""
        return self.outcome == "complete" and self.keeps_workers

    keeps_workers = False


def together(cursors: list[Cursor], turn: int, *, exact: bool = False) -> Json:
    """The cursors of all workers, as one value for any number of workers if that is possible.

    Args:
        cursors: of all workers.
        turn: the worker whose item comes next.
        exact: more passes may follow in this epoch (see `join_workers`).
    """
    if all(cursor == cursors[0] for cursor in cursors) and cursors[0].is_beginning:
        return cursors[0]
    begun = next((cursor for cursor in cursors if cursor.plan is not None), None)
    passes = {(cursor.epoch, cursor.passes, cursor.position) for cursor in cursors}
    if begun is not None and len(passes) == 1 and begun.position == 0:
        plans = [cursor.plan if not cursor.is_beginning else _not_begun(begun) for cursor in cursors]
        known = [plan for plan in plans if plan is not None]
        if len(known) == len(cursors):
            return replace(begun, where=InPlan(join_workers(known, turn, exact=exact)))
    return {"turn": turn, "workers": cursors}


def _not_begun(begun: Cursor) -> PlanState:
    """The state of a worker that yielded nothing yet, beside one that did."""
    assert begun.plan is not None
    return PlanState(Remaining(begun.plan.remaining.samples))


def per_worker(saved: Json, workers: int) -> tuple[list[Cursor], int]:
    """A cursor for each worker, and whose turn it is.

    Raises:
        StateError: they were saved with another number of workers, or are something else.
    """
    if isinstance(saved, Cursor):
        if not saved.is_portable and workers != (saved.world.workers if saved.world else 1):
            raise _other_workers("no", workers)
        plan = saved.plan
        same = plan is not None and bool(plan.readers) and plan.readers[0].workers == workers
        return [saved] * workers, plan.turn if plan is not None and same else 0
    check_types(saved, workers=list, turn=int)
    if len(saved["workers"]) != workers:
        raise _other_workers(len(saved["workers"]), workers)
    return [as_cursor(each) for each in saved["workers"]], saved["turn"]


def _other_workers(there: Any, here: int) -> StateError:
    return StateError(
        f"the checkpoint was made with {there} worker processes, this loader has {here}",
        hint="a stream without an index, or one that repeats inside of its workers, resumes on the same number of "
        "them; index the shards, and repeat the loader instead of the dataset, to resume on any",
    )
