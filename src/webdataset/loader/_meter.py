"""Who was busy for how long: a few numbers that a loader keeps while it runs.

They are taken once for every chunk of samples or every batch, never for every sample, so they cost nothing to speak of.
"""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TypeVar

from webdataset.handlers import SkipLog, Skipped
from webdataset.stores import counters

T = TypeVar("T")


class Meter:
    """Counts and seconds by name.

    >>> meter = Meter()
    >>> meter.add("read", 0.5, count=10)
    >>> meter.add("read", 0.5, count=10)
    >>> meter.counts["read"], meter.seconds["read"]
    (20, 1.0)

    A name is written by one thread at a time: that of the part which it is about.
    """

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        """Begin again, as at the start of an epoch."""
        self.counts: defaultdict[str, int] = defaultdict(int)
        self.seconds: defaultdict[str, float] = defaultdict(float)
        self._started = self._latest = time.perf_counter()
        self._before = counters.snapshot()
        self._elsewhere: Counter[str] = Counter()
        self._log, self._skipped = SkipLog(), Skipped()

    def add(self, name: str, seconds: float, *, count: int = 1) -> None:
        """So much more time, for so many more items."""
        self.counts[name] += count
        self.seconds[name] += seconds
        self._latest = time.perf_counter()

    @property
    def elapsed(self) -> float:
        """Seconds from the beginning to the last that was heard."""
        return self._latest - self._started

    @contextmanager
    def timing(self, name: str, *, count: int = 0) -> Iterator[None]:
        """Add the time that the block takes."""
        started = time.perf_counter()
        try:
            yield
        finally:
            self.add(name, time.perf_counter() - started, count=count)

    def mean(self, name: str) -> float:
        """Seconds for each count; or the mean of whatever was added instead of seconds."""
        return self.seconds[name] / max(1, self.counts[name])

    def update(self, totals: dict[str, tuple[int, float]]) -> None:
        """Add what another process has counted."""
        for name, (count, seconds) in totals.items():
            self.add(name, seconds, count=count)

    def update_moved(self, grown: Mapping[str, float]) -> None:
        """Add what the stores of another process have moved."""
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
        """What the stores have moved since the beginning, here and in other processes: bytes, seconds, retries, …"""
        return dict(self._elsewhere + Counter(counters.since(self._before)))


def timed(items: Iterator[T], meter: Meter, name: str) -> Iterator[T]:
    """The items, with the time that each took to come.

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
