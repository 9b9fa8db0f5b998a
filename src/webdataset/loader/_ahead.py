"""A thread that works ahead of whoever takes the items, by so many items and so many bytes.

Items that come quickly travel in groups, because waking the other thread costs as much as a small sample.
"""

from __future__ import annotations

import contextvars
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from typing import Generic, Self, TypeVar

from ._meter import Meter
from ._sizes import size_of, size_of_many

T = TypeVar("T")

# Waking a thread takes tens of microseconds and, while the other one holds the GIL, up to a switch interval (5 ms).
_GROUP_SECONDS = 0.002


AHEAD, POOL = "webdataset-ahead", "webdataset-pool"  # names of threads


def runs_in(*threads: str) -> bool:
    """Whether this is such a thread: garbage may be collected in it, and must not wait for itself.

    >>> runs_in(AHEAD, POOL)
    False
    """
    return threading.current_thread().name.startswith(threads)


class Ahead(Generic[T]):
    """The items of an iterator, made in a thread; to be used with `with`, which ends the thread.

    >>> with Ahead(lambda: iter(range(3)), items=2, memory=1 << 20, meter=Meter()) as numbers:
    ...     list(numbers)
    [0, 1, 2]

    Args:
        make: starts the iterator, inside the thread; a generator is closed there as well.
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
        self._make = make
        self._measure = measure
        self._most, self._memory = items, memory
        self._waiting: deque[tuple[list[T], int]] = deque()
        self._bytes = 0
        self._changed = threading.Condition()
        self._stopped = self._ended = False
        self._error: BaseException | None = None
        context = contextvars.copy_context()
        self._thread = threading.Thread(target=context.run, args=(self._produce,), name=AHEAD, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        with self._changed:
            self._stopped = True
            self._changed.notify_all()
        if not runs_in(AHEAD, POOL):
            self._thread.join()
        self._waiting.clear()

    def __iter__(self) -> Iterator[T]:
        while (group := self._take()) is not None:
            yield from group
        if self._error is not None:
            raise self._error

    def _take(self) -> list[T] | None:
        with self._changed:
            self._meter.add("queue", len(self._waiting) / self._most)
            with self._meter.timing("wait"):
                while not self._waiting and not self._ended:
                    self._changed.wait()
            if not self._waiting:
                return None
            group, size = self._waiting.popleft()
            self._bytes -= size
            self._changed.notify_all()
            return group

    def _produce(self) -> None:
        try:
            items = self._make()
            try:
                self._fill(items)
            finally:
                close = getattr(items, "close", None)
                if close is not None:
                    close()
        except BaseException as error:  # raised where the items are taken, after those that came before
            self._error = error
        finally:
            with self._changed:
                self._ended = True
                self._changed.notify_all()

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
        """Wait for room; False when nobody wants more."""
        self._meter.add("ahead", time.perf_counter() - started, count=len(group))
        size = size_of_many(group, self._measure)
        with self._changed:
            with self._meter.timing("blocked"):
                while self._waiting and not self._stopped and not self._has_room(size):
                    self._changed.wait()
            if self._stopped:
                return False
            self._waiting.append((group, size))
            self._bytes += size
            self._changed.notify_all()
            return True

    def _has_room(self, size: int) -> bool:
        return len(self._waiting) < self._most and self._bytes + size <= self._memory
