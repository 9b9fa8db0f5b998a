"""The cursors of the dataset in all worker processes, and which worker is next."""

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
    """The cursor of the dataset in every worker after its last item that was yielded, and which worker is next."""

    def __init__(self, dataset: Nestable, workers: int, during: Pass, *, origins: bool) -> None:
        self.dataset, self.workers, self.origins = dataset, workers, origins
        self.epoch = during.epoch
        self.starts: list[Cursor] | None = None  # from a checkpoint, or from the epoch before
        self.turn = self.first_turn = 0
        self.tags: list[Tagged | None] = [None] * workers
        self.next_starts: list[Cursor | None] = [None] * workers  # of the workers that have ended this epoch
        self.last: tuple[int, Tagged | None] = 0, None  # the worker of the last item, and its tag before that
        self.outcome = "left"
        self.iteration = 0  # which one of the loader

    def note(self, message: Message) -> None:
        """Note the message whose item is yielded next. No call may come between: Ctrl-C is raised when a call ends."""
        self.last = message.worker, self.tags[message.worker]
        self.tags[message.worker] = message.tag
        self.turn = (message.worker + 1) % self.workers

    def take_back(self) -> bool:
        """Go back to the cursors before the last item; its worker is next again."""
        self.turn = worker = self.last[0]
        self.tags[worker] = self.last[1]
        return True

    @property
    def origin(self) -> Json:
        """The origin of the item that was yielded last."""
        tag = self.tags[self.last[0]]
        return None if tag is None else tag.origin

    def save(self) -> Json:
        """Return a cursor for every worker; or one for all of them, if they are in the same pass over a plan.

        After the epoch: where the workers begin the next one, if that does not follow from their cursors.
        """
        if self.outcome == "complete" and not self.dataset.continues:
            following = self.save_next()
            if following is not None:
                return {"next": following}
        return self._joined([self._cursor_of(worker) for worker in range(self.workers)], self.turn)

    def _joined(self, cursors: list[Cursor], turn: int) -> Json:
        return join_cursors(cursors, turn, exact=self.dataset.repetitions > 1)

    def _cursor_of(self, worker: int) -> Cursor:
        tag = self.tags[worker]
        return self._start_of(worker) if tag is None else tag.after()

    def _start_of(self, worker: int) -> Cursor:
        return Cursor(self.epoch) if self.starts is None else self.starts[worker]

    def save_start(self) -> Json:
        """Return the cursors that this epoch began with; None if those follow from the number of the pass."""
        if self.starts is None:
            return None
        return self._joined([self._start_of(worker) for worker in range(self.workers)], self.first_turn)

    def save_next(self) -> Json:
        """Return the cursors that the next epoch begins with; None if those follow from the number of the pass."""
        following = [self._next_start_of(worker) for worker in range(self.workers)]
        if all(cursor == Cursor(self.epoch + 1) for cursor in following):
            return None
        return self._joined(following, self.turn if self.dataset.continues and self.outcome != "complete" else 0)

    def _next_start_of(self, worker: int) -> Cursor:
        # A pass that can only be read again from its beginning is not continued: that would take longer every epoch.
        goes_on = self.dataset.continues and (self.workers_wait or not is_replayed(self.dataset))
        known = self.next_starts[worker] if self.outcome == "complete" and goes_on == self.dataset.continues else None
        if known is not None:
            return known if goes_on else replace(known, epoch=self._next_pass)
        return self._cursor_of(worker).next_epoch() if goes_on else Cursor(self._next_pass)

    @property
    def _next_pass(self) -> int:
        """The pass that all workers begin next: the one after the latest that any of them is in."""
        starts = self.next_starts if self.outcome == "complete" else []
        known = [cursor.epoch for cursor in starts if cursor is not None]
        return max(known, default=0) or self._last_epoch + 1

    @property
    def _last_epoch(self) -> int:
        """The latest pass that any worker is in."""
        return max(self._start_of(number).epoch if tag is None else tag.epoch for number, tag in enumerate(self.tags))

    def load(self, saved: Json, recall: Recall) -> None:
        """Go on from saved cursors."""
        if isinstance(saved, dict) and "next" in saved:
            self.next_starts, self.outcome = list(per_worker(saved["next"], self.workers)[0]), "complete"
            return
        cursors, self.turn = per_worker(saved, self.workers)
        self.starts, self.first_turn = cursors, self.turn

    def follow(self, before: Progress) -> None:
        """Begin where the epoch before ended; note whether workers that persist need to be sent no cursors for it."""
        assert isinstance(before, WorkerCursors)
        super().follow(before)
        passes = {cursor.epoch for cursor in before.next_starts if cursor is not None}
        self.workers_know_start = before.workers_wait and (self.dataset.continues or len(passes) == 1)

    workers_know_start = False  # they persist, and need no cursors to begin this epoch

    @property
    def workers_wait(self) -> bool:
        """Whether the workers have ended this epoch and wait for the next one."""
        return self.outcome == "complete" and self.keeps_workers

    keeps_workers = False


def join_cursors(cursors: list[Cursor], turn: int, *, exact: bool = False) -> Json:
    """Return the cursors of all workers as JSON: as one cursor for any number of workers, if that is possible.

    Args:
        cursors: of all workers.
        turn: the worker that is next.
        exact: more passes may follow in this epoch (see `join_workers`).
    """
    first = cursors[0]
    if all(cursor == first for cursor in cursors) and first.is_beginning and first.is_portable:
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
    """Return the state of a worker that has yielded nothing yet, made from that of a worker that has begun."""
    assert begun.plan is not None
    return PlanState(Remaining(begun.plan.remaining.samples))


def per_worker(saved: Json, workers: int) -> tuple[list[Cursor], int]:
    """Return a cursor for each worker, and the worker that is next.

    Raises:
        StateError: the cursors were saved with another number of workers, or are malformed.
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


def _other_workers(saved: Any, workers: int) -> StateError:
    return StateError(
        f"the checkpoint was made with {saved} worker processes, this loader has {workers}",
        hint="a stream without an index, or one that repeats inside of its workers, resumes on the same number of "
        "them; index the shards, and repeat the loader instead of the dataset, to resume on any",
    )
