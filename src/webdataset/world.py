"""The rank and worker number of this process. No other file gets them from torch.

A dataset needs them inside a torch worker process, where no loader of ours exists; so they are in one of the lowest
layers (docs/decisions/0002-world-below.md). This file does not import torch: a process that uses torch workers or
torch.distributed has imported it already.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

from webdataset import config
from webdataset.errors import SpecError

logger = logging.getLogger(__name__)

# Launchers set these. MPI comes before SLURM: under `mpirun` inside a SLURM job, SLURM's variables count daemons.
_LAUNCHERS = (("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"), ("PMI_RANK", "PMI_SIZE"))
# Classes that give every rank a part of what a dataset yields, by the package that has them.
_OTHER_SPLITTERS = {
    "accelerate": {"IterableDatasetShard", "DataLoaderDispatcher"},
    "transformers": {"IterableDatasetShard"},
}
_ALONE = (0, 1)


@dataclass(frozen=True, slots=True)
class World:
    """The rank and worker number of this process among all that read the same dataset.

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
                f"{self}: expected 0 <= rank < ranks and 0 <= worker < workers",
                hint="check RANK, WORLD_SIZE, WORKER and NUM_WORKERS",
            )

    @property
    def part(self) -> tuple[int, int]:
        """(which, of how many), counting every worker of every rank."""
        return self.rank * self.workers + self.worker, self.ranks * self.workers


class Sender(NamedTuple):
    """The rank of a process that sends a dataset to its worker processes."""

    process: int
    rank: int
    ranks: int


_pretended: ContextVar[World | None] = ContextVar("webdataset_world", default=None)
_sender: Sender | None = None


def current(group: Any = None) -> World:
    """Return the world of this process: from `pretend`, the parent, the environment, torch, MPI or SLURM; else alone.

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
    """Use another world for a while, in this thread: for simulations and tests of many ranks in one process.

    >>> with pretend(World(rank=3, ranks=4)):
    ...     current().rank
    3
    """
    token = _pretended.set(world)
    try:
        yield world
    finally:
        _pretended.reset(token)


def sender() -> Sender | None:
    """Return what is pickled with a dataset for the worker process that unpickles it; None if there is one rank."""
    rank, ranks = _ranks(None)
    known = ranks > 1 or _declared()[1] > 1
    return Sender(os.getpid(), rank, ranks) if known else None


def receive(sent: Sender | None) -> None:
    """Take over the rank of the parent process.

    A worker process that was spawned has no process group, and cannot find out that another package splits the dataset
    of its parent. What a process other than the parent pickled is ignored.
    """
    global _sender  # noqa: PLW0603 - a process has one parent
    if sent is not None and sent.process != os.getpid():  # else it is a copy within the process
        _sender = sent


def _from_parent() -> Sender | None:
    """Return what the parent sent, checked only now: a spawned process unpickles it before its parent is set."""
    if _sender is None:
        return None
    import multiprocessing  # here, because it takes 3 ms

    parent = multiprocessing.parent_process()
    return _sender if parent is not None and parent.pid == _sender.process else None


@contextmanager
def as_worker(here: World) -> Iterator[World]:
    """Use the world of another worker in this block, also in torch's own functions: to simulate a splitter in it.

    >>> with as_worker(World(worker=1, workers=2)):
    ...     current().worker
    1
    """
    module = sys.modules.get("torch.utils.data._utils.worker")
    before = getattr(module, "_worker_info", None)
    if before is not None:
        info = type(before)(id=here.worker, num_workers=here.workers, seed=before.seed, dataset=before.dataset)
        module._worker_info = info  # type: ignore[union-attr]  # the module is loaded
    try:
        with pretend(here):
            yield here
    finally:
        if before is not None:
            module._worker_info = before  # type: ignore[union-attr]


def _ranks(group: Any) -> tuple[int, int]:
    sent = _from_parent()
    if sent is not None and group is None:
        return sent.rank, sent.ranks
    rank, ranks = _declared(group)
    if ranks > 1 and (splitter := _other_splitter()) is not None:
        _log_once(splitter)
        return _ALONE
    return rank, ranks


@cache
def _log_once(splitter: str) -> None:
    logger.warning(
        "%s splits this dataset among the ranks, so webdataset does not split it again; to let webdataset split it, "
        "give the training loop a WebLoader that is not passed to prepare() (docs/training.md)",
        splitter,
    )


def _declared(group: Any = None) -> tuple[int, int]:
    """Return the rank and number of ranks from the launcher or the process group."""
    found = _pair("RANK", "WORLD_SIZE")
    if found is not None:
        return found
    distributed = sys.modules.get("torch.distributed")
    if distributed is not None and distributed.is_available() and distributed.is_initialized():
        return distributed.get_rank(group=group), distributed.get_world_size(group=group)
    for names in _LAUNCHERS:
        found = _pair(*names)
        if found is not None:
            return found
    return _slurm()


def _slurm() -> tuple[int, int]:
    """Return the task of a SLURM job step; a batch script that `srun` did not start is one process."""
    rank = config.read("SLURM_PROCID")
    in_job, in_step = config.read("SLURM_JOB_ID") is not None, config.read("SLURM_STEP_ID") is not None
    if rank is None or (in_job and not in_step):
        return _ALONE
    size = "SLURM_NTASKS" if config.read("SLURM_STEP_NUM_TASKS") is None else "SLURM_STEP_NUM_TASKS"
    return _pair("SLURM_PROCID", size) or _ALONE


def _pair(which: str, of: str) -> tuple[int, int] | None:
    """Return the values of two variables that belong together; None if neither is set."""
    number, count = config.read(which), config.read(of)
    if number is None and count is None:
        return None
    if number is None or count is None:
        given, missing, value = (of, which, count) if number is None else (which, of, number)
        raise SpecError(
            f"the environment has {given}={value}, but not {missing}",
            hint="set both or neither; a launcher such as torchrun sets both, RANK=0 WORLD_SIZE=1 is one process alone",
        )
    if not 0 <= number < count:
        raise SpecError(
            f"the environment has {which}={number} and {of}={count}",
            hint=f"expected 0 <= {which} < {of}: ranks count from 0",
        )
    return number, count


def _other_splitter() -> str | None:
    """Return the class of another package that iterates this dataset and splits its items among the ranks, if any."""
    frame = sys._getframe(1)
    while frame is not None:
        package = str(frame.f_globals.get("__name__", "")).partition(".")[0]
        if package in _OTHER_SPLITTERS:
            name = type(frame.f_locals.get("self")).__name__
            if name in _OTHER_SPLITTERS[package]:
                return f"{package}'s {name}"
        frame = frame.f_back  # type: ignore[assignment]  # None ends the loop
    return None


def in_worker() -> bool:
    """Whether this is a worker process of a loader."""
    return _from_parent() is not None or torch_worker() is not None


def _workers() -> tuple[int, int]:
    worker, workers = config.read("WORKER"), config.read("NUM_WORKERS")
    if worker is not None and workers is not None:  # NUM_WORKERS alone is often a variable of the program
        return worker, workers
    info = torch_worker()
    return (info.id, info.num_workers) if info is not None else _ALONE


def torch_worker() -> Any:
    """Return torch's information on this worker process (`id`, `num_workers`, `seed`); None if it is not a worker.

    >>> torch_worker() is None
    True
    """
    data = sys.modules.get("torch.utils.data")
    return data.get_worker_info() if data is not None else None
