"""How well an order mixes, in numbers, compared with a shuffle buffer of the usual size on the same shards."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import chain, islice

import numpy as np
from numpy.typing import NDArray

from webdataset.describe import counted
from webdataset.flow import Pass
from webdataset.order import Order, starts_of
from webdataset.shards import shard_order
from webdataset.stages import Shuffle

Ints = NDArray[np.int64]

# Enough for three digits of every measure; takes about 0.1 s.
_MEASURED = 50_000
_BATCH = 256
# A buffer starts to yield when it holds this many, as `shuffle(initial=100)` does.
_INITIAL = 100


@dataclass(frozen=True)
class Mixing:
    """How well one way of shuffling mixes.

    Attributes:
        same_shard: how often two neighbours come from the same shard.
        displacement: how far a sample is from its position in storage, as a share of the dataset (median).
        shards_per_batch: how many different shards 256 samples in a row come from (mean).
        bytes_fetched: bytes read per byte of the dataset.
    """

    same_shard: float
    displacement: float
    shards_per_batch: float
    bytes_fetched: float = 1.0


@dataclass(frozen=True)
class ShuffleReport:
    """The mixing of an order compared with that of a shuffle buffer; `str()` is a table, `svg()` a picture.

    >>> report = shuffle_report(Order([100] * 64, window=32), buffer=1000)
    >>> print(report)
    6,400 samples in 64 shards, seed 0, epoch 0  window of 32  buffer of 1,000
    neighbours from the same shard                      0.031            0.072
    displacement (median, of the dataset)               0.327            0.297
    shards per 256 samples                               33.1             32.0
    shards in use at the same time                         32                1
    bytes fetched / dataset                              1.00             1.00
    """

    order: Order
    buffer: int
    ordered: Mixing
    buffered: Mixing
    _places: tuple[Ints, Ints] = field(repr=False)

    def __str__(self) -> str:
        order, total = self.order, len(self.order.counts)
        window = total if order.window is None else order.window
        unit = "" if order.chunk is None else f" chunks of {order.chunk:,}"
        heads = (f"window of {window:,}{unit}", f"buffer of {self.buffer:,}")
        rows = [
            (
                f"{counted(len(order), 'sample')} in {counted(total, 'shard')}, seed {order.seed}, epoch {order.epoch}",
                *heads,
            ),
            ("neighbours from the same shard", *(f"{each.same_shard:.3f}" for each in self._both)),
            ("displacement (median, of the dataset)", *(f"{each.displacement:.3f}" for each in self._both)),
            (f"shards per {_BATCH} samples", *(f"{each.shards_per_batch:.1f}" for each in self._both)),
            ("shards in use at the same time", f"{window:,}", "1"),
            ("bytes fetched / dataset", *(f"{each.bytes_fetched:.2f}" for each in self._both)),
        ]
        widths = [max(len(row[column]) for row in rows) for column in range(3)]
        return "\n".join(f"{a:<{widths[0]}}  {b:>{widths[1]}}  {c:>{widths[2]}}" for a, b, c in rows)

    def svg(self) -> str:
        """Return a picture: for each of a few thousand positions, the position in storage that its sample comes from.

        >>> shuffle_report(Order([50] * 8, window=4)).svg()[:36]
        '<svg xmlns="http://www.w3.org/2000/s'
        """
        panels = []
        titles = (f"window of {self.order.window}", f"buffer of {self.buffer}")
        for left, (title, places) in zip((10, 330), zip(titles, self._places, strict=True), strict=True):
            xs = left + np.linspace(0, 300, len(places))
            ys = 330 - 300 * places / max(1, len(self.order))
            dots = "".join(f"M{x:.1f} {y:.1f}h1" for x, y in zip(xs, ys, strict=True))
            panels.append(f'<text x="{left}" y="20" font-size="14">{title}</text><path d="{dots}" stroke="#246"/>')
        return f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 640 340">{"".join(panels)}</svg>'

    @property
    def _both(self) -> tuple[Mixing, Mixing]:
        return self.ordered, self.buffered


def shuffle_report(order: Order, *, buffer: int = 1000) -> ShuffleReport:
    """Measure an order, and a shuffle buffer after shuffled shards for comparison.

    >>> report = shuffle_report(Order([1000] * 100, window=32))
    >>> report.ordered.same_shard < 1.2 / 32 < report.buffered.same_shard
    True

    Args:
        order: what to measure.
        buffer: the size of the buffer to compare with.
    """
    positions = np.unique(np.linspace(0, max(0, len(order) - 1), _MEASURED).astype(np.int64))[: len(order)]
    ordered = _places(order, positions)
    buffered = _buffered(order, buffer)
    return ShuffleReport(
        order,
        buffer,
        Mixing(_same_shard(order), _displacement(ordered - positions, order), _variety(order)),
        _mixing_of(buffered, order),
        (ordered[:: max(1, len(ordered) // 4000)], buffered[:: max(1, len(buffered) // 4000)]),
    )


def _places(order: Order, positions: Ints) -> Ints:
    """Return the positions in storage of the samples at these positions of the epoch."""
    shards, numbers = order.locate(positions)
    return starts_of(order.counts)[shards] + numbers


def _same_shard(order: Order) -> float:
    """Return the probability that two neighbours come from one shard: inside a window all orders are equally likely."""
    if order.window == 0:
        return 1 - (len(order.counts) - 1) / max(1, len(order) - 1)
    windows, _, counts = order.contents()
    sizes = np.bincount(windows, weights=counts)[windows]
    return float((counts * (counts - 1) / np.maximum(1, sizes)).sum()) / max(1, len(order) - 1)


def _displacement(distance: Ints, order: Order) -> float:
    return float(np.median(np.abs(distance))) / max(1, len(order)) if len(distance) else 0.0


def _variety(order: Order) -> float:
    firsts = np.linspace(0, max(0, len(order) - _BATCH), 50).astype(np.int64)
    batches = [order.locate(np.arange(first, min(first + _BATCH, len(order))))[0] for first in firsts]
    return float(np.mean([len(np.unique(batch)) for batch in batches]))


def _buffered(order: Order, size: int) -> Ints:
    """Return the positions in storage of the first samples of a shuffle buffer after shuffled shards."""
    buffer = Shuffle(size, _INITIAL, rng=Pass(order.seed, order.epoch).rng("buffer"))
    places = islice(buffer(_shard_by_shard(order, _MEASURED + size)), _MEASURED)
    return np.fromiter(places, np.int64)


def _shard_by_shard(order: Order, samples: int) -> Iterator[int]:
    starts = starts_of(order.counts).tolist()
    shards = shard_order(len(order.counts), order.seed, order.epoch)
    return islice(chain.from_iterable(range(starts[shard], starts[shard + 1]) for shard in shards), samples)


def _mixing_of(places: Ints, order: Order) -> Mixing:
    shards = np.searchsorted(starts_of(order.counts), places, side="right") - 1
    batches = [shards[first : first + _BATCH] for first in range(0, max(1, len(shards) - _BATCH + 1), _BATCH)]
    return Mixing(
        same_shard=float((shards[1:] == shards[:-1]).mean()) if len(shards) > 1 else 0.0,
        displacement=_displacement(places - np.arange(len(places)), order),
        shards_per_batch=float(np.mean([len(np.unique(batch)) for batch in batches])),
    )
