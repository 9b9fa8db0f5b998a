"""Blocks of shared memory that have no name, so that nothing can be left behind by whoever is killed.

A worker makes a block with `memfd_create` and posts (pid, descriptor); the parent opens it under `/proc/<pid>/fd/`. The
memory lives as long as somebody maps it: it is not part of /dev/shm, neither its contents nor its limit. The first byte
of a block says whose turn it is; when the last view of a block is gone the parent gives it back, and the worker writes
the next batch into pages that both sides have mapped already.
"""

from __future__ import annotations

import mmap
import os
import sys
import weakref
from pathlib import Path
from typing import Any

import numpy as np

from webdataset.errors import StageError

KILLED = "a worker that ends without an error was killed: often for want of memory; fewer workers need less"

_FREE, _POSTED, _RECEIVED = range(3)
_MOST_OPEN = 256  # a mapping holds a descriptor, and processes are usually allowed 1,024
_HEADER = 64  # the state of the block, and room to keep what follows aligned


def available() -> bool:
    """Whether blocks can be made and opened by another process here.

    >>> isinstance(available(), bool)
    True
    """
    return sys.platform == "linux" and Path("/proc/self/fd").exists()


class Block:
    """One block, as the worker who made it sees it."""

    def __init__(self, size: int) -> None:
        self.capacity = size + size // 8  # the next batch may be a little larger
        self.descriptor = os.memfd_create("webdataset-batch")
        try:
            # Written without this, a page that cannot be had is a SIGBUS; with it, it is an error here and now.
            os.posix_fallocate(self.descriptor, 0, _HEADER + self.capacity)
            self._map = mmap.mmap(self.descriptor, _HEADER + self.capacity)
        except OSError as error:
            os.close(self.descriptor)
            raise StageError(
                f"there is no memory for a batch of {size:,} bytes ({error.strerror})",
                hint="fewer workers, a smaller prefetch_factor or smaller batches need less",
            ) from error
        self.close = weakref.finalize(self, os.close, self.descriptor)  # the other side may go on using what it has

    def write(self, offset: int, data: Any) -> None:
        """Copy a buffer in."""
        self._map[_HEADER + offset : _HEADER + offset + len(data)] = data

    def post(self) -> tuple[int, int, int]:
        """Hand the block over: what `receive` needs."""
        self._map[0] = _POSTED
        return os.getpid(), self.descriptor, _HEADER + self.capacity

    @property
    def free(self) -> bool:
        """Whether the other side has let go of it."""
        return self._map[0] == _FREE

    @property
    def received(self) -> bool:
        """Whether the other side has it, or had it."""
        return self._map[0] != _POSTED


class Blocks:
    """The blocks of a worker: a few to use again, and those that wait for the other side.

    >>> blocks = Blocks(keep=2)
    >>> first = blocks.take(100)
    >>> blocks.take(100) is first  # nobody has been given it
    True
    >>> block = receive(*first.post())
    >>> blocks.take(100) is first
    False
    >>> del block
    >>> blocks.take(100) is first
    True
    """

    def __init__(self, keep: int) -> None:
        self._keep = keep
        self._blocks: list[Block] = []

    def take(self, size: int) -> Block:
        """A block of at least this size that nobody uses."""
        for block in self._blocks:
            if block.free and size <= block.capacity <= 2 * size + mmap.PAGESIZE:
                return block
        self._forget()
        block = Block(size)
        self._blocks.append(block)
        return block

    def _forget(self) -> None:
        """A consumer who keeps many batches must not make us keep them too; blocks of another size are of no use."""
        spare = len(self._blocks) + 1 - self._keep
        for block in [block for block in self._blocks if block.received][: max(0, spare)]:
            self._blocks.remove(block)
            block.close()


def receive(pid: int, descriptor: int, length: int) -> np.ndarray[Any, Any]:
    """The bytes of a block that another process has posted; it is given back when the last view of them is gone."""
    try:
        opened = os.open(f"/proc/{pid}/fd/{descriptor}", os.O_RDWR)
    except OSError as error:
        if _has_ended(pid):
            raise StageError(f"worker process {pid} was killed while its batch was on the way", hint=KILLED) from error
        raise StageError(
            f"a batch of worker process {pid} cannot be opened ({error.strerror})",
            hint="this system forbids it: WebLoader(…, shared_memory=False) uses pipes",
        ) from error
    try:
        mapped = mmap.mmap(opened, length, flags=mmap.MAP_SHARED | mmap.MAP_POPULATE)
    finally:
        os.close(opened)
    # NumPy lets a view of a view refer to the array at the root, so it is the root whose end is the end of all views.
    block = np.frombuffer(mapped, np.uint8, offset=_HEADER)
    if _open.count >= _MOST_OPEN:
        return _copied(mapped, block)
    mapped[0] = _RECEIVED
    _open.count += 1
    weakref.finalize(block, _give_back, mapped).atexit = False
    return block


def _has_ended(pid: int) -> bool:
    """Whether a process is gone, or dead and not yet waited for: only root is told "no such file" of the latter."""
    try:
        status = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return True
    return status.rpartition(b")")[2].split()[0] in (b"Z", b"X")


class _Open:
    """How many blocks this process looks at."""

    count = 0


_open = _Open()


def _give_back(mapped: mmap.mmap) -> None:
    _open.count -= 1
    mapped[0] = _FREE


def _copied(mapped: mmap.mmap, block: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """For a consumer who keeps hundreds of batches."""
    copy = block.copy()
    mapped[0] = _FREE
    return copy
