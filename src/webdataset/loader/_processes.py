"""A dataset read by torch's worker processes. The only file that imports torch at its top: it is loaded when needed."""

from __future__ import annotations

import contextlib
import copy
import signal
import threading
import warnings
from collections.abc import Generator, Iterator
from typing import Any

from torch.utils.data import DataLoader, default_collate

from webdataset.errors import StageError, StateError
from webdataset.flow import Json, Pass, Progress, Recall, Resumable
from webdataset.pipeline import DataPipeline, is_plan, settled

from . import _collate_shared, _shared_memory
from ._device import Device
from ._item_state import Batching, Tagged, described, place
from ._meter import Meter, timed
from ._part_stats import process_stats
from ._stats import Stats
from ._worker import Post, Posted, Start, Unpacked


class Places(Progress):
    """Where every worker was when the last of its items was handed on, and whose turn it is."""

    def __init__(self, workers: int) -> None:
        self.workers = workers
        self.turn = 0
        self.begun: list[Json] = [None] * workers
        self.tags: list[Tagged | None] = [None] * workers
        self.last: tuple[int, Tagged | None] = 0, None  # the worker of the last item, and its tag before that
        self.loaded = False

    def note(self, post: Post) -> None:
        """An item is about to be handed on."""
        self.last = post.worker, self.tags[post.worker]
        self.tags[post.worker] = post.place
        self.turn = (post.worker + 1) % self.workers

    def take_back(self) -> bool:
        """The places before the last item, which is its worker's turn again."""
        self.turn = worker = self.last[0]
        self.tags[worker] = self.last[1]
        return True

    def save(self) -> Json:
        """A place for every worker; or one for all of them, if they follow a plan and are in the same pass of it."""
        places = self.each()
        if not any(places):
            return None
        if _follow_one_plan(places):
            return settled(places)
        return {"turn": self.turn, "workers": places}

    def each(self) -> list[Json]:
        """The workers' own places."""
        return [self._of(worker) for worker in range(self.workers)]

    def _of(self, worker: int) -> Json:
        tag = self.tags[worker]
        return self.begun[worker] if tag is None else place(tag)

    def load(self, saved: Json, recall: Recall) -> None:
        """Start there."""
        check_workers(saved, self.workers)
        self.loaded = True
        if is_single(saved):
            self.begun = [saved] * self.workers
        else:
            self.turn, self.begun = saved["turn"], list(saved["workers"])


def check_workers(saved: Json, workers: int) -> None:
    """Refuse the places of another number of workers."""
    if is_single(saved):
        return
    if "workers" not in saved or len(saved["workers"]) != workers:
        there = len(saved["workers"]) if "workers" in saved else "threads instead of"
        raise StateError(
            f"the checkpoint was made with {there} worker processes, here are {workers}",
            hint="a stream without an index resumes on the same number of workers; index the shards to resume on any",
        )


def is_single(saved: Json) -> bool:
    """Whether this is one place for any number of workers: in a plan, or at the beginning of a pass."""
    return is_plan(saved) or ("pass" in saved and saved["pass"] is None)


def _follow_one_plan(places: list[Json]) -> bool:
    """Whether all are in the same pass over a plan, or at its beginning, where those are who handed on nothing yet."""
    if None in places or not all(map(is_single, places)):
        return False
    return len({(place["epoch"], place["passes"]) for place in places}) == 1 and not any(
        place["in_epoch"] for place in places
    )


class Processes(DataLoader, Resumable):  # type: ignore[misc]  # torch has no types here
    """torch's `DataLoader` for a pipeline, with the places of the workers beside the items.

    >>> from webdataset.pipeline import DataPipeline
    >>> list(Processes(DataPipeline(range(3)), batch_size=None))
    [0, 1, 2]

    It is a `DataLoader` in its settings; inside, another one reads the dataset wrapped as `Posted`.
    """

    def __init__(
        self,
        dataset: DataPipeline,
        batch_size: int | None = 1,
        *args: Any,
        shared_memory: bool = True,
        device: Device | None = None,
        **settings: Any,
    ) -> None:
        super().__init__(dataset, batch_size, *args, **settings)
        self.device = device
        if device is not None and device.has_streams:
            self.pin_memory = True  # torch does it in a thread
        self.meter = Meter()
        self.watched = False
        self._blocks = 3 + (self.prefetch_factor or 0) if shared_memory and _shared_memory.available() else 0
        self._engine: Any = None
        self._left: list[Json] | None = None  # where an epoch that goes on will begin

    def __repr__(self) -> str:
        return described(self.dataset, self._batching(), "processes")

    def __iter__(self) -> Iterator[Any]:
        return self.run(iter(()), self.start(Pass()))

    def start(self, during: Pass) -> Places:
        """At the beginning."""
        return Places(max(1, self.num_workers))

    def run(self, items: Iterator[Any], at: Places, /) -> Iterator[Any]:
        """Hand on the items of one epoch of the dataset, a worker at a time."""
        posts = self._begin(at)
        self.meter.clear()
        outcome = "failed"
        try:
            for post in self._handed_over(posts):
                at.note(post)
                self.meter.update(post.counted)
                self.meter.counts["items"] += 1
                yield post.parcel.unpack()
            outcome = "complete"
        except GeneratorExit:
            outcome = "left"
            raise
        except RuntimeError as error:
            raise _explained(error) from error.__cause__
        finally:
            self._end(posts, at, outcome)

    def _handed_over(self, posts: Any) -> Iterator[Any]:
        items = self._items(posts)
        return items if self.device is None else self.device.copied(items, self.meter, _unpacked, _with_item)

    def _items(self, posts: Any) -> Generator[Any, None, None]:
        for post in timed(posts, self.meter, "wait"):
            if post.failure is not None:
                post.failure.raise_again()
            self.meter.update_moved(post.moved)
            if post.parcel is not None:
                yield post

    def stats(self) -> Stats:
        """Where the time went since the epoch began."""
        return process_stats(self.meter, self.num_workers)

    def with_watch(self) -> Processes:
        """A copy that times every stage, of a copy of the dataset."""
        result = copy.copy(self)
        result.__dict__.update(dataset=self.dataset.compose(), meter=Meter(), watched=True, _engine=None, _left=None)
        return result

    def check_saved(self, saved: Json) -> None:
        """Refuse what `run` could not go on from."""
        check_workers(saved, max(1, self.num_workers))

    def _begin(self, at: Places) -> Any:
        """Start the workers, or let those that live start again."""
        start = Start(at.begun, at.turn) if at.loaded else None
        if start is None:
            at.begun = self._left or [self._at_beginning()] * at.workers
            start = Start(at.begun) if self._left and self._engine is None else None
        self._left = None
        batching = self._batching()
        if batching is not None and batching.collate is default_collate:
            batching = batching._replace(collate=_collate_shared.default_collate)
        posted = Posted(self.dataset, batching, self._convert(), start, self._blocks, self.watched)
        if self.num_workers == 0:
            return posted.posts(0, at.begun[0] if start is not None else None)
        if self._engine is None or start is not None:
            self._engine = self._new_engine(posted)
        return iter(self._engine)

    def _end(self, posts: Any, at: Places, outcome: str) -> None:
        """Keep the workers if they can go on, and where the next epoch begins if it goes on from this one."""
        goes_on = self.dataset.goes_on
        if not (self.persistent_workers and (outcome == "complete" or (outcome == "left" and not goes_on))):
            self._engine = None
            _stop(posts)
        if goes_on and outcome != "failed":
            places = [self._left_at(saved) for saved in at.each()]
            self._left = places if self._engine is not None or not any(map(_is_replay, places)) else None

    def _left_at(self, saved: Json) -> Json:
        return {**saved, "in_epoch": -saved.get("skip", 0)}

    def _at_beginning(self) -> Json:
        return {
            "epoch": self.dataset.epochs.peek(),
            "passes": 0,
            "pass": None,
            "in_epoch": 0,
        }

    def _batching(self) -> Batching | None:
        return None if self.batch_size is None else Batching(self.batch_size, self.collate_fn, self.drop_last)

    def _convert(self) -> Any:
        return self.collate_fn if self.batch_size is None else _as_it_is

    def _new_engine(self, posted: Posted) -> Any:
        settings = {name: getattr(self, name) for name in _SETTINGS if hasattr(self, name)}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about the settings: the outer loader has said it
            return DataLoader(posted, batch_size=None, collate_fn=_as_it_is, **settings)


_SETTINGS = (
    *("num_workers", "pin_memory", "timeout", "worker_init_fn", "multiprocessing_context", "generator"),
    *("prefetch_factor", "persistent_workers", "in_order"),
)


def _unpacked(post: Any) -> Any:
    return post.parcel.unpack()


def _with_item(post: Any, item: Any) -> Any:
    post.parcel = Unpacked(item)
    return post


def _as_it_is(item: Any) -> Any:
    return item


def _stop(posts: Any) -> None:
    """End the workers now, and not when some traceback lets go of the iterator."""
    stop = getattr(posts, "close", None) or getattr(posts, "_shutdown_workers", None)
    if stop is not None:
        with _deaf_to_children():
            _unlock(posts)
            stop()


def _unlock(posts: Any) -> None:
    """Give back what an exception left taken.

    The queues to the workers, and that from the thread that pins memory, have a lock that is taken in Python code. If
    Ctrl-C, or the error of a worker that died, comes up just there, nobody gives it back, and to send the workers a
    last message, or to wait for that thread, would be to wait for ever.
    """
    locks = [getattr(queue, "_notempty", None) for queue in getattr(posts, "_index_queues", ())]
    locks.append(getattr(getattr(posts, "_data_queue", None), "mutex", None))  # it has one if memory is pinned
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


def _is_replay(saved: Json) -> bool:
    """Whether going on would mean to read the whole pass again up to there: a new pass is better."""
    return saved["pass"] is not None and "replay" in saved["pass"]


def _explained(error: RuntimeError) -> RuntimeError:
    if not str(error).startswith("DataLoader worker"):
        return error
    return StageError(str(error).rstrip("."), hint=_shared_memory.KILLED)
