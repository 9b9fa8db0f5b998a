"""The order of an epoch as arithmetic: position → (shard, number of the sample there).

The data are cut into units: shards, or chunks of consecutive samples. An epoch permutes the units, takes windows
of K, and permutes the samples inside each; every permutation is keyed by (seed, epoch). A position is found with
two binary searches, so an order needs memory for the units only and starts at once, however many samples there are.
Windows are of equal size as far as possible, and of K units at least: a small rest would be mixed badly.

* K = 0: the order of storage.        * K = 1: units in random order, shuffled inside.
* K = all: a true global shuffle.     * chunks: FFCV's quasi-random order: few bytes in memory, near-random.

Ranks and workers do not occur here: they decide which process fetches a position, never which sample it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from webdataset.arguments import require_count
from webdataset.errors import SpecError
from webdataset.flow import digest

from ._permutation import derive_keys, permutation, permute
from ._prefix_sums import starts_of

Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Order:
    """The order of one epoch over shards with `counts` samples each.

    >>> order = Order([3, 2], seed=0, epoch=0, window=None)
    >>> order.locate(range(5))
    (array([0, 0, 1, 0, 1]), array([2, 1, 0, 0, 1]))

    Args:
        counts: how many samples each shard has.
        seed: with `epoch`, decides the order and nothing else does.
        window: how many units are mixed at a time, at least; None means all of them, 0 keeps the order of storage.
        chunk: units are runs of this many samples; None takes whole shards.
    """

    counts: Sequence[int] | Ints = field(repr=False)
    seed: int = 0
    epoch: int = 0
    window: int | None = None
    chunk: int | None = None
    _starts: Ints = field(init=False, repr=False)
    _units: Ints = field(init=False, repr=False)
    _shard_of: Ints = field(init=False, repr=False)
    _first_of: Ints = field(init=False, repr=False)

    def __post_init__(self) -> None:
        counts = _checked(self.counts, self.window, self.chunk)
        shard_of, first_of, sizes = _cut(counts, self.chunk)
        total = len(sizes)
        shuffled = self.window != 0
        units = permutation(total, digest("shards", self.seed, self.epoch)) if shuffled else np.arange(total)
        set_field = object.__setattr__  # the class is frozen
        set_field(self, "counts", counts)
        set_field(self, "_units", units)
        set_field(self, "_shard_of", shard_of)
        set_field(self, "_first_of", first_of)
        set_field(self, "_starts", starts_of(sizes[units]))

    def __len__(self) -> int:
        return int(self._starts[-1])

    def locate(self, positions: Any) -> tuple[Ints, Ints]:
        """The shards and the numbers inside them of many positions.

        >>> Order([3, 2], window=0).locate([0, 3, 4])
        (array([0, 1, 1]), array([0, 0, 1]))
        """
        inside = self._mixed(self._valid(positions))
        nth = np.searchsorted(self._starts, inside, side="right") - 1
        unit = self._units[nth]
        return self._shard_of[unit], self._first_of[unit] + inside - self._starts[nth]

    def contents(self) -> tuple[Ints, Ints, Ints]:
        """How many samples of which shard each window holds: (window, shard, count), one row per pair.

        >>> Order([3, 2, 4, 1], window=2).contents()
        (array([0, 0, 1, 1]), array([2, 3, 0, 1]), array([4, 1, 3, 2]))
        """
        shards = self._shard_of[self._units]
        pairs = self._window_of(np.arange(len(shards))) * len(self.counts) + shards
        distinct, which = np.unique(pairs, return_inverse=True)
        counts = np.bincount(which, weights=np.diff(self._starts), minlength=len(distinct)).astype(np.int64)
        return distinct // max(1, len(self.counts)), distinct % max(1, len(self.counts)), counts

    @property
    def _windows(self) -> int:
        units = len(self._units)
        return 1 if self.window is None else max(1, units // max(1, self.window))

    def _window_of(self, nth: Ints) -> Ints:
        # Window w begins with unit number w·units // windows; this is the inverse.
        return ((nth + 1) * self._windows - 1) // max(1, len(self._units))

    def _edge(self, windows: Ints) -> Ints:
        return windows * len(self._units) // self._windows

    def _mixed(self, positions: Ints) -> Ints:
        """Return the positions, permuted inside their windows."""
        if self.window == 0 or not len(positions):
            return positions
        window = self._window_of(np.searchsorted(self._starts, positions, side="right") - 1)
        start, stop = self._starts[self._edge(window)], self._starts[self._edge(window + 1)]
        key = digest("samples", self.seed, self.epoch)
        # One key for all positions if they are in one window: a sixth of the time for neighbouring positions.
        is_one = bool((window == window[0]).all())
        return start + permute(positions - start, stop - start, derive_keys(key, window[:1] if is_one else window))

    def _valid(self, positions: Any) -> Ints:
        array = np.atleast_1d(np.asarray(positions, dtype=np.int64))
        if not bool(((array >= 0) & (array < len(self))).all()):
            raise IndexError(f"expected positions from 0 to {len(self) - 1}, got {positions!r:.200}")
        return array


def _checked(counts: Any, window: int | None, chunk: int | None) -> Ints:
    array = np.asarray(counts, dtype=np.int64)
    if array.ndim != 1 or bool((array < 0).any()):
        raise SpecError(f"expected the number of samples of each shard, got {counts!r:.100}")
    if window is not None and window < 0:
        raise SpecError(f"window={window}: expected None for all, 0 for the order of storage, or a number above 0")
    if chunk is not None:
        require_count("Order", "chunk", chunk, least=1)
    return array


def _cut(counts: Ints, chunk: int | None) -> tuple[Ints, Ints, Ints]:
    """(shard, first sample, number of samples) of every unit."""
    if chunk is None:
        return np.arange(len(counts)), np.zeros(len(counts), np.int64), counts
    pieces = np.maximum(-(-counts // chunk), 1)
    shard_of = np.repeat(np.arange(len(counts)), pieces)
    first_of = (np.arange(len(shard_of)) - starts_of(pieces)[shard_of]) * chunk
    return shard_of, first_of, np.minimum(chunk, counts[shard_of] - first_of)
