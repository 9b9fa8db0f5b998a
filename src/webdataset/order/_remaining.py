"""What remains of an epoch: all positions from some point on, except a few ranges that are done already.

Readers take the remaining positions in a fixed pattern (`Steps`), so the number that each of them took determines which
positions are done. What remains after all of them is again such a value, with which any other number of readers can go
on. If the readers were in step it is one number. If some were ahead because of a filter, there may be thousands of
ranges; then the earlier value and the counts are saved instead, which again are a few integers.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from webdataset.errors import StateError

from ._prefix_sums import starts_of
from ._steps import Steps

Ints = NDArray[np.int64]

# More ranges than this are saved as counts instead: 64 ranges take about 1.5 kB.
_MOST_RANGES = 64
_MOST_READERS, _LARGEST = 1_000_000, 2**40  # larger numbers in a checkpoint are malformed, and could fill the memory


class Reader(NamedTuple):
    """Worker `worker` of `workers` on rank `rank` of `ranks`, and how many positions it took, `batch` at a time."""

    rank: int
    ranks: int
    worker: int
    workers: int
    batch: int
    taken: int


def read_reader(saved: Iterable[Any]) -> Reader:
    """Return a reader from its JSON in a checkpoint.

    >>> read_reader([0, 1, 0, 0, 8, 3])
    Traceback (most recent call last):
    webdataset.errors.StateError: malformed checkpoint: Reader(rank=0, ranks=1, worker=0, workers=0, ...
    """
    reader = Reader(*map(int, saved))
    rank, ranks, worker, workers, batch, taken = reader
    if not (0 <= rank < ranks and 0 <= worker < workers and ranks * workers <= _MOST_READERS):
        raise _impossible(reader)
    if not (0 < batch < _LARGEST and 0 <= taken < _LARGEST):
        raise _impossible(reader)
    return reader


def _impossible(what: Any) -> StateError:
    return StateError(
        f"malformed checkpoint: {what}", hint="resume with the dataset that the checkpoint was written for"
    )


@dataclass(frozen=True)
class Remaining:
    """The positions of an epoch of `samples` samples that are not done.

    >>> rest = Remaining(10, position=4, also=((6, 8),))
    >>> len(rest), rest.positions([0, 1, 2, 3])
    (4, array([4, 5, 8, 9]))

    Args:
        samples: how many samples the epoch has.
        position: everything before it is done.
        also: ranges after `position` that are done too.
    """

    samples: int
    position: int = 0
    also: tuple[tuple[int, int], ...] = ()
    _made: tuple[Remaining, tuple[Reader, ...]] | None = field(default=None, repr=False, compare=False)

    def __post_init__(self) -> None:
        edges = [self.position, *(edge for done in self.also for edge in done), self.samples]
        if not self.position >= 0 or edges != sorted(edges):
            raise _impossible(self)

    def __len__(self) -> int:
        return self.samples - self.position - sum(stop - start for start, stop in self.also)

    def positions(self, numbers: Any) -> Ints:
        """Return the remaining positions with these numbers; after the last one the epoch begins again.

        So the padding of a last step does not depend on where the epoch was resumed.

        >>> Remaining(10, position=8).positions([0, 1, 2, 3])
        array([8, 9, 0, 1])
        """
        numbers = np.asarray(numbers, np.int64)
        starts, before = self._segments
        left = numbers % max(1, len(self))
        segment = np.searchsorted(before, left, side="right") - 1 if self.also else 0
        after_end = (numbers - len(self)) % max(1, self.samples)
        result: Ints = np.where(numbers < len(self), starts[segment] + left - before[segment], after_end)
        return result

    def without(self, start: int, stop: int) -> Remaining:
        """Return what remains when the positions from `start` up to `stop` are done, too.

        >>> Remaining(10).without(0, 4).without(6, 8)
        Remaining(samples=10, position=4, also=((6, 8),))
        """
        spans = list(_joined([(0, self.position), *self.also, (start, min(stop, self.samples))]))
        position = spans.pop(0)[1]
        return Remaining(self.samples, position, tuple(span for span in spans if span[0] < span[1]))

    def after(self, taken: Iterable[Reader]) -> Remaining:
        """Return what remains after these readers have taken their parts.

        >>> readers = [Reader(rank, 2, 0, 1, batch=2, taken=taken) for rank, taken in ((0, 4), (1, 2))]
        >>> Remaining(10).after(readers)
        Remaining(samples=10, position=6, also=())
        """
        readers = tuple(taken)
        first = min(_first_open(readers), len(self))  # all numbers before it are done, without listing them
        numbers = [_numbers(reader, first, len(self)) for reader in readers]
        done = np.unique(np.concatenate([np.empty(0, np.int64), *numbers]))
        done = done[(done >= first) & (done < len(self))]
        more = int(np.argmax(np.append(done, -1) != first + np.arange(len(done) + 1)))
        position = self.samples if first + more == len(self) else int(self.positions([first + more])[0])
        also = _ranges(self.positions(done[more:]))
        later = [span for span in self.also if span[0] > position]
        return Remaining(self.samples, position, _joined([*also, *later]), (self, readers))

    def to_json(self) -> dict[str, Any]:
        """As JSON.

        >>> Remaining(10, 4).to_json()
        {'samples': 10, 'position': 4, 'also': []}
        """
        if len(self.also) > _MOST_RANGES and self._made is not None:
            before, readers = self._made
            return {"before": before.to_json(), "readers": [list(reader) for reader in readers]}
        return {"samples": self.samples, "position": self.position, "also": [list(span) for span in self.also]}

    @classmethod
    def from_json(cls, saved: dict[str, Any]) -> Remaining:
        """Return the value from its JSON.

        >>> Remaining.from_json({"samples": 10, "position": 4, "also": []})
        Remaining(samples=10, position=4, also=())
        """
        if "readers" in saved:
            return cls.from_json(saved["before"]).after(read_reader(reader) for reader in saved["readers"])
        return cls(saved["samples"], saved["position"], tuple((start, stop) for start, stop in saved["also"]))

    def check_samples(self, samples: int) -> None:
        """Refuse what remains of another dataset.

        >>> Remaining(10).check_samples(9)
        Traceback (most recent call last):
        webdataset.errors.StateError: the checkpoint is of 10 samples, the dataset has 9 – resume with the dataset ...
        """
        if self.samples != samples:
            raise StateError(
                f"the checkpoint is of {self.samples} samples, the dataset has {samples}",
                hint="resume with the dataset that the checkpoint was written for",
            )

    @cached_property
    def _segments(self) -> tuple[Ints, Ints]:
        """Where the runs of remaining positions begin, and how many positions are in the runs before each."""
        starts = np.array([self.position, *(stop for _, stop in self.also)], np.int64)
        stops = np.array([*(start for start, _ in self.also), self.samples], np.int64)
        return starts, starts_of(stops - starts)

    def steps(self, batch: int, ranks: int, last: str) -> Steps:
        """Return how readers share what remains."""
        return Steps(len(self), batch, ranks, last=last)


def _first_open(readers: Sequence[Reader]) -> int:
    """Return the first number of the first step that not all readers have finished; 0 if some readers are missing."""
    if not readers:
        return 0
    ranks, batch = readers[0].ranks, readers[0].batch
    open_steps = {}
    for reader in readers:
        step = reader.worker + reader.workers * (reader.taken // batch)
        open_steps[reader.rank, reader.workers, reader.worker] = step
    workers = {reader.rank: reader.workers for reader in readers}
    expected = {(rank, workers.get(rank, 1), worker) for rank in range(ranks) for worker in range(workers.get(rank, 1))}
    return min(open_steps.values()) * ranks * batch if open_steps.keys() == expected else 0


def _numbers(reader: Reader, first: int, end: int) -> Ints:
    """Return the numbers from `first` on that a reader took, in its order; some may be after the end."""
    step = first // (reader.ranks * reader.batch)
    done = max(0, -(-(step - reader.worker) // reader.workers)) * reader.batch
    taken = min(reader.taken, end)  # a number is never smaller than its turn: later turns are after the end
    return numbers_of(reader, np.arange(min(done, taken), taken))


def numbers_of(reader: Reader, turns: Any) -> Ints:
    """Return the numbers that a reader takes at some of its turns, which count from 0.

    >>> numbers_of(Reader(rank=1, ranks=2, worker=0, workers=1, batch=2, taken=0), [0, 1, 2])
    array([2, 3, 6])
    """
    turns = np.asarray(turns, np.int64)
    step = reader.worker + reader.workers * (turns // reader.batch)
    result: Ints = (step * reader.ranks + reader.rank) * reader.batch + turns % reader.batch
    return result


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
