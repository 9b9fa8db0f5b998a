"""Counts and seconds that a loader keeps while it runs.

A `Meter` is updated once per chunk of samples or batch, never per sample, so it takes little time. A `StageTimer` times
every item.
"""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeVar

from webdataset.handlers import SkipLog, Skipped
from webdataset.mutex import Mutex
from webdataset.stores import counters

T = TypeVar("T")

# How the keys of a `StageTimer` begin: a stage that reads, any other stream, a function of one item.
READER, STREAM, FUNCTION = "reader ", "stream ", "function "
ON_PROCESSOR = "on a processor: "  # prefix for the time in which a function did not wait


class Meter:
    """Counts and seconds by name.

    >>> meter = Meter()
    >>> meter.add("read", 0.5, count=10)
    >>> meter.add("read", 0.5, count=10)
    >>> meter.counts["read"], meter.seconds["read"]
    (20, 1.0)

    One thread at a time writes a name.
    """

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        """Start again, as at the start of an epoch."""
        self.counts: defaultdict[str, int] = defaultdict(int)
        self.seconds: defaultdict[str, float] = defaultdict(float)
        self._started = self._latest = time.perf_counter()
        self._before = counters.snapshot()
        self._elsewhere: Counter[str] = Counter()
        self._log, self._skipped = SkipLog(), Skipped()
        self.choice = ""  # how many threads were chosen for functions, and why

    def add(self, name: str, seconds: float, *, count: int = 1) -> None:
        """Add time and items."""
        self.counts[name] += count
        self.seconds[name] += seconds
        self._latest = time.perf_counter()

    def take(self) -> dict[str, tuple[int, float]]:
        """Return what was added, for `update` of another meter, and start again."""
        added = {name: (self.counts[name], self.seconds[name]) for name in self.counts}
        self.clear()
        return added

    @property
    def elapsed(self) -> float:
        """Seconds from the start to the last `add`."""
        return self._latest - self._started

    @contextmanager
    def timing(self, name: str, *, count: int = 0) -> Iterator[None]:
        """Add the time that the `with` block takes."""
        started = time.perf_counter()
        try:
            yield
        finally:
            self.add(name, time.perf_counter() - started, count=count)

    def mean(self, name: str) -> float:
        """Return the mean of the seconds, or of other values that were added in their place."""
        return self.seconds[name] / max(1, self.counts[name])

    def update(self, totals: dict[str, tuple[int, float]]) -> None:
        """Add the counts of another process."""
        for name, (count, seconds) in totals.items():
            self.add(name, seconds, count=count)

    def update_moved(self, grown: Mapping[str, float]) -> None:
        """Add what the stores of another process have transferred."""
        self._elsewhere.update(grown)

    def update_skipped(self, skipped: Skipped | None) -> None:
        """Add what handlers of another process have left out."""
        if skipped is not None and skipped.count:
            self._skipped += skipped

    @property
    def skipped(self) -> Skipped:
        """What handlers have left out since the beginning, here and in other processes."""
        self.update_skipped(self._log.take())
        return self._skipped

    @property
    def moved(self) -> dict[str, float]:
        """What the stores have transferred since the start, here and in workers: bytes, seconds, retries, …"""
        return dict(self._elsewhere + Counter(counters.since(self._before)))


def timed(items: Iterator[T], meter: Meter, name: str) -> Iterator[T]:
    """Yield the items, and add the time that making each of them took.

    >>> meter = Meter()
    >>> list(timed(iter("ab"), meter, "read")), meter.counts["read"]
    (['a', 'b'], 2)
    """
    while True:
        started = time.perf_counter()
        try:
            item = next(items)
        except StopIteration:
            return
        meter.add(name, time.perf_counter() - started)
        yield item


class StageTimer:
    """Times every item of every stage, for `RunOptions.timer`. This takes about a microsecond per stage and item.

    >>> timer = StageTimer(Meter())
    >>> list(timer.stream("range", iter(range(3)))), timer.function("abs", abs)(-1)
    ([0, 1, 2], 1)
    >>> dict(timer.meter.counts)
    {'stream range': 3, 'function abs': 1, 'on a processor: function abs': 1}
    """

    def __init__(self, meter: Meter) -> None:
        self.meter = meter
        self._lock = Mutex()

    def stream(self, name: str, items: Iterator[Any], *, reads: bool = False) -> Iterator[Any]:
        """Return the items, timed; the time includes that of the streams before."""
        return timed(items, self.meter, (READER if reads else STREAM) + name)

    def function(self, name: str, function: Callable[[Any], Any]) -> Callable[[Any], Any]:
        """Return the function, timed; it may run in many threads."""
        meter, key, lock = self.meter, FUNCTION + name, self._lock
        meter.add(key, 0.0, count=0)  # so that the names are in the order of the stages

        def timed_function(item: Any) -> Any:
            started, ran = time.perf_counter(), time.thread_time()
            try:
                return function(item)
            finally:
                seconds, on_processor = time.perf_counter() - started, time.thread_time() - ran
                with lock:
                    meter.add(key, seconds)
                    meter.add(ON_PROCESSOR + key, on_processor)

        return timed_function
