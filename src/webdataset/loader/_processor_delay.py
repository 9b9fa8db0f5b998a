"""How long a thread was ready to run and no processor was free; by the clock that looks like waiting for a store."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager

# Linux counts it for each thread: nanoseconds on a processor, nanoseconds of waiting for one, turns.
_COUNTS = "/proc/thread-self/schedstat"


@contextmanager
def processor_delay() -> Iterator[Callable[[], float]]:
    """A function that returns the seconds since the beginning in which this thread waited for a processor.

    It costs 12 µs. Where the system does not count, it returns 0.

    >>> with processor_delay() as delay:
    ...     delay() >= 0
    True
    """
    try:
        counts = os.open(_COUNTS, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        yield lambda: 0.0
        return
    try:
        before = _waited(counts)
        yield lambda: _waited(counts) - before
    finally:
        os.close(counts)


def _waited(counts: int) -> float:
    return int(os.pread(counts, 100, 0).split()[1]) / 1e9
