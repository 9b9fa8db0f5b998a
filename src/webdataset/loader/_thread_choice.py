"""How many threads run the functions of one item, and why.

A call that takes a few microseconds costs more when its item is handed to another thread: such functions stay in the
thread that reads. Functions that mostly wait get more threads, if the number is left to the loader. The results are the
same for any number.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

from ._meter import Meter

# Handing an item over costs 2 to 5 µs, and the two threads then wait for each other's interpreter lock.
_WORTH_SECONDS = 30e-6
_CHUNKS = 4  # that are looked at together
_MOST = 32  # threads
_SLOW = 3  # calls in a row, of those that are timed
_EVERY = 16  # call is timed


class ThreadChoice:
    """The number of threads for one group of functions; 0 where they run in the thread that reads.

    >>> choice = ThreadChoice(2)
    >>> [choice.note(calls=10, seconds=5e-5, on_processor=5e-5) for _ in range(4)]
    [False, False, False, True]
    >>> choice.threads, choice.reason
    (0, 'a call takes 5 µs, less than it costs to hand its item to another thread')

    Args:
        wanted: how many threads; "auto" for as many as there are processors, and more where functions wait.
    """

    def __init__(self, wanted: int | str) -> None:
        self._most = available_processors() if wanted == "auto" else int(wanted)
        self._adapts = wanted == "auto"
        self._chunks: list[tuple[float, float, float]] = []  # seconds of a call, seconds, seconds on a processor
        self.threads, self.reason = self._most, "one for each processor" if self._adapts else "as num_workers= says"

    def note(self, calls: int, seconds: float, on_processor: float) -> bool:
        """A chunk was finished by a thread; whether the number of threads is another one now."""
        self._chunks.append((seconds / max(1, calls), seconds, on_processor))
        if len(self._chunks) < _CHUNKS:
            return False
        slowest, busy = max(each[0] for each in self._chunks), sum(each[1] for each in self._chunks)
        share = sum(each[2] for each in self._chunks) / max(busy, 1e-9)
        self._chunks.clear()
        if slowest < _WORTH_SECONDS:
            what = f"a call takes {slowest * 1e6:.0f} µs, less than it costs to hand its item to another thread"
            self.threads, self.reason = 0, what
        elif self._adapts and share * self._most < 0.5 and self._most < _MOST:  # together they need half a processor
            self._most = self.threads = min(_MOST, 2 * self._most)
            self.reason = f"the functions wait for {1 - share:.0%} of their time"
        else:
            return False
        return True

    def note_costly(self, seconds: float) -> None:
        """Functions that ran in the thread that reads take long now."""
        self.threads, self.reason = self._most, f"a call takes {seconds * 1e6:.0f} µs"


class TimedCalls:
    """A function, some of whose calls are timed.

    >>> calls = TimedCalls(abs)
    >>> calls(-1), calls.costly
    (1, False)
    """

    def __init__(self, function: Callable[[Any], Any]) -> None:
        self._function = function
        self._left = self._slow = 0
        self.seconds = 0.0  # of the last call that was timed

    @property
    def costly(self) -> bool:
        """Whether threads are worth while."""
        return self._slow >= _SLOW

    def __call__(self, item: Any) -> Any:
        if self._left:
            self._left -= 1
            return self._function(item)
        started = time.perf_counter()
        result = self._function(item)
        self.seconds = time.perf_counter() - started
        if self.seconds < _WORTH_SECONDS:
            self._left, self._slow = _EVERY, 0
        else:
            self._slow += 1
        return result


def sometimes_timed(items: Iterator[Any], meter: Meter) -> Iterator[Any]:
    """The items; how long reading takes is concluded from some of them.

    >>> meter = Meter()
    >>> len(list(sometimes_timed(iter(range(20)), meter))), meter.counts["read"]
    (20, 32)
    """
    while True:
        started = time.perf_counter()
        item = list(islice(items, 1))
        if not item:
            return
        meter.add("read", _EVERY * (time.perf_counter() - started), count=_EVERY)
        yield item.pop()
        yield from islice(items, _EVERY - 1)


def available_processors() -> int:
    """How many processors this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return max(1, len(os.sched_getaffinity(0)))
    return os.cpu_count() or 1
