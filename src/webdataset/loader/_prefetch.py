"""A thread that prefetches items, up to a number of items and of bytes.

The thread is started when the consumer spends time of its own between two items. Until then the items are made in the
consumer's thread: a second thread would only compete for the interpreter lock, and small samples would come at two
thirds of the rate.

Items that come quickly are queued in groups, because waking the other thread costs as much as a small sample.

The two threads communicate by `SimpleQueue`s alone. Ctrl-C is raised in the middle of whatever the main thread does,
and in the middle of `Condition.__enter__`, which is written in Python, it leaves a lock that is never released: once in
a thousand times the program hung instead of ending. The methods of a `SimpleQueue` are atomic.
"""

from __future__ import annotations

import contextvars
import threading
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import suppress
from queue import SimpleQueue
from typing import Generic, Self, TypeVar

from ._item_sizes import size_of, size_of_many
from ._meter import Meter

T = TypeVar("T")

# Waking a thread takes tens of microseconds and, while the other one holds the GIL, up to a switch interval (5 ms).
_GROUP_SECONDS = 0.002
# The consumer has work of its own if its time between two items is more than this share of the time for making an item,
# and more than the seconds that yielding an item takes.
_WORKING_SHARE, _YIELD_SECONDS = 1 / 8, 2e-6

AHEAD, POOL = "webdataset-ahead", "webdataset-pool"  # names of threads


def runs_in(*threads: str) -> bool:
    """Whether this is one of these threads: an object that is garbage-collected in it must not wait for its end.

    >>> runs_in(AHEAD, POOL)
    False
    """
    return threading.current_thread().name.startswith(threads)


class Prefetcher(Generic[T]):
    """The items of an iterator, made in a thread while the consumer works; used with `with`, which ends the thread.

    >>> with Prefetcher(lambda: iter(range(3)), items=2, memory=1 << 20, meter=Meter()) as numbers:
    ...     list(numbers)
    [0, 1, 2]

    Args:
        make: makes the iterator; a generator is closed by the thread that took its last item.
        items: how many groups may wait; a group is one item, or the items that come within two milliseconds.
        memory: how many bytes may wait, though one group always may.
        measure: how many bytes an item holds.
        meter: counts how long each thread waited for the other, and how full the queue was.
    """

    def __init__(
        self,
        make: Callable[[], Iterator[T]],
        *,
        items: int,
        memory: int,
        measure: Callable[[T], int] = size_of,
        meter: Meter,
    ) -> None:
        self._meter = meter
        self._items = make()
        self._measure = measure
        self._most, self._memory = items, memory
        # Groups and their sizes; None is the end.
        self._waiting: SimpleQueue[tuple[list[T], int] | None] = SimpleQueue()
        # The sizes of the groups that were taken; None wakes the thread to see `_stopped`.
        self._taken: SimpleQueue[int | None] = SimpleQueue()
        self._groups = self._bytes = 0  # that wait, as counted by the thread
        self._started = self._stopped = False
        self._error: BaseException | None = None
        context = contextvars.copy_context()
        self._thread = threading.Thread(target=context.run, args=(self._produce,), name=AHEAD, daemon=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped = True
        self._taken.put(None)
        if not self._started:
            self._close_items()
        elif not runs_in(AHEAD, POOL):
            with suppress(RuntimeError):  # it did not start, or its start was interrupted: then it ends by itself
                self._thread.join()
        self._waiting = SimpleQueue()  # frees the items that were not used

    def __iter__(self) -> Iterator[T]:
        if (yield from self._in_this_thread()):
            return
        self._started = True
        self._thread.start()
        while (group := self._take()) is not None:
            yield from group
        error, self._error = self._error, None  # its traceback refers to frames, and these to open files
        if error is not None:
            raise error

    def _in_this_thread(self) -> Generator[T, None, bool]:
        """Yield items until the consumer has work of its own; return True if there are no more."""
        making = working = 0.0
        asked = time.perf_counter()
        for count, item in enumerate(self._items, 1):
            came = time.perf_counter()
            making += came - asked
            self._meter.add("wait", came - asked)
            self._meter.add("ahead", came - asked)
            yield item
            asked = time.perf_counter()
            working += asked - came
            if working > _WORKING_SHARE * making + _YIELD_SECONDS * count:
                return False
        return True

    def _take(self) -> list[T] | None:
        self._meter.add("queue", self._waiting.qsize() / self._most)
        with self._meter.timing("wait"):
            taken = self._waiting.get()
        if taken is None:
            return None
        group, size = taken
        self._taken.put(size)
        return group

    def _produce(self) -> None:
        try:
            try:
                self._fill(self._items)
            finally:
                self._close_items()
        except BaseException as error:  # raised in the consumer's thread, after the items before it
            self._error = error
        finally:
            self._waiting.put(None)

    def _close_items(self) -> None:
        close = getattr(self._items, "close", None)
        if close is not None:
            close()

    def _fill(self, items: Iterator[T]) -> None:
        group: list[T] = []
        most = 0  # how many items like these fill a quarter of the memory
        started = time.perf_counter()
        try:
            for item in items:
                group.append(item)
                if len(group) & (len(group) - 1) == 0:  # it has doubled: measure again, the first one may be unlike
                    most = self._memory * len(group) // (4 * max(1, size_of_many(group, self._measure)))
                if time.perf_counter() - started < _GROUP_SECONDS and len(group) < most:
                    continue
                if not self._put(group, started):
                    return
                group, started = [], time.perf_counter()
        finally:
            if group:
                self._put(group, started)

    def _put(self, group: list[T], started: float) -> bool:
        """Put a group into the queue when there is space; return False if the consumer has stopped."""
        self._meter.add("ahead", time.perf_counter() - started, count=len(group))
        size = size_of_many(group, self._measure)
        with self._meter.timing("blocked"):
            # In this order: `_has_space` may take the None that wakes this thread, and then `_stopped` is already set.
            while not self._has_space(size) and not self._stopped:
                self._note_taken(self._taken.get())
        if self._stopped:
            return False
        self._groups, self._bytes = self._groups + 1, self._bytes + size
        self._waiting.put((group, size))
        return True

    def _has_space(self, size: int) -> bool:
        while not self._taken.empty():
            self._note_taken(self._taken.get())
        return not self._groups or (self._groups < self._most and self._bytes + size <= self._memory)

    def _note_taken(self, size: int | None) -> None:
        if size is not None:
            self._groups, self._bytes = self._groups - 1, self._bytes - size
