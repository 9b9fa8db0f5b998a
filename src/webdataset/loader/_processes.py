"""A dataset read by torch's worker processes. This file imports torch, so it is loaded only when it is needed."""

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
from ._item_state import loader_text
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

    It is a `DataLoader` for its settings only. An inner `DataLoader` reads the dataset, wrapped as `WorkerDataset`.
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
            self.pin_memory = True  # torch pins in a thread
        self.meter = Meter()
        self.watched = False
        self._block_count = 3 + (self.prefetch_factor or 0) if shared_memory and _shared_memory.available() else 0
        self._inner_loader: Any = None  # with workers that persist; an iteration takes it, so that no other one uses it
        self._iterations = 0  # how many were begun
        self._group_size = GroupSize()

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_inner_loader": None}  # a copy starts workers of its own

    def __repr__(self) -> str:
        return loader_text(self.dataset, "processes")

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
        """Return the cursors of all workers at the beginning of the pass."""
        return WorkerCursors(self.dataset, max(1, self.num_workers), during, origins=during.origins)

    def run(self, items: Iterator[Any], at: WorkerCursors, /) -> Iterator[Any]:
        """Yield the items of one epoch of the dataset, one of each worker in turn."""
        if at.outcome == "complete":  # it was when the state was saved
            return
        inner_loader, messages = self._start_workers(at)
        self.meter.clear()
        at.outcome = "failed"
        try:
            for message in self._delivered(messages, at):
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
            interrupted, at.interrupted = at.interrupted, True  # for a Ctrl-C while the workers are ended
            self._keep_or_end_workers(inner_loader, messages, at)
            at.interrupted = interrupted

    def again(self, origin: Json, recall: Recall) -> Any:
        """Make the item again from the dataset, in this process."""
        return self.collate_fn(self.dataset.again(origin))

    def _delivered(self, messages: Any, at: WorkerCursors) -> Iterator[Any]:
        items = self._items(messages, at)
        return items if self.device is None else self.device.copied(items, self.meter, _unpacked, _with_item)

    def _items(self, messages: Any, at: WorkerCursors) -> Generator[Any, None, None]:
        for number, message in enumerate(self._in_order(timed(messages, self.meter, "wait"), at)):
            if number == 0 and self.num_workers:
                self.meter.clear()  # the wait for the first message includes the start of the workers
            if message.failure is not None:
                message.failure.raise_again()
            self.meter.update(message.counted)
            self.meter.update_moved(message.moved)
            self.meter.update_skipped(message.skipped)
            if message.next_start is not None:
                at.next_starts[message.worker] = message.next_start
            if message.content is not None:
                yield message

    def _in_order(self, messages: Iterator[Any], at: WorkerCursors) -> Iterator[Message]:
        if self.num_workers == 0:
            return messages
        if not getattr(self, "in_order", True):
            return chain.from_iterable(messages)
        return in_turns(messages, at.workers, at.first_turn, self._group_size)

    def stats(self) -> Stats:
        """Return where the time went since the epoch began."""
        return process_stats(self.meter, self.num_workers)

    def with_watch(self) -> Processes:
        """Return a copy with a copy of the dataset, in which every stage is timed."""
        result = copy.copy(self)
        result.__dict__.update(dataset=self.dataset.compose(), meter=Meter(), watched=True, _inner_loader=None)
        return result

    def _start_workers(self, at: WorkerCursors) -> tuple[Any, Any]:
        """Start the workers, or the next epoch in those that persist; return torch's loader and its iterator."""
        self._iterations += 1
        at.iteration = self._iterations
        inner_loader, self._inner_loader = self._inner_loader, None
        if inner_loader is None or (at.starts is not None and not at.workers_know_start):
            settings = (at.starts, self._block_count, self.watched, at.origins, self._group_size)
            worker = WorkerDataset(self.dataset, self.collate_fn, *settings)
            inner_loader = self._new_inner_loader(worker) if self.num_workers else None
        else:
            worker = inner_loader.dataset
        epoch = at.epoch if at.starts is None else at.starts[0].epoch
        worker.next_pass.set(epoch)
        worker.continuing_pass.set(epoch if at.workers_know_start else 0)  # pass 0 continues no other
        try:
            return inner_loader, worker.messages(0) if inner_loader is None else iter(inner_loader)
        except OSError as error:
            raise not_started(error) from error

    def _keep_or_end_workers(self, inner_loader: Any, messages: Any, at: WorkerCursors) -> None:
        """Keep the workers for the next epoch if they persist and can begin it; otherwise end them."""
        can_begin = at.outcome == "complete" or (at.outcome == "left" and not self.dataset.continues)
        is_latest = at.iteration == self._iterations  # the next epoch follows the iteration that was begun last
        at.keeps_workers = self.persistent_workers and can_begin and is_latest
        if at.keeps_workers:
            self._inner_loader = inner_loader
        else:
            _end_workers(messages)

    def _new_inner_loader(self, worker: WorkerDataset) -> Any:
        settings = {name: getattr(self, name) for name in _SETTINGS if hasattr(self, name)}
        settings["worker_init_fn"] = StartWorker(Parent.here(), self.worker_init_fn)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # warnings about the settings came from the outer loader already
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


def _end_workers(messages: Any) -> None:
    """End the workers now: a traceback may keep the iterator alive, and the workers with it."""
    stop = getattr(messages, "close", None) or getattr(messages, "_shutdown_workers", None)
    if stop is not None:
        with _without_child_signals():
            _release_locks(messages)
            stop()


def _release_locks(messages: Any) -> None:
    """Release the locks of torch's queues, which an exception may have left locked.

    The queues to the workers, and the queue from the thread that pins memory, acquire their lock in Python code. If
    Ctrl-C, or the error about a worker that died, is raised just there, the lock is never released. torch would then
    wait for ever when it sends the workers a last message, or joins that thread.
    """
    locks = [getattr(queue, "_notempty", None) for queue in getattr(messages, "_index_queues", ())]
    locks.append(getattr(getattr(messages, "_data_queue", None), "mutex", None))  # it has one if memory is pinned
    for lock in filter(None, locks):
        lock.acquire(timeout=1)  # a thread that is alive holds it for a much shorter time
        lock.release()


@contextlib.contextmanager
def _without_child_signals() -> Iterator[None]:
    """Ignore the deaths of workers in this block, in which all of them end: torch's signal handler raises an error."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    try:
        yield
    finally:
        signal.signal(signal.SIGCHLD, before if before is not None else signal.SIG_DFL)
