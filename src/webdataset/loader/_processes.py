"""A dataset read by torch's worker processes. The only file that imports torch at its top: it is loaded when needed."""

from __future__ import annotations

import contextlib
import copy
import signal
import threading
import warnings
from collections.abc import Generator, Iterator
from dataclasses import replace
from typing import Any

from torch.utils.data import DataLoader

from webdataset.errors import StageError, StateError
from webdataset.flow import Json, Pass, Progress, Recall, Resumable
from webdataset.order import Remaining
from webdataset.pipeline import Beginning, Cursor, DataPipeline, EpochCounter, InPlan
from webdataset.plan import PlanState, join_workers

from . import _shared_memory
from ._device import Device
from ._item_state import Tagged, described
from ._meter import Meter, timed
from ._move_batching import as_it_is
from ._part_stats import process_stats
from ._stats import Stats
from ._worker import Message, Start, Unpacked, WorkerDataset


class WorkerCursors(Progress):
    """Where the dataset of every worker was when the last of its items was handed on, and whose turn it is."""

    def __init__(self, dataset: DataPipeline, workers: int, during: Pass, *, origins: bool) -> None:
        self.dataset, self.workers, self.origins = dataset, workers, origins
        self.told = during.epoch
        requested = dataset.take_requested_epoch()
        self.epoch = during.epoch if requested is None else requested
        self.starts: list[Cursor] | None = None  # given by a checkpoint, or by the epoch before
        self.turn = self.first_turn = 0
        self.tags: list[Tagged | None] = [None] * workers
        self.nexts: list[Cursor | None] = [None] * workers  # where the workers that came to their end begin next
        self.last: tuple[int, Tagged | None] = 0, None  # the worker of the last item, and its tag before that
        self.outcome = "left"

    def note(self, message: Message) -> None:
        """An item is about to be handed on."""
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
        """The origin of the item that was handed on last."""
        tag = self.tags[self.last[0]]
        return None if tag is None else tag.origin

    def save(self) -> Json:
        """A cursor for every worker; or one for all of them, if they follow a plan and are in the same pass of it."""
        return _together([self._of(worker) for worker in range(self.workers)], self.turn)

    def _of(self, worker: int) -> Cursor:
        tag = self.tags[worker]
        return self._start_of(worker) if tag is None else tag.after()

    def _start_of(self, worker: int) -> Cursor:
        return Cursor(self.epoch) if self.starts is None else self.starts[worker]

    def save_start(self) -> Json:
        """The cursors that this epoch began with; None if those follow from the number of the pass."""
        if self.starts is None and self.epoch == self.told:
            return None
        return _together([self._start_of(worker) for worker in range(self.workers)], self.first_turn)

    def save_next(self) -> Json:
        """The cursors that the next epoch begins with; None if those follow from the number of the pass."""
        nexts = [self._next_of(worker) for worker in range(self.workers)]
        if all(cursor == Cursor(self.told + 1) for cursor in nexts):
            return None
        return _together(nexts, self.turn if self.dataset.continues and self.outcome != "complete" else 0)

    def _next_of(self, worker: int) -> Cursor:
        known = self.nexts[worker]
        if known is None or self.outcome != "complete":
            known = self._of(worker).next_epoch() if self.dataset.continues else Cursor(self.epoch + 1)
        # To go on where a pass can only be read again from its beginning would take longer every epoch.
        return Cursor(self.epoch + 1) if isinstance(known.where, Beginning) and known.skip else known

    def load(self, saved: Json, recall: Recall) -> None:
        """Start there."""
        cursors, self.turn = _per_worker(saved, self.workers)
        self.starts, self.first_turn = cursors, self.turn

    def follow(self, before: Progress) -> None:
        """Begin where the epoch before says; workers that live on know it themselves."""
        assert isinstance(before, WorkerCursors)
        if not (before.outcome == "complete" and before.keeps_workers):
            super().follow(before)

    keeps_workers = False


def _together(cursors: list[Cursor], turn: int) -> Json:
    """The cursors of all workers, as one value for any number of workers if that is possible."""
    if all(cursor == cursors[0] for cursor in cursors) and cursors[0].is_beginning:
        return cursors[0]
    begun = next((cursor for cursor in cursors if cursor.plan is not None), None)
    passes = {(cursor.epoch, cursor.passes, cursor.position) for cursor in cursors}
    if begun is not None and len(passes) == 1 and begun.position == 0:
        plans = [cursor.plan if not cursor.is_beginning else _not_begun(begun) for cursor in cursors]
        known = [plan for plan in plans if plan is not None]
        if len(known) == len(cursors):
            return replace(begun, where=InPlan(join_workers(known, turn)))
    return {"turn": turn, "workers": cursors}


def _not_begun(begun: Cursor) -> PlanState:
    """The state of a worker that handed on nothing yet, beside one that did."""
    assert begun.plan is not None
    return PlanState(Remaining(begun.plan.remaining.samples))


def _per_worker(saved: Json, workers: int) -> tuple[list[Cursor], int]:
    """A cursor for each worker, and whose turn it is.

    Raises:
        StateError: they were saved with another number of workers.
    """
    if isinstance(saved, Cursor):
        if not saved.is_portable and workers != (saved.world.workers if saved.world else 1):
            raise _other_workers("no", workers)
        plan = saved.plan
        same = plan is not None and bool(plan.readers) and plan.readers[0].workers == workers
        return [saved] * workers, plan.turn if plan is not None and same else 0
    if len(saved["workers"]) != workers:
        raise _other_workers(len(saved["workers"]), workers)
    return list(saved["workers"]), saved["turn"]


def _other_workers(there: Any, here: int) -> StateError:
    return StateError(
        f"the checkpoint was made with {there} worker processes, here are {here}",
        hint="a stream without an index resumes on the same number of workers; index the shards to resume on any",
    )


class Processes(DataLoader, Resumable):  # type: ignore[misc]  # torch has no types here
    """torch's `DataLoader` for a pipeline, with the state of the workers attached to the items.

    >>> from webdataset.pipeline import DataPipeline
    >>> list(Processes(DataPipeline(range(3))))
    [0, 1, 2]

    It is a `DataLoader` in its settings; inside, another one reads the dataset wrapped as `WorkerDataset`.
    """

    def __init__(
        self,
        dataset: DataPipeline,
        *,
        shared_memory: bool = True,
        device: Device | None = None,
        **settings: Any,
    ) -> None:
        super().__init__(dataset, None, **settings)
        self.device = device
        if device is not None and device.has_streams:
            self.pin_memory = True  # torch does it in a thread
        self.meter = Meter()
        self.watched = False
        self._blocks = 3 + (self.prefetch_factor or 0) if shared_memory and _shared_memory.available() else 0
        self._engine: Any = None
        self._told = EpochCounter()  # tells workers that live on the number of the pass

    def __repr__(self) -> str:
        return described(self.dataset, "processes")

    def __iter__(self) -> Iterator[Any]:
        return self.run(iter(()), self.start(Pass()))

    def start(self, during: Pass) -> WorkerCursors:
        """At the beginning."""
        return WorkerCursors(self.dataset, max(1, self.num_workers), during, origins=during.origins)

    def run(self, items: Iterator[Any], at: WorkerCursors, /) -> Iterator[Any]:
        """Hand on the items of one epoch of the dataset, a worker at a time."""
        messages = self._begin(at)
        self.meter.clear()
        at.outcome = "failed"
        try:
            for message in self._handed_over(messages, at):
                at.note(message)
                self.meter.update(message.counted)
                self.meter.counts["items"] += 1
                yield message.content.unpack()
            at.outcome = "complete"
        except GeneratorExit:
            at.outcome = "left"
            raise
        except RuntimeError as error:
            raise _explained(error) from error.__cause__
        finally:
            self._end(messages, at)

    def again(self, origin: Json, recall: Recall) -> Any:
        """The dataset makes it again, in this process."""
        return self.collate_fn(self.dataset.again(origin))

    def _handed_over(self, messages: Any, at: WorkerCursors) -> Iterator[Any]:
        items = self._items(messages, at)
        return items if self.device is None else self.device.copied(items, self.meter, _unpacked, _with_item)

    def _items(self, messages: Any, at: WorkerCursors) -> Generator[Any, None, None]:
        for message in timed(messages, self.meter, "wait"):
            if message.failure is not None:
                message.failure.raise_again()
            self.meter.update_moved(message.moved)
            if message.next_start is not None:
                at.nexts[message.worker] = message.next_start
            if message.content is not None:
                yield message

    def stats(self) -> Stats:
        """Where the time went since the epoch began."""
        return process_stats(self.meter, self.num_workers)

    def with_watch(self) -> Processes:
        """A copy that times every stage, of a copy of the dataset."""
        result = copy.copy(self)
        result.__dict__.update(dataset=self.dataset.compose(), meter=Meter(), watched=True, _engine=None)
        return result

    def _begin(self, at: WorkerCursors) -> Any:
        """Start the workers, or let those that live start again."""
        self._told.set(at.epoch)
        start = None if at.starts is None else Start(at.starts, at.first_turn)
        worker = WorkerDataset(self.dataset, self.collate_fn, self._told, start, self._blocks, self.watched, at.origins)
        if self.num_workers == 0:
            return worker.messages(0)
        if self._engine is None or start is not None:
            self._engine = self._new_engine(worker)
        return iter(self._engine)

    def _end(self, messages: Any, at: WorkerCursors) -> None:
        """Keep the workers if they can go on."""
        lives = at.outcome == "complete" or (at.outcome == "left" and not self.dataset.continues)
        at.keeps_workers = self.persistent_workers and lives
        if not at.keeps_workers:
            self._engine = None
            _stop(messages)

    def _new_engine(self, worker: WorkerDataset) -> Any:
        settings = {name: getattr(self, name) for name in _SETTINGS if hasattr(self, name)}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about the settings: the outer loader has said it
            return DataLoader(worker, batch_size=None, collate_fn=as_it_is, **settings)


_SETTINGS = (
    *("num_workers", "pin_memory", "timeout", "worker_init_fn", "multiprocessing_context", "generator"),
    *("prefetch_factor", "persistent_workers", "in_order"),
)


def _unpacked(message: Any) -> Any:
    return message.content.unpack()


def _with_item(message: Any, item: Any) -> Any:
    message.content = Unpacked(item)
    return message


def _stop(messages: Any) -> None:
    """End the workers now, and not when some traceback lets go of the iterator."""
    stop = getattr(messages, "close", None) or getattr(messages, "_shutdown_workers", None)
    if stop is not None:
        with _deaf_to_children():
            _unlock(messages)
            stop()


def _unlock(messages: Any) -> None:
    """Give back what an exception left taken.

    The queues to the workers, and that from the thread that pins memory, have a lock that is taken in Python code. If
    Ctrl-C, or the error of a worker that died, comes up just there, nobody gives it back, and to send the workers a
    last message, or to wait for that thread, would be to wait for ever.
    """
    locks = [getattr(queue, "_notempty", None) for queue in getattr(messages, "_index_queues", ())]
    locks.append(getattr(getattr(messages, "_data_queue", None), "mutex", None))  # it has one if memory is pinned
    for lock in filter(None, locks):
        lock.acquire(timeout=1)  # nobody has it for so long
        lock.release()


@contextlib.contextmanager
def _deaf_to_children() -> Iterator[None]:
    """Be undisturbed: torch raises an error wherever the program is when a worker dies, and here all are to end."""
    if threading.current_thread() is not threading.main_thread() or not hasattr(signal, "SIGCHLD"):
        yield
        return
    before = signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    try:
        yield
    finally:
        signal.signal(signal.SIGCHLD, before if before is not None else signal.SIG_DFL)


def _explained(error: RuntimeError) -> RuntimeError:
    if not str(error).startswith("DataLoader worker"):
        return error
    return StageError(str(error).rstrip("."), hint=_shared_memory.KILLED)
