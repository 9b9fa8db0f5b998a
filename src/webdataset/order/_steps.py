"""Who fetches which positions: equal steps on every rank, every sample exactly once.

With batches of B on R ranks, global step s covers the positions s·B·R … (s+1)·B·R-1 after the start; rank r has the
r-th B of them, and worker w of W the steps w, w+W, w+2W, … So the global sequence, read step by step and rank by rank,
is the epoch's order itself, whatever R and W are; and a checkpoint is one position, the same on every rank. The last
step may reach past the end: those positions are padding, marked and of weight 0, or the step is dropped.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from webdataset.errors import SpecError, StateError

if TYPE_CHECKING:
    from numpy.typing import NDArray

PADDING = ("pad", "drop")


class Part(NamedTuple):
    """The positions of one step of one rank, and which of them are padding: real samples again, of weight 0."""

    positions: NDArray[np.int64]
    padding: NDArray[np.bool_]

    @property
    def weights(self) -> NDArray[np.int64]:
        """1 for a sample that counts, 0 for padding."""
        return 1 - self.padding.astype(np.int64)


@dataclass(frozen=True)
class Steps:
    """The steps that are left of an epoch of `samples` samples, from position `start` on.

    >>> steps = Steps(samples=10, batch=2, ranks=2)
    >>> len(steps), [steps.part(2, rank).positions.tolist() for rank in (0, 1)]
    (3, [[8, 9], [0, 1]])
    >>> steps.part(2, 1).weights
    array([0, 0])

    Args:
        samples: how many samples the epoch has.
        batch: how many a rank takes per step.
        ranks: how many ranks there are.
        start: how many positions were done before, on whatever number of ranks.
        last: "pad" fills up the last step, "drop" leaves it out.
    """

    samples: int
    batch: int = 1
    ranks: int = 1
    start: int = 0
    last: str = "pad"

    def __post_init__(self) -> None:
        if self.samples < 0 or self.batch < 1 or self.ranks < 1:
            raise SpecError(f"{self} is not possible", hint="batch and ranks are at least 1, samples at least 0")
        if self.last not in PADDING:
            raise SpecError(f"last={self.last!r} is not known", hint=f"one of {PADDING}")
        if not 0 <= self.start <= self.samples:
            raise StateError(
                f"position {self.start} is not in an epoch of {self.samples} samples",
                hint="resume with the dataset that the checkpoint was written for",
            )

    def __len__(self) -> int:
        left, per_step = self.samples - self.start, self.batch * self.ranks
        return left // per_step if self.last == "drop" else -(-left // per_step)

    def part(self, step: int, rank: int) -> Part:
        """What rank `rank` fetches in this step."""
        if not (0 <= step < len(self) and 0 <= rank < self.ranks):
            raise IndexError(f"step {step} of {len(self)}, rank {rank} of {self.ranks} does not exist")
        first = self.start + (step * self.ranks + rank) * self.batch
        positions = np.arange(first, first + self.batch)
        padding = positions >= self.samples
        return Part(positions % self.samples, padding)

    def of_worker(self, worker: int, workers: int) -> range:
        """The steps that one of a rank's workers prepares; workers are asked in turn.

        >>> Steps(samples=100, batch=10).of_worker(1, 4)
        range(1, 10, 4)
        """
        if not 0 <= worker < workers:
            raise SpecError(f"worker {worker} of {workers} does not exist", hint="workers count from 0")
        return range(worker, len(self), workers)

    def after(self, step: int) -> int:
        """The position to save when this step is done on all ranks.

        >>> Steps(samples=10, batch=2, ranks=2).after(2)
        10
        """
        return min(self.start + (step + 1) * self.batch * self.ranks, self.samples)
