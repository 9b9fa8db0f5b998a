"""Where the functions of one item run: in place or on how many threads, and why. The results are the same.

Functions that take half a millisecond or more, such as the decoding of photos, go to the threads at once. For cheaper
ones threads may cost more than they bring, because they wait for each other's interpreter lock. So these run in place
for some milliseconds, then on the threads, and stay where the items came sooner.
"""

from __future__ import annotations

import os

from webdataset.describe import counted

_EXPENSIVE = 5e-4  # seconds for one item; a photo takes more than twice as much
_TRIAL = 0.02  # seconds that each of the two ways is measured for
_DEARER = 4  # times what an item took when in place was chosen; then it is tried again
_RAMP = 10  # chunks after the start of threads, and two more for each of them, before their pace is that of the rest
_MOST = 32  # threads


class ThreadChoice:
    """Where one group of functions runs.

    >>> choice = ThreadChoice(2)
    >>> [choice.in_place(items=items, seconds=items * 0.001, wall=items * 0.002) for items in (1, 2)]
    [False, True]
    >>> choice.threads, choice.reason
    (2, 'a function takes 1.0 ms')

    Args:
        wanted: how many threads; "auto" for as many as there are processors, and more where functions wait.

    Attributes:
        threads: how many threads run the functions; 0 for none, then they run in place.
        reason: why.
    """

    def __init__(self, wanted: int | str) -> None:
        self._adapts = isinstance(wanted, str)
        self._pool = available_processors() if isinstance(wanted, str) else wanted
        self._each: float | None = None  # seconds of a function in place, when that was measured last
        self._came: float | None = None  # seconds in which an item came meanwhile; None if that is not compared
        self._ignored = 1  # what a function imports or sets up at its first call says nothing about the others
        self.threads, self.reason = 0, "not compared with threads yet"
        self._begin()

    def _begin(self) -> None:
        """Measure anew."""
        self._items, self._seconds, self._on_processor, self._wall = 0, 0.0, 0.0, 0.0

    def _go(self, threads: int, reason: str) -> bool:
        self.threads, self.reason = threads, reason
        self._ignored = _RAMP + 2 * threads if threads else 0
        self._begin()
        return True

    def __str__(self) -> str:
        where = f"on {counted(self.threads, 'thread')}" if self.threads else "in place"
        return f"functions run {where}: {self.reason}"

    @property
    def is_trial(self) -> bool:
        """Whether it is not known yet how long a function takes."""
        return self._each is None

    def in_place(self, *, items: int, seconds: float, wall: float) -> bool:
        """So many items went through the functions in place; whether they are to run elsewhere now.

        Args:
            items: how many.
            seconds: spent in the functions.
            wall: from the first to the last of them, with all that the program did meanwhile.
        """
        if self._ignored:
            self._ignored -= 1
            return False
        self._items, self._seconds, self._wall = self._items + items, self._seconds + seconds, self._wall + wall
        each = self._seconds / max(1, self._items)
        if each >= _EXPENSIVE:
            self._each, self._came = each, None
            return self._go(self._pool, f"a function takes {1000 * each:.1f} ms")
        if self._wall < _TRIAL:
            return False
        if self._each is None or each > _DEARER * self._each:
            self._each, self._came = each, self._wall / self._items
            return self._go(self._pool, "to be compared with running in place")
        self._begin()
        return False

    def on_threads(self, *, items: int, seconds: float, on_processor: float, wall: float) -> bool:
        """So many items went through the functions on threads; whether they are to run elsewhere now.

        Args:
            items: how many.
            seconds: spent in the functions.
            on_processor: how long the functions had a processor meanwhile.
            wall: from the first to the last of them, with all that the program did meanwhile.
        """
        if self._ignored:
            self._ignored -= 1
            return False
        self._items, self._seconds, self._wall = self._items + items, self._seconds + seconds, self._wall + wall
        self._on_processor += on_processor
        if self._wall < _TRIAL:
            return False
        came, each, in_place = self._wall / self._items, self._seconds / self._items, self._came
        if in_place is not None and in_place <= came:
            return self._go(0, f"on threads items took {came / in_place - 1:.0%} longer")
        if in_place is not None:
            self.reason, self._came, self._each = f"in place items took {in_place / came - 1:.0%} longer", None, each
        elif self._each is not None and each < self._each / _DEARER:  # the first few were not like the others
            self._each = None
            return self._go(0, "functions take less time than at first")
        share = self._on_processor / max(self._seconds, 1e-9)
        self._begin()
        # More threads where those that there are do not fill half a processor together.
        if not self._adapts or share * self.threads >= 0.5 or self.threads >= _MOST:
            return False
        self._pool = min(_MOST, 2 * self.threads)
        return self._go(self._pool, f"they wait for {1 - share:.0%} of their time")


def available_processors() -> int:
    """How many processors this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return max(1, len(os.sched_getaffinity(0)))
    return os.cpu_count() or 1
