"""The order of an epoch as arithmetic: position → (shard, number of the sample there), and back.

The data are cut into units: shards, or chunks of consecutive samples. An epoch permutes the units, takes windows
of K, and permutes the samples inside each; every permutation is keyed by (seed, epoch). A position is found with
two binary searches, so an order needs memory for the units only and starts at once, however many samples there are.
Windows are of equal size as far as possible, and of K units at least: a small rest would be mixed badly.

* K = 0: the order of storage.        * K = 1: units in random order, shuffled inside.
* K = all: a true global shuffle.     * chunks: FFCV's quasi-random order: few bytes in memory, near-random.

Ranks and workers do not occur here: they decide who fetches a position, never which sample it is.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from webdataset.errors import SpecError
from webdataset.flow import digest

from ._permutation import Permutation, derive_keys, permute

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Ints = NDArray[np.int64]


class Window(NamedTuple):
    """Consecutive positions and the shards that hold their samples."""

    start: int
    stop: int
    shards: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Order:
    """The order of one epoch over shards with `counts` samples each.

    >>> order = Order([3, 2], seed=0, epoch=0, window=None)
    >>> [order.at(position) for position in range(5)]
    [(0, 2), (0, 1), (1, 0), (0, 0), (1, 1)]
    >>> order.position_of(1, 1)
    4

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
    _places: Ints = field(init=False, repr=False)
    _shard_of: Ints = field(init=False, repr=False)
    _first_of: Ints = field(init=False, repr=False)
    _unit_starts: Ints = field(init=False, repr=False)

    def __post_init__(self) -> None:
        counts = _checked(self.counts, self.window, self.chunk)
        shard_of, first_of, sizes = _cut(counts, self.chunk)
        total = len(sizes)
        shuffled = self.window != 0
        units = Permutation(total, digest("shards", self.seed, self.epoch)).table() if shuffled else np.arange(total)
        places = np.empty(total, np.int64)
        places[units] = np.arange(total)
        put = object.__setattr__  # the one way to finish a frozen object
        put(self, "counts", counts)
        put(self, "_units", units)
        put(self, "_places", places)
        put(self, "_shard_of", shard_of)
        put(self, "_first_of", first_of)
        put(self, "_starts", _sums(sizes[units]))
        put(self, "_unit_starts", np.searchsorted(shard_of, np.arange(len(counts))))

    def __len__(self) -> int:
        return int(self._starts[-1])

    def for_epoch(self, epoch: int) -> Order:
        """The same data in another epoch's order."""
        return replace(self, epoch=epoch)

    def locate(self, positions: Any) -> tuple[Ints, Ints]:
        """The shards and the numbers inside them of many positions.

        >>> Order([3, 2], window=0).locate([0, 3, 4])
        (array([0, 1, 1]), array([0, 0, 1]))
        """
        inside = self._mixed(self._valid(positions, len(self)), inverse=False)
        place = np.searchsorted(self._starts, inside, side="right") - 1
        unit = self._units[place]
        return self._shard_of[unit], self._first_of[unit] + inside - self._starts[place]

    def positions_of(self, shards: Any, numbers: Any) -> Ints:
        """The positions of samples in this epoch: the inverse of `locate`.

        >>> Order([3, 2], window=0).positions_of([1], [1])
        array([4])
        """
        shard = self._valid(shards, len(self.counts))
        number = self._valid(numbers, np.asarray(self.counts)[shard])
        unit = self._unit_starts[shard] + (0 if self.chunk is None else number // self.chunk)
        inside = self._starts[self._places[unit]] + number - self._first_of[unit]
        return self._mixed(inside, inverse=True)

    def at(self, position: int) -> tuple[int, int]:
        """The shard and the number inside it of one position."""
        shards, numbers = self.locate([position])
        return int(shards[0]), int(numbers[0])

    def position_of(self, shard: int, number: int) -> int:
        """The position of one sample in this epoch."""
        return int(self.positions_of([shard], [number])[0])

    def window_at(self, position: int) -> Window:
        """The window around a position: what has to be at hand to read on from here.

        >>> Order([3, 2, 4, 1], window=2).window_at(0)
        Window(start=0, stop=5, shards=(2, 3))
        """
        self._valid([position], len(self))
        window = self._window_of(np.searchsorted(self._starts, [position], side="right") - 1)
        first, last = int(self._edge(window)[0]), int(self._edge(window + 1)[0])
        shards = self._shard_of[self._units[first:last]]
        return Window(int(self._starts[first]), int(self._starts[last]), tuple(dict.fromkeys(shards.tolist())))

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

    def _window_of(self, places: Ints) -> Ints:
        # Window w begins at place w·units // windows; this is the inverse.
        return ((places + 1) * self._windows - 1) // max(1, len(self._units))

    def _edge(self, windows: Ints) -> Ints:
        return windows * len(self._units) // self._windows

    def _mixed(self, positions: Ints, *, inverse: bool) -> Ints:
        """Positions permuted inside their windows."""
        if self.window == 0 or not len(positions):
            return positions
        window = self._window_of(np.searchsorted(self._starts, positions, side="right") - 1)
        start, stop = self._starts[self._edge(window)], self._starts[self._edge(window + 1)]
        key = digest("samples", self.seed, self.epoch)
        # One key for all where one window is all there is: a sixth of the time for neighbouring positions.
        one = bool((window == window[0]).all())
        keys = derive_keys(key, window[:1])[0] if one else derive_keys(key, window)
        return start + permute(positions - start, stop - start, keys, inverse=inverse)

    def _valid(self, numbers: Any, limit: Any) -> Ints:
        array = np.atleast_1d(np.asarray(numbers, dtype=np.int64))
        if not bool(((array >= 0) & (array < limit)).all()):
            raise IndexError(f"{numbers} is not all inside 0 … {np.asarray(limit).max(initial=0) - 1}")
        return array


def sequential(counts: Sequence[int]) -> Order:
    """The order of storage.

    >>> [sequential([2, 1]).at(position) for position in range(3)]
    [(0, 0), (0, 1), (1, 0)]
    """
    return Order(counts, window=0)


def quasi_random(counts: Sequence[int], *, batch: int, chunk: int, seed: int = 0, epoch: int = 0) -> Order:
    """FFCV's compromise: chunks in random order, 2·batch of them open at a time, samples drawn from the open ones.

    >>> len(quasi_random([1000, 1000], batch=4, chunk=16))
    2000
    """
    return Order(counts, seed=seed, epoch=epoch, window=2 * batch, chunk=chunk)


def _checked(counts: Any, window: int | None, chunk: int | None) -> Ints:
    array = np.asarray(counts, dtype=np.int64)
    if array.ndim != 1 or bool((array < 0).any()):
        raise SpecError(
            "the counts are not one number from 0 up per shard", hint="give how many samples each shard has"
        )
    if window is not None and window < 0:
        raise SpecError(
            f"window={window} is not possible", hint="None for all, 0 for the order of storage, or a number"
        )
    if chunk is not None and chunk < 1:
        raise SpecError(f"chunk={chunk} is not possible", hint="give a number of samples, at least 1")
    return array


def _cut(counts: Ints, chunk: int | None) -> tuple[Ints, Ints, Ints]:
    """(shard, first sample, number of samples) of every unit."""
    if chunk is None:
        return np.arange(len(counts)), np.zeros(len(counts), np.int64), counts
    pieces = np.maximum(-(-counts // chunk), 1)
    shard_of = np.repeat(np.arange(len(counts)), pieces)
    first_of = (np.arange(len(shard_of)) - _sums(pieces)[shard_of]) * chunk
    return shard_of, first_of, np.minimum(chunk, counts[shard_of] - first_of)


def _sums(sizes: Ints) -> Ints:
    return np.concatenate(([0], np.cumsum(sizes, dtype=np.int64)))
