"""Which pass is this? A counter that torch's worker processes share with their parent.

A dataset is copied into every worker, and workers that do not persist are new in every epoch, so a plain attribute
would start from zero each time and every epoch would have the same order. So the number of the next pass, and a table,
lie in shared memory. The table has one entry per iteration: a number that names it, the number of its first pass, and
when its workers were born. All workers of one iteration compute the same name, so whoever comes first appends it and
the others find it; writing it twice is harmless, and no lock is needed.

The name is made of the seed that torch gives its workers. A user who seeds torch anew for every epoch makes that seed
come again; then the workers' births tell the iterations apart.
"""

from __future__ import annotations

import mmap
import os
import re
import struct
import sys
import tempfile
import weakref
from pathlib import Path
from typing import Any

from webdataset.errors import SpecError
from webdataset.flow import digest

_WORD = struct.Struct("<Q")
_ENTRY = struct.Struct("<QQQ")  # name, first pass, birth; the first entry holds the number of the next pass instead
_ENTRIES = 1 << 16  # 1.5 MB of address space, touched page by page as iterations go by
_RECENT = 64  # how many iterations one worker may be ahead of another


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
        self._table = mmap.mmap(-1, (_ENTRIES + 1) * _ENTRY.size)
        self._descriptor: int | None = (
            None  # of the file that backs the table once it has been sent to a spawned process
        )
        self._iterations = 0
        self._requested = False

    def next(self) -> int:
        """The number of the first pass of the iteration that starts now in this process."""
        self._iterations += 1
        self._requested = False
        name, birth, workers = _identify(self._iterations)
        epoch = self.peek()  # before looking for the name: whoever raises this has written the name already
        free = self._first_free()
        known = self._find(name, birth, workers, free)
        if known is None:
            self._append(free, name, epoch, birth)
        epoch = epoch if known is None else known
        self.begin(epoch)
        return epoch

    def _find(self, name: int, birth: int, workers: int, free: int) -> int | None:
        """The first pass of an iteration that another worker has begun."""
        for entry in range(free - 1, max(0, free - 1 - _RECENT), -1):
            known, first, born = self._read(entry)
            if known == name and abs(birth - born) < workers:
                return first
        return None

    def go_on(self, epoch: int) -> None:
        """Start an iteration in the middle: with this pass."""
        self._iterations += 1
        self.begin(epoch)

    def begin(self, epoch: int) -> None:
        """Let the next iteration start after this pass."""
        if self.peek() <= epoch:
            self._write_next(epoch + 1)

    def peek(self) -> int:
        """The number that the first pass of the next iteration will get."""
        return int(_WORD.unpack_from(self._table)[0])

    def set(self, epoch: int) -> None:
        """Let the next pass be number `epoch`, in this process and in workers that live already."""
        if isinstance(epoch, bool) or not isinstance(epoch, int) or epoch < 0:
            raise SpecError(f"set_epoch({epoch!r})", hint="epochs are whole numbers and count from 0")
        self._write_next(epoch)
        self._requested = True

    def take_requested(self) -> int | None:
        """The number that `set` gave, if it was called since the last time."""
        requested, self._requested = self._requested, False
        return self.peek() if requested else None

    def _write_next(self, epoch: int) -> None:
        _WORD.pack_into(self._table, 0, epoch)

    def _append(self, free: int, name: int, epoch: int, birth: int) -> None:
        if free > _ENTRIES:  # the table is full: begin it again with this iteration
            for entry in range(1, free):
                self._write(entry, 0, 0, 0)
            free = 1
        self._write(free, name, epoch, birth)

    def _first_free(self) -> int:
        """Iterations fill the table from the front, so the first empty entry is found by bisection."""
        low, high = 1, _ENTRIES + 1
        while low < high:
            middle = (low + high) // 2
            low, high = (middle + 1, high) if self._read(middle)[0] else (low, middle)
        return low

    def _read(self, entry: int) -> tuple[int, int, int]:
        name, epoch, birth = _ENTRY.unpack_from(self._table, entry * _ENTRY.size)
        return name, epoch, birth

    def _write(self, entry: int, name: int, epoch: int, birth: int) -> None:
        at = entry * _ENTRY.size
        _WORD.pack_into(self._table, at + 2 * _WORD.size, birth)
        _WORD.pack_into(self._table, at + _WORD.size, epoch)
        _WORD.pack_into(self._table, at, name)  # last: who finds the name finds the numbers

    def __getstate__(self) -> dict[str, Any]:
        return {"epoch": self.peek(), "shared": self._for_spawned_child()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__()  # type: ignore[misc]  # the constructor is this class's own and takes nothing
        if state["shared"] is None:
            self._write_next(state["epoch"])
        else:
            self._adopt(state["shared"].detach())

    def _for_spawned_child(self) -> Any:
        """A handle of the shared table when this object is on its way to a spawned process, else None."""
        multiprocessing = sys.modules.get("multiprocessing.context")
        if multiprocessing is None or multiprocessing.get_spawning_popen() is None:
            return None
        from multiprocessing.reduction import DupFd

        if self._descriptor is None:
            self._descriptor, path = tempfile.mkstemp(prefix="wds-epochs-")
            Path(path).unlink()
            weakref.finalize(self, os.close, self._descriptor)
            os.write(self._descriptor, self._table[:])
            self._table = mmap.mmap(self._descriptor, len(self._table))
        return DupFd(self._descriptor)

    def _adopt(self, descriptor: int) -> None:
        self._table = mmap.mmap(descriptor, len(self._table))
        os.close(descriptor)


def _identify(number: int) -> tuple[int, int, int]:
    """The name of this process's iteration, the birth of its workers, and their number.

    The name is never 0, and equal in all workers that torch started (or restarted) for one iteration.
    """
    data = sys.modules.get("torch.utils.data")
    info = data.get_worker_info() if data is not None else None
    if info is None:
        return digest(f"process {os.getpid()}", number) or 1, 0, 1
    return digest(f"workers {info.seed - info.id}", number) or 1, _birth_of_first(info.id), info.num_workers


def _birth_of_first(worker: int) -> int:
    """Which child of its parent the first of these workers is: "ForkProcess-7" is the seventh.

    torch starts one worker after the other, so all of them compute the same number. If somebody else starts processes
    in between they are a little off; workers of a later iteration are off by their number at least.
    """
    from multiprocessing import current_process

    found = re.search(r"\d+\Z", current_process().name)
    return max(0, int(found[0]) - worker) if found else 0
