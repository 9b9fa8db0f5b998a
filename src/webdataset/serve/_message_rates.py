"""How many messages, samples and bytes were sent or received over a connection, and how fast."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable


class Statistics:
    """Counts, over all time and over the last `horizon` messages.

    >>> clock = iter([0.0, 1.0, 2.0, 2.0, 2.0, 2.0, 2.0]).__next__
    >>> stats = Statistics(clock=clock)
    >>> stats.add(4, 100); stats.add(4, 100)
    >>> stats.rate(), stats.throughput()
    (4.0, 100.0)
    """

    def __init__(self, horizon: int = 1000, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._began = self._reported = clock()
        self._recent: deque[tuple[float, int, int]] = deque(maxlen=max(2, horizon))
        self.messages = self.count = self.size = 0

    def add(self, samples: int = 1, size: int = 0) -> None:
        """Count one more message."""
        self.messages, self.count, self.size = self.messages + 1, self.count + samples, self.size + size
        self._recent.append((self._clock(), samples, size))

    def rate(self) -> float:
        """Samples per second since the beginning."""
        return self.count / self._since(self._began)

    def throughput(self) -> float:
        """Bytes per second since the beginning."""
        return self.size / self._since(self._began)

    def recent_rate(self) -> float:
        """Samples per second, of the last messages."""
        return self._recently(1)

    def recent_throughput(self) -> float:
        """Bytes per second, of the last messages."""
        return self._recently(2)

    def summary(self) -> str:
        """All counts and rates in one line."""
        return (
            f"{self.messages} messages, {self.count} samples, {self.recent_rate():.1f} samples/s, "
            f"{self.recent_throughput() / 1e6:.1f} MB/s (all: {self.rate():.1f}, {self.throughput() / 1e6:.1f})"
        )

    def is_due(self, every: float) -> bool:
        """Whether at least so many seconds have passed since this was last true."""
        if self._clock() - self._reported < every:
            return False
        self._reported = self._clock()
        return True

    def _recently(self, column: int) -> float:
        if len(self._recent) < 2:
            return 0.0
        return sum(entry[column] for entry in list(self._recent)[1:]) / self._since(self._recent[0][0])

    def _since(self, moment: float) -> float:
        return max(1e-9, self._clock() - moment)
