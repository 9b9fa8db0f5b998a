"""How many threads run the functions of one item, and why. The results are the same for any number."""

from __future__ import annotations

import os

_CHUNKS = 4  # that are looked at together
_MOST = 32  # threads


class ThreadChoice:
    """The number of threads for one group of functions.

    >>> choice = ThreadChoice(2)
    >>> choice.threads, choice.note(seconds=1.0, on_processor=0.0), choice.reason
    (2, False, 'as num_workers= says')

    Args:
        wanted: how many threads; "auto" for as many as there are processors, and more where functions wait.
    """

    def __init__(self, wanted: int | str) -> None:
        self._adapts = isinstance(wanted, str)
        self._chunks = 0
        self._seconds = self._on_processor = 0.0
        self.threads = available_processors() if isinstance(wanted, str) else wanted
        self.reason = "one for each processor" if self._adapts else "as num_workers= says"

    def __str__(self) -> str:
        return f"{self.threads} threads: {self.reason}"

    def note(self, seconds: float, on_processor: float) -> bool:
        """A chunk was finished by a thread; whether the number of threads is another one now."""
        self._chunks, self._seconds = self._chunks + 1, self._seconds + seconds
        self._on_processor += on_processor
        if not self._adapts or self._chunks < _CHUNKS:
            return False
        share = self._on_processor / max(self._seconds, 1e-9)
        self._chunks, self._seconds, self._on_processor = 0, 0.0, 0.0
        if share * self.threads >= 0.5 or self.threads >= _MOST:  # together they fill half a processor, or more
            return False
        self.threads, self.reason = min(_MOST, 2 * self.threads), f"functions wait for {1 - share:.0%} of their time"
        return True


def available_processors() -> int:
    """How many processors this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return max(1, len(os.sched_getaffinity(0)))
    return os.cpu_count() or 1
