"""The rank and worker number of this process. The only file that asks torch for them.

A dataset needs them inside a torch worker process, where no loader of ours exists; so they are in one of the lowest
layers (docs/decisions/0002-world-below.md). Nothing here imports torch: a process that uses torch
workers or torch.distributed has imported it already.
"""

from __future__ import annotations

import sys
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from webdataset import config
from webdataset.errors import SpecError

if TYPE_CHECKING:
    from collections.abc import Iterator


@dataclass(frozen=True, slots=True)
class World:
    """This process among all that read the same dataset.

    >>> World(rank=1, ranks=2, worker=0, workers=3).part
    (3, 6)
    """

    rank: int = 0
    ranks: int = 1
    worker: int = 0
    workers: int = 1

    def __post_init__(self) -> None:
        if not (0 <= self.rank < self.ranks and 0 <= self.worker < self.workers):
            raise SpecError(
                f"{self} is not possible",
                hint="ranks and workers count from 0; check RANK, WORLD_SIZE, WORKER and NUM_WORKERS",
            )

    @property
    def part(self) -> tuple[int, int]:
        """(which, of how many), counting every worker of every rank."""
        return self.rank * self.workers + self.worker, self.ranks * self.workers


_pretended: ContextVar[World | None] = ContextVar("webdataset_world", default=None)


def current(group: Any = None) -> World:
    """The world of this process: pretended, else the environment's, else torch's, else alone.

    >>> current()
    World(rank=0, ranks=1, worker=0, workers=1)
    """
    pretended = _pretended.get()
    if pretended is not None:
        return pretended
    rank, ranks = _ranks(group)
    worker, workers = _workers()
    return World(rank, ranks, worker, workers)


@contextmanager
def pretend(world: World) -> Iterator[World]:
    """Be somebody else for a while, in this thread: for simulations and tests of many ranks in one process.

    >>> with pretend(World(rank=3, ranks=4)):
    ...     current().rank
    3
    """
    token = _pretended.set(world)
    try:
        yield world
    finally:
        _pretended.reset(token)


def _ranks(group: Any) -> tuple[int, int]:
    rank, ranks = config.read("RANK"), config.read("WORLD_SIZE")
    if rank is not None and ranks is not None:
        return rank, ranks
    distributed = sys.modules.get("torch.distributed")
    if distributed is not None and distributed.is_available() and distributed.is_initialized():
        return distributed.get_rank(group=group), distributed.get_world_size(group=group)
    return 0, 1


def _workers() -> tuple[int, int]:
    worker, workers = config.read("WORKER"), config.read("NUM_WORKERS")
    if worker is not None and workers is not None:
        return worker, workers
    data = sys.modules.get("torch.utils.data")
    info = data.get_worker_info() if data is not None else None
    return (info.id, info.num_workers) if info is not None else (0, 1)
