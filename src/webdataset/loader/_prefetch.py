"""A thread that prefetches items, up to a number of items and of bytes.

It is started when the consumer turns out to have work of its own. A consumer that only takes items makes them itself:
with nothing to do meanwhile, a second thread would take the interpreter lock from the first, and small samples would
come at two thirds of the rate.

Items that come quickly travel in groups, because waking the other thread costs as much as a small sample.

The two sides talk through `SimpleQueue`s alone. Ctrl-C is raised in the middle of whatever the main thread does, and in
the middle of `Condition.__enter__`, which is written in Python, it leaves a lock that is never released: once
in a thousand times the program hung instead of ending. The methods of a `SimpleQueue` either happen or do not.
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
# The consumer works if it spends more than this share of the time in which its items are made, and more than it takes
# to hand an item on.
_BUSY_SHARE, _HANDING_SECONDS = 1 / 8, 2e-6

AHEAD, POOL = "webdataset-ahead", "webdataset-pool"  # names of threads


def runs_in(*threads: str) -> bool:
    """Whether this is such a thread: garbage may be collected in it, and must not wait for itself.

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
        make: starts the iterator; a generator is closed by the thread that took the last item.
        items: how many groups may wait; a group is one item, or what comes within two milliseconds.
        memory: how many bytes may wait, though one group always may.
        measure: how many bytes an item holds.
        meter: told how long either side waited for the other, and how full the queue was.
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
        self._taken: SimpleQueue[int | None] = SimpleQueue()  # the sizes of those that were taken; None says: look up
        self._groups = self._bytes = 0  # that wait, as far as the thread knows
        self._handed_over = self._stopped = False
        self._error: BaseException | None = None
        context = contextvars.copy_context()
        self._thread = threading.Thread(target=context.run, args=(self._produce,), name=AHEAD, daemon=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped = True
        self._taken.put(None)
        if not self._handed_over:
            self._close_items()
        elif not runs_in(AHEAD, POOL):
            with suppress(RuntimeError):  # its start failed, or was interrupted: then it ends by itself
                self._thread.join()
        self._waiting = SimpleQueue()  # drops what will not be used

    def __iter__(self) -> Iterator[T]:
        if (yield from self._made_here()):
            return
        self._handed_over = True
        self._thread.start()
        while (group := self._take()) is not None:
            yield from group
        error, self._error = self._error, None  # its traceback holds frames, which hold what they have opened
        if error is not None:
            raise error

    def _made_here(self) -> Generator[T, None, bool]:
        """Items until the consumer has work of its own; True if there are no more."""
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
            if working > _BUSY_SHARE * making + _HANDING_SECONDS * count:
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
        except BaseException as error:  # raised where the items are taken, after those that came before
            self._error = error
        finally:
            self._waiting.put(None)

    def _close_items(self) -> None:
        close = getattr(self._items, "close", None)
        if close is not None:
            close()

    def _fill(self, items: Iterator[T]) -> None:
        group: list[T] = []
        most = 0  # items like these, in a quarter of the memory
        started = time.perf_counter()
        try:
            for item in items:
                group.append(item)
                if len(group) & (len(group) - 1) == 0:  # whenever it has doubled, so that the first one may be unlike
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
        """Wait until there is space in the queue; False when the consumer has stopped."""
        self._meter.add("ahead", time.perf_counter() - started, count=len(group))
        size = size_of_many(group, self._measure)
        with self._meter.timing("blocked"):
            # In this order: waiting for space may consume the wake-up call, and by then `_stopped` is true.
            while not self._has_room(size) and not self._stopped:
                self._count_off(self._taken.get())
        if self._stopped:
            return False
        self._groups, self._bytes = self._groups + 1, self._bytes + size
        self._waiting.put((group, size))
        return True

    def _has_room(self, size: int) -> bool:
        while not self._taken.empty():
            self._count_off(self._taken.get())
        return not self._groups or (self._groups < self._most and self._bytes + size <= self._memory)

    def _count_off(self, size: int | None) -> None:
        if size is not None:
            self._groups, self._bytes = self._groups - 1, self._bytes - size
