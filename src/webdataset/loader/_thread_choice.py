"""Where the functions of one item run: in place or on how many threads, and why. The results are the same.

Functions that take half a millisecond or more, such as the decoding of photos, run on threads from the start. For
faster ones threads may cost more time than they save, because they wait for each other's interpreter lock. So these run
in place for some milliseconds, then on threads, and continue in the way that was faster.
"""

from __future__ import annotations

import os

from webdataset.describe import counted

_EXPENSIVE = 5e-4  # seconds for one item; a photo takes more than twice as much
_TRIAL = 0.02  # seconds for which each of the two ways is measured
_MUCH_SLOWER = 4  # when an item takes so many times what it took when a way was chosen, the ways are compared again
_RAMP = 10  # chunks that are not measured after threads were started, and two more for each thread: they are slower
_MOST = 32  # threads


class ThreadChoice:
    """Decides where one group of functions runs.

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
        self._seconds_per_item: float | None = None  # in the functions, when they were last measured in place
        self._wall_per_item: float | None = None  # wall time for an item then; None if it is not to be compared
        self._ignored = 1  # measurements to ignore: at its first call a function may import or set up something
        self.threads, self.reason = 0, "not compared with threads yet"
        self._reset()

    def _reset(self) -> None:
        """Start a new measurement."""
        self._items, self._seconds, self._on_processor, self._wall = 0, 0.0, 0.0, 0.0

    def _switch_to(self, threads: int, reason: str) -> bool:
        self.threads, self.reason = threads, reason
        self._ignored = _RAMP + 2 * threads if threads else 0
        self._reset()
        return True

    def __str__(self) -> str:
        where = f"on {counted(self.threads, 'thread')}" if self.threads else "in place"
        return f"functions run {where}: {self.reason}"

    @property
    def is_trial(self) -> bool:
        """Whether it has not been measured yet how long a function takes."""
        return self._seconds_per_item is None

    def in_place(self, *, items: int, seconds: float, wall: float) -> bool:
        """Note items that went through the functions in place; return whether the functions are to run elsewhere now.

        Args:
            items: how many items.
            seconds: the time in the functions.
            wall: the time from the first to the last item, with everything else that the program did.
        """
        if self._ignored:
            self._ignored -= 1
            return False
        self._items, self._seconds, self._wall = self._items + items, self._seconds + seconds, self._wall + wall
        per_item = self._seconds / max(1, self._items)
        if per_item >= _EXPENSIVE:
            self._seconds_per_item, self._wall_per_item = per_item, None
            return self._switch_to(self._pool, f"a function takes {1000 * per_item:.1f} ms")
        if self._wall < _TRIAL:
            return False
        if self._seconds_per_item is None or per_item > _MUCH_SLOWER * self._seconds_per_item:
            self._seconds_per_item, self._wall_per_item = per_item, self._wall / self._items
            return self._switch_to(self._pool, "to be compared with running in place")
        self._reset()
        return False

    def on_threads(self, *, items: int, seconds: float, on_processor: float, wall: float) -> bool:
        """Note items that went through the functions on threads; return whether they are to run elsewhere now.

        Args:
            items: how many items.
            seconds: the time in the functions.
            on_processor: the part of that time in which the functions had a processor.
            wall: the time from the first to the last item, with everything else that the program did.
        """
        if self._ignored:
            self._ignored -= 1
            return False
        self._items, self._seconds, self._wall = self._items + items, self._seconds + seconds, self._wall + wall
        self._on_processor += on_processor
        if self._wall < _TRIAL:
            return False
        on_threads, per_item, in_place = self._wall / self._items, self._seconds / self._items, self._wall_per_item
        if in_place is not None and in_place <= on_threads:
            return self._switch_to(0, f"on threads items took {on_threads / in_place - 1:.0%} longer")
        if in_place is not None:
            self.reason = f"in place items took {in_place / on_threads - 1:.0%} longer"
            self._wall_per_item, self._seconds_per_item = None, per_item
        elif self._seconds_per_item is not None and per_item < self._seconds_per_item / _MUCH_SLOWER:
            self._seconds_per_item = None  # the first items were not like the others
            return self._switch_to(0, "functions take less time than at first")
        share = self._on_processor / max(self._seconds, 1e-9)
        self._reset()
        # More threads if all of them together use less than half a processor.
        if not self._adapts or share * self.threads >= 0.5 or self.threads >= _MOST:
            return False
        self._pool = min(_MOST, 2 * self.threads)
        return self._switch_to(self._pool, f"they wait for {1 - share:.0%} of their time")


def available_processors() -> int:
    """Return how many processors this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return max(1, len(os.sched_getaffinity(0)))
    return os.cpu_count() or 1
