"""A dataset read by torch's worker processes. It imports torch, so it is loaded when needed."""

from __future__ import annotations

import contextlib
import copy
import signal
import threading
import warnings
from collections.abc import Generator, Iterator
from itertools import chain
from typing import Any

from torch.utils.data import DataLoader

from webdataset.child_processes import Parent
from webdataset.flow import Json, Pass, Recall, Resumable
from webdataset.pipeline import DataPipeline
from webdataset.plan import is_even_chain

from . import _shared_memory
from ._device import Device
from ._item_state import described
from ._message_groups import GroupSize, in_turns
from ._meter import Meter, timed
from ._move_batching import as_it_is, converted
from ._start_worker import StartWorker, not_started, worker_error
from ._stats import Stats, process_stats
from ._worker import Message, Unpacked, WorkerDataset
from ._worker_cursors import WorkerCursors


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
        super().__init__(dataset, None, **{**settings, "collate_fn": settings.get("collate_fn") or converted})
        self.device = device
        if device is not None and device.has_streams:
            self.pin_memory = True  # torch does it in a thread
        self.meter = Meter()
        self.watched = False
        self._blocks = 3 + (self.prefetch_factor or 0) if shared_memory and _shared_memory.available() else 0
        self._engine: Any = None  # of workers that live on; an iteration takes it, so that no other one uses it
        self._iterations = 0  # that were begun
        self._together = GroupSize()

    def __repr__(self) -> str:
        return described(self.dataset, "processes")

    def __len__(self) -> int:
        workers = max(1, self.num_workers)
        declared = self.dataset.size is not None
        of_worker: int | None = self.dataset._of_passes(None)
        if of_worker is not None and not declared:  # every worker has an epoch of that size
            return int(of_worker * workers)
        if workers > 1 and not declared and (self.dataset.nsamples > 0 or not is_even_chain(self.dataset.pipeline)):
            raise TypeError("every worker may end with a batch that is not full, so the length is not known")
        return len(self.dataset)

    def __iter__(self) -> Iterator[Any]:
        return self.run(iter(()), self.start(Pass()))

    def start(self, during: Pass) -> WorkerCursors:
        """At the beginning."""
        return WorkerCursors(self.dataset, max(1, self.num_workers), during, origins=during.origins)

    def run(self, items: Iterator[Any], at: WorkerCursors, /) -> Iterator[Any]:
        """Yield the items of one epoch of the dataset, a worker at a time."""
        if at.outcome == "complete":  # when the state was saved
            return
        engine, messages = self._begin(at)
        self.meter.clear()
        at.outcome = "failed"
        try:
            for message in self._handed_over(messages, at):
                item = message.content.unpack()
                self.meter.counts["items"] += 1
                at.note(message)
                yield (item, item := None)[0]  # as in `Run.epoch`
            at.outcome = "complete"
        except GeneratorExit:
            at.outcome = "left"
            raise
        except RuntimeError as error:
            raise worker_error(error, getattr(messages, "_workers", ())) from error.__cause__
        except BaseException:
            at.interrupted = True
            raise
        finally:
            interrupted, at.interrupted = at.interrupted, True  # if Ctrl-C comes while the workers are ended
            self._end(engine, messages, at)
            at.interrupted = interrupted

    def again(self, origin: Json, recall: Recall) -> Any:
        """The dataset makes it again, in this process."""
        return self.collate_fn(self.dataset.again(origin))

    def _handed_over(self, messages: Any, at: WorkerCursors) -> Iterator[Any]:
        items = self._items(messages, at)
        return items if self.device is None else self.device.copied(items, self.meter, _unpacked, _with_item)

    def _items(self, messages: Any, at: WorkerCursors) -> Generator[Any, None, None]:
        for number, message in enumerate(self._in_order(timed(messages, self.meter, "wait"), at)):
            if number == 0 and self.num_workers:
                self.meter.clear()  # to wait for the first message is to wait for the workers to start
            if message.failure is not None:
                message.failure.raise_again()
            self.meter.update(message.counted)
            self.meter.update_moved(message.moved)
            self.meter.update_skipped(message.skipped)
            if message.next_start is not None:
                at.nexts[message.worker] = message.next_start
            if message.content is not None:
                yield message

    def _in_order(self, messages: Iterator[Any], at: WorkerCursors) -> Iterator[Message]:
        if self.num_workers == 0:
            return messages
        if not getattr(self, "in_order", True):
            return chain.from_iterable(messages)
        return in_turns(messages, at.workers, at.first_turn, self._together)

    def stats(self) -> Stats:
        """Where the time went since the epoch began."""
        return process_stats(self.meter, self.num_workers)

    def with_watch(self) -> Processes:
        """A copy that times every stage, of a copy of the dataset."""
        result = copy.copy(self)
        result.__dict__.update(dataset=self.dataset.compose(), meter=Meter(), watched=True, _engine=None)
        return result

    def _begin(self, at: WorkerCursors) -> tuple[Any, Any]:
        """Start the workers, or let those that live start again."""
        self._iterations += 1
        at.iteration = self._iterations
        engine, self._engine = self._engine, None
        if engine is None or (at.starts is not None and not at.workers_know):
            settings = (at.starts, self._blocks, self.watched, at.origins, self._together)
            worker = WorkerDataset(self.dataset, self.collate_fn, *settings)
            engine = self._new_engine(worker) if self.num_workers else None
        else:
            worker = engine.dataset
        epoch = at.epoch if at.starts is None else at.starts[0].epoch
        worker.told.set(epoch)
        worker.told_to_follow.set(epoch if at.workers_know else 0)  # the first pass follows none
        try:
            return engine, worker.messages(0) if engine is None else iter(engine)
        except OSError as error:
            raise not_started(error) from error

    def _end(self, engine: Any, messages: Any, at: WorkerCursors) -> None:
        """Keep the workers if they can go on, and no iteration was begun since: the next one follows that."""
        lives = at.outcome == "complete" or (at.outcome == "left" and not self.dataset.continues)
        at.keeps_workers = self.persistent_workers and lives and at.iteration == self._iterations
        if at.keeps_workers:
            self._engine = engine
        else:
            _stop(messages)

    def _new_engine(self, worker: WorkerDataset) -> Any:
        settings = {name: getattr(self, name) for name in _SETTINGS if hasattr(self, name)}
        settings["worker_init_fn"] = StartWorker(Parent.here(), self.worker_init_fn)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about the settings: the outer loader has said it
            return DataLoader(worker, batch_size=None, collate_fn=as_it_is, **settings)


_SETTINGS = (
    *("num_workers", "pin_memory", "timeout", "multiprocessing_context", "generator"),
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
