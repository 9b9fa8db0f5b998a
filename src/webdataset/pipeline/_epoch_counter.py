"""The number of the next pass: a counter that torch's worker processes share with their parent.

A dataset is copied into every worker, and workers that do not persist are new in every epoch, so a plain attribute
would start from zero each time and every epoch would have the same order. So the number of the next pass, and a ring
buffer of the latest iterations, are in shared memory from the first fork or spawn on. An entry of the ring buffer is a
number that names the iteration, the number of its first pass, and the birth number of its workers. All workers of one
iteration compute the same name: the first one appends the entry and the others find it.

The name is made of the seed that torch gives its workers. A program that seeds torch anew for every epoch has the same
seed each time; then the workers' birth numbers distinguish the iterations.
"""

from __future__ import annotations

import fcntl
import mmap
import os
import re
import struct
import sys
import tempfile
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from webdataset import world
from webdataset.arguments import require_count
from webdataset.errors import StageError
from webdataset.flow import digest
from webdataset.mutex import Mutex

_WORD = struct.Struct("<Q")
_ENTRY = struct.Struct("<QQQ")  # name, first pass, birth
_RING = 2 * _WORD.size  # the ring buffer comes after the number of the next pass and the count of entries written
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
        self.requested = False  # whether the user has set the number of the next pass
        self._failure: OSError | None = None  # why the table could not be shared with a forked worker
        with _fork_lock:
            _not_shared.add(self)

    def next(self) -> int:
        """Start an iteration in this process, and return the number of its first pass."""
        return self._start_iteration(None)

    def go_on(self, epoch: int) -> None:
        """Start an iteration that is resumed in this pass."""
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
        """Note that a pass has begun: the next iteration starts after it."""
        with self._locked():
            if self.peek() <= epoch:
                self._write_next(epoch + 1)

    def peek(self) -> int:
        """Return the number that the first pass of the next iteration will have."""
        return self._word(0)

    def set(self, epoch: int) -> None:
        """Give the next pass the number `epoch`, in this process and in workers that exist already."""
        epoch = require_count("set_epoch", "epoch", epoch, least=0)
        with self._locked():
            self._write_next(epoch)

    def _find(self, worker: Any) -> int | None:
        """Return the first pass of this worker's iteration, if another worker has started it."""
        name, birth = self._name(worker), _birth_of_first(worker.id)
        for entry in range(min(self._word(_WORD.size), _ENTRIES)):
            known, first, born = _ENTRY.unpack_from(self._table, _RING + entry * _ENTRY.size)
            if known == name and abs(birth - born) < worker.num_workers:
                return int(first)
        return None

    def _append(self, worker: Any, first: int) -> None:
        written = self._word(_WORD.size)
        offset = _RING + written % _ENTRIES * _ENTRY.size
        _ENTRY.pack_into(self._table, offset, self._name(worker), first, _birth_of_first(worker.id))
        _WORD.pack_into(self._table, _WORD.size, written + 1)

    def _name(self, worker: Any) -> int:
        return digest(worker.seed - worker.id, self._iterations)

    def _word(self, offset: int) -> int:
        return int(_WORD.unpack_from(self._table, offset)[0])

    def _write_next(self, epoch: int) -> None:
        _WORD.pack_into(self._table, 0, epoch)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Lock the table for other processes; the system releases the lock of a process that is killed."""
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
        """Move the table into memory that can be shared with other processes."""
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
        """Return a handle of the shared table if this object is being pickled for a spawned process, else None."""
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
        """Whether the table is in memory that can be shared with other processes."""
        return self._descriptor is not None


def _unnamed_file() -> int:
    """Return the descriptor of an empty file without a name: only this process and its children can open it."""
    if hasattr(os, "memfd_create"):  # in memory: a disk may be full, or may not support locks
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
    """Return the birth number of worker 0: how many children its parent had started, as in the name "ForkProcess-7".

    torch starts one worker after the other, so all of them compute the same number. If the program starts processes in
    between, the numbers differ by less than the number of workers; those of a later iteration differ by at least that.
    """
    from multiprocessing import current_process

    found = re.search(r"\d+\Z", current_process().name)
    return max(0, int(found[0]) - worker) if found else 0


# Counters that are not shared yet. They are shared before a fork; the lock keeps other threads from adding any then.
_not_shared: weakref.WeakSet[EpochCounter] = weakref.WeakSet()
_fork_lock = Mutex()


def _before_fork() -> None:
    _fork_lock.acquire()
    for counter in tuple(_not_shared):
        try:
            if not counter.is_shared:
                counter.share()
        except OSError as error:  # an exception here would not stop the fork: a worker that uses the counter raises it
            counter._failure = error.with_traceback(None)
        else:
            counter._failure = None
            _not_shared.discard(counter)


os.register_at_fork(before=_before_fork, after_in_parent=_fork_lock.release, after_in_child=_fork_lock.release)
