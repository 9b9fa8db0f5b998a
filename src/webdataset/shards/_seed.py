"""Seeds for random generators that depend on the arguments alone."""

from __future__ import annotations

from typing import Any

from webdataset import world
from webdataset.flow import digest


def make_seed(*parts: Any) -> int:
    """Return a 31-bit seed made of values with a stable `repr`, the same in every process.

    >>> make_seed("train", 3) == make_seed("train", 3)
    True
    """
    return digest(*map(repr, parts)) & 0x7FFFFFFF


def pytorch_worker_info(group: Any = None) -> tuple[int, int, int, int]:
    """(rank, world size, worker, number of workers) of this process.

    >>> pytorch_worker_info()
    (0, 1, 0, 1)
    """
    here = world.current(group)
    return here.rank, here.ranks, here.worker, here.workers


def pytorch_worker_seed(group: Any = None) -> int:
    """A number that differs between the workers of up to 1,000 workers per rank.

    >>> with world.pretend(world.World(rank=2, ranks=4, worker=1, workers=2)):
    ...     pytorch_worker_seed()
    2001
    """
    here = world.current(group)
    return here.rank * 1000 + here.worker
