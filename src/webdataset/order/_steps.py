"""Which process fetches which positions: equal steps on every rank, every sample exactly once.

With batches of B on R ranks, global step s covers the positions s·B·R … (s+1)·B·R-1 after the start; rank r has the
r-th B of them, and worker w of W the steps w, w+W, w+2W, … So the global sequence, read step by step and rank by rank,
is the epoch's order itself, whatever R and W are; and a checkpoint is one position, the same on every rank. The last
step may reach past the end: those positions are padding, marked and of weight 0, or the step is dropped.
"""

from __future__ import annotations

from dataclasses import dataclass

from webdataset.arguments import require_choice, require_count
from webdataset.errors import SpecError

PADDING = ("pad", "drop")


@dataclass(frozen=True)
class Steps:
    """The steps of `samples` samples.

    >>> len(Steps(samples=10, batch=2, ranks=2)), len(Steps(samples=10, batch=2, ranks=2, last="drop"))
    (3, 2)

    Args:
        samples: how many samples there are.
        batch: how many a rank takes per step.
        ranks: how many ranks there are.
        last: "pad" fills up the last step, "drop" leaves it out.
    """

    samples: int
    batch: int = 1
    ranks: int = 1
    last: str = "pad"

    def __post_init__(self) -> None:
        for name, least in (("samples", 0), ("batch", 1), ("ranks", 1)):
            require_count("Steps", name, getattr(self, name), least=least)
        require_choice("last", self.last, PADDING)

    def __len__(self) -> int:
        per_step = self.batch * self.ranks
        return self.samples // per_step if self.last == "drop" else -(-self.samples // per_step)

    def of_worker(self, worker: int, workers: int) -> range:
        """Return the steps that one of a rank's workers prepares; the loader takes them from the workers in turn.

        >>> Steps(samples=100, batch=10).of_worker(1, 4)
        range(1, 10, 4)
        """
        if not 0 <= worker < workers:
            raise SpecError(f"expected a worker from 0 to {workers - 1}, got {worker}")
        return range(worker, len(self), workers)
