"""Who was busy for how long: a few numbers that the loader keeps while it runs."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager


class Meter:
    """Items and seconds by name; cheap enough to be always on.

    >>> meter = Meter()
    >>> meter.add("read", 10, 0.5)
    >>> meter.add("read", 10, 0.5)
    >>> meter.counts["read"], meter.seconds["read"]
    (20, 1.0)
    """

    def __init__(self) -> None:
        self.counts: dict[str, int] = {}
        self.seconds: dict[str, float] = {}

    def add(self, name: str, count: int, seconds: float) -> None:
        """So many more items, so much more time."""
        self.counts[name] = self.counts.get(name, 0) + count
        self.seconds[name] = self.seconds.get(name, 0.0) + seconds

    @contextmanager
    def timing(self, name: str, count: int = 0) -> Iterator[None]:
        """Add the time that the block takes."""
        started = time.perf_counter()
        try:
            yield
        finally:
            self.add(name, count, time.perf_counter() - started)
