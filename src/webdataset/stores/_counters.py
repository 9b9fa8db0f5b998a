"""Counters of the stores: bytes, seconds, retries."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping

from webdataset.mutex import Mutex


class Counters:
    """Thread-safe counters; `since` returns their growth after a `snapshot`.

    >>> counters = Counters()
    >>> before = counters.snapshot()
    >>> counters.add("http.bytes", 512)
    >>> counters.add("http.seconds", 0.5)
    >>> counters.since(before)
    {'http.bytes': 512, 'http.seconds': 0.5}
    """

    def __init__(self) -> None:
        self._lock = Mutex()
        self._numbers: Counter[str] = Counter()

    def add(self, name: str, amount: float = 1) -> None:
        """Increase one counter."""
        with self._lock:
            self._numbers[name] += amount  # type: ignore[assignment]  # seconds are fractions; Counter adds them fine

    def snapshot(self) -> dict[str, float]:
        """The current values of all counters."""
        with self._lock:
            return dict(self._numbers)

    def since(self, before: dict[str, float]) -> dict[str, float]:
        """The counters that grew after a snapshot, and by how much."""
        return growth(before, self.snapshot())

    def after_fork(self) -> None:
        """Replace the lock in a child: another thread of the parent may have held it."""
        self._lock = Mutex()


def growth(before: Mapping[str, float], now: Mapping[str, float]) -> dict[str, float]:
    """The counters that grew between two snapshots, and by how much.

    >>> growth({"http.opened": 1}, {"http.opened": 3, "http.bytes": 0})
    {'http.opened': 2}
    """
    return {name: value - before.get(name, 0) for name, value in now.items() if value != before.get(name, 0)}


def rates(grown: Mapping[str, float]) -> dict[str, float]:
    """Bytes per second of waiting, for each kind of store.

    >>> rates({"http.bytes": 3_000_000, "http.seconds": 2.0, "cache.hits": 1})
    {'http': 1500000.0}
    """
    kinds = {name.removesuffix(".bytes") for name in grown if name.endswith(".bytes")}
    return {kind: grown[f"{kind}.bytes"] / max(grown.get(f"{kind}.seconds", 0), 1e-9) for kind in sorted(kinds)}


counters = Counters()
"""The counters of this process: `KIND.bytes`, `KIND.seconds`, `KIND.retries`, `KIND.opened`, `cache.hits`, …"""

os.register_at_fork(after_in_child=counters.after_fork)
