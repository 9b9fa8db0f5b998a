"""What is left of an epoch: every position from some point on, but for a few ranges that are done already.

Readers take positions of the rest in a fixed pattern (`Steps`), so how many each of them took says exactly which are
done. Joined, that is again a rest, for any other number of readers to go on with.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from webdataset.errors import StateError

from ._partition import Steps

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Ints = NDArray[np.int64]


class Reader(NamedTuple):
    """Worker `worker` of `workers` on rank `rank` of `ranks`, and how many positions it took, `batch` at a time."""

    rank: int
    ranks: int
    worker: int
    workers: int
    batch: int
    taken: int


@dataclass(frozen=True)
class Rest:
    """The positions of an epoch of `samples` samples that are not done.

    >>> rest = Rest(10, position=4, also=((6, 8),))
    >>> len(rest), rest.positions([0, 1, 2, 3])
    (4, array([4, 5, 8, 9]))

    Args:
        samples: how many samples the epoch has.
        position: everything before it is done.
        also: ranges behind it that are done too.
    """

    samples: int
    position: int = 0
    also: tuple[tuple[int, int], ...] = ()

    def __post_init__(self) -> None:
        edges = [self.position, *(edge for done in self.also for edge in done), self.samples]
        if not self.position >= 0 or edges != sorted(edges):
            raise StateError(
                f"{self} is not possible", hint="resume with the dataset that the checkpoint was written for"
            )

    def __len__(self) -> int:
        return self.samples - self.position - sum(stop - start for start, stop in self.also)

    def positions(self, numbers: Any) -> Ints:
        """The positions of the rest with these numbers, counted from its beginning."""
        starts = np.array([self.position, *(stop for _, stop in self.also)], np.int64)
        stops = np.array([*(start for start, _ in self.also), self.samples], np.int64)
        before = np.concatenate(([0], np.cumsum(stops - starts)))
        numbers = np.asarray(numbers, np.int64)
        segment = np.searchsorted(before, numbers, side="right") - 1
        result: Ints = starts[segment] + numbers - before[segment]
        return result

    def after(self, taken: Iterable[Reader]) -> Rest:
        """The rest when these readers have taken so much of this one.

        >>> readers = [Reader(rank, 2, 0, 1, batch=2, taken=taken) for rank, taken in ((0, 4), (1, 2))]
        >>> Rest(10).after(readers)
        Rest(samples=10, position=6, also=())
        """
        numbers = [self._numbers(reader) for reader in taken]
        done = np.unique(np.concatenate(numbers)) if numbers else np.empty(0, np.int64)
        done = done[done < len(self)]
        first = int(np.argmax(np.append(done, -1) != np.arange(len(done) + 1)))  # the first number that is not done
        position = self.samples if first == len(self) else int(self.positions([first])[0])
        also = _ranges(self.positions(done[first:]))
        later = tuple(span for span in self.also if span[0] > position)
        return Rest(self.samples, position, _joined([*also, *later]))

    def save(self) -> dict[str, Any]:
        """As JSON.

        >>> Rest(10, 4).save()
        {'samples': 10, 'position': 4, 'also': []}
        """
        return {"samples": self.samples, "position": self.position, "also": [list(span) for span in self.also]}

    @classmethod
    def load(cls, saved: dict[str, Any], samples: int) -> Rest:
        """What was saved, if it was saved for as many samples.

        >>> Rest.load({"samples": 10, "position": 4, "also": []}, samples=9)
        Traceback (most recent call last):
        webdataset.errors.StateError: the checkpoint is of 10 samples, the dataset has 9 – resume with the dataset ...
        """
        if saved["samples"] != samples:
            raise StateError(
                f"the checkpoint is of {saved['samples']} samples, the dataset has {samples}",
                hint="resume with the dataset that the checkpoint was written for",
            )
        return cls(samples, saved["position"], tuple((start, stop) for start, stop in saved["also"]))

    def _numbers(self, reader: Reader) -> Ints:
        """The numbers of the positions that a reader took, of padding and behind the end too."""
        k = np.arange(reader.taken)
        step = reader.worker + reader.workers * (k // reader.batch)
        return (step * reader.ranks + reader.rank) * reader.batch + k % reader.batch

    def steps(self, batch: int, ranks: int, last: str) -> Steps:
        """How readers share this rest."""
        return Steps(len(self), batch, ranks, last=last)


def _ranges(positions: Ints) -> list[tuple[int, int]]:
    if not len(positions):
        return []
    breaks = np.flatnonzero(np.diff(positions) != 1) + 1
    return [(int(run[0]), int(run[-1]) + 1) for run in np.split(positions, breaks)]


def _joined(spans: Sequence[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    joined: list[tuple[int, int]] = []
    for start, stop in sorted(spans):
        if joined and joined[-1][1] >= start:
            joined[-1] = (joined[-1][0], max(stop, joined[-1][1]))
        else:
            joined.append((start, stop))
    return tuple(joined)
