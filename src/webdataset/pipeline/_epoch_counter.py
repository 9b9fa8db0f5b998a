"""Which pass is this? A counter that torch's worker processes share with their parent.

A dataset is copied into every worker, and workers that do not persist are new in every epoch, so a plain attribute
would start from zero each time and every epoch would have the same order. So the number of the next pass, and a ring of
the latest iterations, are in shared memory from the first fork or spawn on. An entry of the ring is a number that names
the iteration, the number of its first pass, and the birth of its workers. All workers of one iteration compute the same
name: the first one appends the entry and the others find it.

The name is made of the seed that torch gives its workers. A program that seeds torch anew for every epoch makes that
seed come again; then the workers' births tell the iterations apart.
"""

from __future__ import annotations

import fcntl
import mmap
import os
import re
import struct
import sys
import tempfile
import threading
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from webdataset import world
from webdataset.arguments import require_count
from webdataset.errors import StageError
from webdataset.flow import digest

_WORD = struct.Struct("<Q")
_ENTRY = struct.Struct("<QQQ")  # name, first pass, birth
_RING = 2 * _WORD.size  # the ring comes after the number of the next pass, and how many entries were written
_ENTRIES = 64  # how many iterations one worker may be ahead of another
_SIZE = _RING + _ENTRIES * _ENTRY.size


class EpochCounter:
    """Numbers the passes over a dataset.

    >>> epochs = EpochCounter()
    >>> epochs.next(), epochs.next()
    (0, 1)
    >>> epochs.set(7)
    >>> epochs.next()
    7
    """

    def __init__(self) -> None:
        self._table: bytearray | mmap.mmap = bytearray(_SIZE)
        self._descriptor: int | None = None  # of the file that backs the table, once it is shared
        self._iterations = 0
        self.requested = False  # a user has numbered the next iteration
        self._failure: OSError | None = None  # why a forked worker has a table of its own
        with _fork_lock:
            _not_shared.add(self)

    def next(self) -> int:
        """The number of the first pass of the iteration that starts now in this process."""
        return self._start_iteration(None)

    def go_on(self, epoch: int) -> None:
        """Start an iteration in the middle: with this pass."""
        self._start_iteration(epoch)

    def _start_iteration(self, epoch: int | None) -> int:
        self._iterations += 1
        self.requested = False
        worker = world.torch_worker()
        if worker is not None and self._failure is not None:
            raise _not_shareable(self._failure)
        with self._locked():
            first = None if worker is None else self._find(worker)
            if first is None:
                first = self.peek() if epoch is None else epoch
                self._write_next(first + 1)
                if worker is not None:
                    self._append(worker, first)
            elif epoch is not None and self.peek() <= epoch:  # workers may resume in different passes
                self._write_next(epoch + 1)
        return first

    def begin(self, epoch: int) -> None:
        """Let the next iteration start after this pass."""
        with self._locked():
            if self.peek() <= epoch:
                self._write_next(epoch + 1)

    def peek(self) -> int:
        """The number that the first pass of the next iteration will get."""
        return self._word(0)

    def set(self, epoch: int) -> None:
        """Let the next pass be number `epoch`, in this process and in workers that live already."""
        epoch = require_count("set_epoch", "epoch", epoch, least=0)
        with self._locked():
            self._write_next(epoch)

    def _find(self, worker: Any) -> int | None:
        """The first pass of this worker's iteration, if another worker of it has begun."""
        name, birth = self._name(worker), _birth_of_first(worker.id)
        for entry in range(min(self._word(_WORD.size), _ENTRIES)):
            known, first, born = _ENTRY.unpack_from(self._table, _RING + entry * _ENTRY.size)
            if known == name and abs(birth - born) < worker.num_workers:
                return int(first)
        return None

    def _append(self, worker: Any, first: int) -> None:
        written = self._word(_WORD.size)
        at = _RING + written % _ENTRIES * _ENTRY.size
        _ENTRY.pack_into(self._table, at, self._name(worker), first, _birth_of_first(worker.id))
        _WORD.pack_into(self._table, _WORD.size, written + 1)

    def _name(self, worker: Any) -> int:
        return digest(worker.seed - worker.id, self._iterations)

    def _word(self, at: int) -> int:
        return int(_WORD.unpack_from(self._table, at)[0])

    def _write_next(self, epoch: int) -> None:
        _WORD.pack_into(self._table, 0, epoch)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Be the only process that changes the table; the lock of a process that is killed is released."""
        if self._descriptor is None:
            yield
            return
        try:
            fcntl.lockf(self._descriptor, fcntl.LOCK_EX)
        except OSError as error:
            raise _not_shareable(error) from error
        try:
            yield
        finally:
            fcntl.lockf(self._descriptor, fcntl.LOCK_UN)

    def share(self) -> None:
        """Put the table into memory that other processes can have in common with this one."""
        descriptor = _unnamed_file()
        try:
            os.write(descriptor, self._table)
            self._map(descriptor)
        except BaseException:
            os.close(descriptor)
            raise

    def _map(self, descriptor: int) -> None:
        self._table, self._descriptor = mmap.mmap(descriptor, _SIZE), descriptor
        weakref.finalize(self, os.close, descriptor)

    def __getstate__(self) -> dict[str, Any]:
        return {"epoch": self.peek(), "shared": self._for_spawned_child()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__()  # type: ignore[misc]  # the constructor is this class's own and takes nothing
        if state["shared"] is None:
            self._write_next(state["epoch"])
        else:
            self._map(state["shared"].detach())

    def _for_spawned_child(self) -> Any:
        """A handle of the shared table when this object is on its way to a spawned process, else None."""
        multiprocessing = sys.modules.get("multiprocessing.context")
        if multiprocessing is None or multiprocessing.get_spawning_popen() is None:
            return None
        from multiprocessing.reduction import DupFd

        if self._descriptor is None:
            self.share()
        assert self._descriptor is not None
        return DupFd(self._descriptor)

    @property
    def is_shared(self) -> bool:
        """Whether other processes can have the table in common."""
        return self._descriptor is not None


def _unnamed_file() -> int:
    """The descriptor of an empty file that only this process and its children can have."""
    if hasattr(os, "memfd_create"):  # in memory: not on a disk that may be full, or that knows no locks
        return os.memfd_create("wds-epochs-")
    descriptor, path = tempfile.mkstemp(prefix="wds-epochs-")
    Path(path).unlink()
    return descriptor


def _not_shareable(error: OSError) -> StageError:
    return StageError(
        f"the number of the epoch cannot be shared with worker processes: {error.strerror or error}",
        hint="check the limits of the system (ulimit -n, free memory)",
    )


def _birth_of_first(worker: int) -> int:
    """Which child of its parent the first of these workers is: "ForkProcess-7" is the seventh.

    torch starts one worker after the other, so all of them compute the same number. If the program starts processes in
    between they are a little off; workers of a later iteration are off by their number at least.
    """
    from multiprocessing import current_process

    found = re.search(r"\d+\Z", current_process().name)
    return max(0, int(found[0]) - worker) if found else 0


# Counters that no other process can see yet. A fork shares them; the lock keeps other threads from adding meanwhile.
_not_shared: weakref.WeakSet[EpochCounter] = weakref.WeakSet()
_fork_lock = threading.Lock()


def _before_fork() -> None:
    _fork_lock.acquire()
    for counter in tuple(_not_shared):
        try:
            if not counter.is_shared:
                counter.share()
        except OSError as error:  # a fork goes on whatever is raised here: a worker that reads this dataset says it
            counter._failure = error.with_traceback(None)
        else:
            counter._failure = None
            _not_shared.discard(counter)


os.register_at_fork(before=_before_fork, after_in_parent=_fork_lock.release, after_in_child=_fork_lock.release)
