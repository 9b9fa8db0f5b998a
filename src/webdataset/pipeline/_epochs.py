"""Which pass is this? A counter that torch's worker processes share with their parent.

A dataset is copied into every worker, and workers that do not persist are new in every epoch, so a plain attribute
would start from zero each time and every epoch would have the same order. The counter is a table in shared memory: one
entry per pass, holding a number that names the pass. All workers of one epoch compute the same name, so whoever comes
first appends it and the others find it; writing it twice is harmless, and no lock is needed.
"""

from __future__ import annotations

import mmap
import os
import struct
import sys
import tempfile
import weakref
from pathlib import Path
from typing import Any

from webdataset.errors import SpecError
from webdataset.flow import digest

_WORD = struct.Struct("<Q")
_ENTRIES = 1 << 17  # a megabyte of address space, touched page by page as passes go by
_REACH = 4096  # how many passes one worker may be ahead of another that repeats the data in one iteration


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
        self._table = mmap.mmap(-1, (_ENTRIES + 1) * _WORD.size)
        self._descriptor: int | None = None  # of the file that backs the table once it has been sent to a spawned process
        self._passes = 0

    def next(self) -> int:
        """The number of the pass that starts now in this process."""
        self._passes += 1
        name = _name_of_pass(self._passes)
        free = self._first_free()
        recent = range(free - 1, max(0, free - 1 - _REACH), -1)
        entry = next((entry for entry in recent if self._read(entry) == name), free)
        epoch = self._read(0) + entry - 1
        if entry > _ENTRIES:  # the table is full: begin it again with this pass
            self.go_on_after(epoch - 1)
            entry = free = 1
        if entry == free:
            self._write(entry, name)
        return epoch

    def peek(self) -> int:
        """The number that the next new pass will get."""
        return self._read(0) + self._first_free() - 1

    def set(self, epoch: int) -> None:
        """Let the next pass be number `epoch`, in this process and in workers that live already."""
        if isinstance(epoch, bool) or not isinstance(epoch, int) or epoch < 0:
            raise SpecError(f"set_epoch({epoch!r})", hint="epochs are whole numbers and count from 0")
        self.go_on_after(epoch - 1)

    def go_on_after(self, epoch: int) -> None:
        """Number the passes from `epoch` + 1 on."""
        for entry in range(1, self._first_free()):
            self._write(entry, 0)
        self._write(0, epoch + 1)

    def _first_free(self) -> int:
        """Passes fill the table from the front, so the first empty entry is found by bisection."""
        low, high = 1, _ENTRIES + 1
        while low < high:
            middle = (low + high) // 2
            low, high = (middle + 1, high) if self._read(middle) else (low, middle)
        return low

    def _read(self, entry: int) -> int:
        return int(_WORD.unpack_from(self._table, entry * _WORD.size)[0])

    def _write(self, entry: int, value: int) -> None:
        _WORD.pack_into(self._table, entry * _WORD.size, value)

    def __getstate__(self) -> dict[str, Any]:
        return {"epoch": self.peek(), "shared": self._for_spawned_child()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__()  # type: ignore[misc]  # the constructor is this class's own and takes nothing
        if state["shared"] is None:
            self._write(0, state["epoch"])
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


def _name_of_pass(number: int) -> int:
    """Never 0, and equal in all workers that torch started (or restarted) for one epoch."""
    data = sys.modules.get("torch.utils.data")
    info = data.get_worker_info() if data is not None else None
    family = f"workers {info.seed - info.id}" if info is not None else f"process {os.getpid()}"
    return digest(family, number) or 1
