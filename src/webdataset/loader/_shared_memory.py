"""Blocks of shared memory that have no name, so that nothing can be left behind by whoever is killed.

A worker makes a block with `memfd_create` and posts (pid, descriptor); the parent opens it under `/proc/<pid>/fd/`. The
memory lives as long as somebody maps it: it is not part of /dev/shm, neither its contents nor its limit. The first byte
of a block says whose turn it is; when the last view of a block is gone the parent gives it back, and the worker writes
the next batch into it.

A block has room for arrays before it is posted (`Blocks.room`): a batch that is made there is not copied again. As
something in the worker may still look at such a batch, the parent then gets the pages as its own, copied when it
writes to them; and the block is used again when nobody on either side looks at it.
"""

from __future__ import annotations

import mmap
import os
import sys
import threading
import weakref
from pathlib import Path
from typing import Any

import numpy as np

from webdataset.errors import StageError

KILLED = "a worker that ends without an error was killed, probably out of memory; use fewer workers"

_FREE, _POSTED, _RECEIVED = range(3)
_MOST_OPEN = 256  # each holds a descriptor or two, and processes are usually allowed 1,024
_HEADER = mmap.ALLOCATIONGRANULARITY  # the state of the block; what follows can be mapped by itself
_ALIGNED = 64  # a cache line; enough for every dtype and vector instruction
_LEAST_ROOM = 1 << 16  # smaller arrays are copied: cheaper than keeping account of them

Array = np.ndarray[Any, Any]


def available() -> bool:
    """Whether blocks can be made and opened by another process here.

    >>> isinstance(available(), bool)
    True
    """
    return sys.platform == "linux" and Path("/proc/self/fd").exists()


class Block:
    """One block, as the worker who made it sees it."""

    def __init__(self, size: int) -> None:
        self.capacity = aligned(size + size // 8)  # the next batch may be a little larger
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
        self.used = 0
        self._arrays: set[int] = set()  # where those begin that were made here and still exist
        self._address = _address_of(self._map) + _HEADER

    def room(self, size: int) -> Array | None:
        """Bytes of this block to be filled, if there is room for them."""
        if not self._arrays:
            self.used = 0
        if size > self.capacity - self.used:
            return None
        start = self._reserve(size)
        room = np.frombuffer(self._map, np.uint8, size, _HEADER + start)
        self._arrays.add(start)
        weakref.finalize(room, self._arrays.discard, start).atexit = False
        return room

    def hold(self, buffer: memoryview) -> int:
        """Where in this block a buffer is; one that was not made here is copied in, and there must be room for it."""
        place = self._place_of(buffer)
        if place is None:
            place = self._reserve(buffer.nbytes)
            self._map[_HEADER + place : _HEADER + place + buffer.nbytes] = buffer
        return place

    def is_home_of(self, buffers: list[memoryview]) -> bool:
        """Whether some of the buffers were made here, and there is room for the others."""
        others = [aligned(buffer.nbytes) for buffer in buffers if self._place_of(buffer) is None]
        return len(others) < len(buffers) and sum(others) <= self.capacity - self.used

    def _place_of(self, buffer: memoryview) -> int | None:
        place = _address_of(buffer) - self._address
        return place if 0 <= place < self.used else None

    def _reserve(self, size: int) -> int:
        start, self.used = self.used, self.used + aligned(size)
        return start

    def post(self) -> tuple[int, int, int, bool]:
        """Hand the block over: what `receive` needs."""
        self._map[0] = _POSTED
        return os.getpid(), self.descriptor, _HEADER + self.capacity, bool(self._arrays)

    @property
    def free(self) -> bool:
        """Whether both sides have let go of it."""
        return self._map[0] == _FREE and not self._arrays

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
        self._maker = _who_runs()  # whose batches are made here: others cannot know when they are posted
        self._last = 0  # the size of the batch before: the next one will be like it
        self._open: Block | None = None  # the block in which the next batch is made

    def room(self, size: int) -> Array | None:
        """Bytes to be filled that need not be copied when they are posted; None if there are none to be had."""
        if size < _LEAST_ROOM or size > self._last or _who_runs() != self._maker:
            return None
        if self._open is None or (self._open.free and self._open.capacity < self._last):
            self._open = self.take(self._last)
        return self._open.room(size)

    def block_for(self, buffers: list[memoryview], size: int) -> Block:
        """The block in which these were made, or else one that has room for them: they come to so many bytes."""
        home = self._open
        if home is not None and home.is_home_of(buffers):
            if home.capacity <= _most_for(size):
                return home
            self._open = None  # made for a much larger batch: whoever keeps this one would keep all of it
        return self.take(size)

    def post(self, block: Block, size: int) -> tuple[int, int, int, bool]:
        """Hand over a block that holds a batch of this size; the next batch is made in another one."""
        self._last = size
        if block is self._open:
            self._open = None
        return block.post()

    def take(self, size: int) -> Block:
        """A block of at least this size that nobody uses."""
        for block in self._blocks:
            if block.free and size <= block.capacity <= _most_for(size):
                block.used = 0
                return block
        self._forget()
        block = Block(size)
        self._blocks.append(block)
        return block

    def _forget(self) -> None:
        """A consumer who keeps many batches must not make us keep them too; blocks of another size are of no use."""
        spare = len(self._blocks) + 1 - self._keep
        for block in [block for block in self._blocks if block.received and block is not self._open][: max(0, spare)]:
            self._blocks.remove(block)
            block.close()


def _who_runs() -> tuple[int, int]:
    """This thread of this process: one that a worker forks has its blocks before it, and they are not its own."""
    return os.getpid(), threading.get_ident()


def _most_for(size: int) -> int:
    """How large a block may be that holds so many bytes: a consumer who keeps them keeps the block."""
    return 2 * size + mmap.PAGESIZE


def receive(pid: int, descriptor: int, length: int, watched: bool) -> Array:
    """The bytes of a block that another process has posted; it is given back when the last view of them is gone.

    Args:
        pid: the process.
        descriptor: the block, there.
        length: its size.
        watched: somebody there still looks at it, and is not to see what is written here.
    """
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
        if watched:
            state = mmap.mmap(opened, _HEADER)
            mapped = mmap.mmap(opened, length - _HEADER, flags=mmap.MAP_PRIVATE, offset=_HEADER)
        else:
            state = mapped = mmap.mmap(opened, length, flags=mmap.MAP_SHARED | mmap.MAP_POPULATE)
    finally:
        os.close(opened)
    # NumPy lets a view of a view refer to the array at the root, so it is the root whose end is the end of all views.
    block = np.frombuffer(mapped, np.uint8, offset=0 if watched else _HEADER)
    if _open.count >= _MOST_OPEN:
        return _copied(state, block)
    state[0] = _RECEIVED
    _open.count += 1
    weakref.finalize(block, _give_back, state, _open.forks).atexit = False
    return block


def _has_ended(pid: int) -> bool:
    """Whether a process is gone, or dead and not yet waited for: only root is told "no such file" of the latter."""
    try:
        status = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return True
    return status.rpartition(b")")[2].split()[0] in (b"Z", b"X")


class _Open:
    """How many blocks this process looks at, and how often it was forked."""

    count = 0
    forks = 0

    def fork(self) -> None:
        self.forks += 1


_open = _Open()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_open.fork)


def _give_back(state: mmap.mmap, forks: int) -> None:
    _open.count -= 1
    if forks == _open.forks:  # else another process looks at the block as well; the worker forgets it
        state[0] = _FREE


def _copied(state: mmap.mmap, block: Array) -> Array:
    """For a consumer who keeps hundreds of batches."""
    copy = block.copy()
    state[0] = _FREE
    return copy


def aligned(size: int) -> int:
    """A size, and what keeps the next one aligned.

    >>> aligned(1), aligned(64)
    (64, 64)
    """
    return -(-size // _ALIGNED) * _ALIGNED


def _address_of(buffer: Any) -> int:
    """Where a buffer is in memory."""
    return int(np.frombuffer(buffer, np.uint8).__array_interface__["data"][0])
