"""Blocks of shared memory without names, so that a process that is killed leaves nothing behind.

A worker makes a block with `memfd_create` and sends (pid, descriptor); the parent opens it under `/proc/<pid>/fd/`. The
memory exists as long as a process maps it: it is not part of /dev/shm, neither its contents nor its limit. The first
byte of a block is its state; when the last view of a block is gone the parent sets it to free, and the worker writes
the next batch into it.

Arrays can be allocated in a block before it is sent (`Blocks.allocate`): such a batch is not copied again. As the
worker may still use it, the parent then maps the pages privately, copied when it writes to them; and the block is
reused when neither side uses it.
"""

from __future__ import annotations

import errno
import mmap
import os
import resource
import sys
import threading
import weakref
from pathlib import Path
from typing import Any

import numpy as np

from webdataset.errors import StageError

KILLED = "a worker that ends without an error was killed, probably out of memory; use fewer workers"

_FREE, _SENT, _RECEIVED = range(3)
_MOST_OPEN = 256  # and a quarter of the descriptors that this process may have: each holds one or two
_TOO_MANY = {errno.EMFILE, errno.ENFILE}
_HEADER = mmap.ALLOCATIONGRANULARITY  # the state of the block; what follows can be mapped by itself
_ALIGNED = 64  # a cache line; enough for every dtype and vector instruction
_SMALLEST = 1 << 16  # smaller arrays are copied: cheaper than tracking them

Array = np.ndarray[Any, Any]


def available() -> bool:
    """Whether blocks can be made and opened by another process here.

    >>> isinstance(available(), bool)
    True
    """
    return sys.platform == "linux" and os.path.exists("/proc/self/fd")


class Block:
    """One block, as the worker who made it sees it."""

    def __init__(self, size: int) -> None:
        self.capacity = aligned(size + size // 8)  # the next batch may be a little larger
        self.descriptor = os.memfd_create("webdataset-batch")
        try:
            # Without this, writing to a page that cannot be allocated is a SIGBUS; with it, it is an error here.
            os.posix_fallocate(self.descriptor, 0, _HEADER + self.capacity)
            self._map = mmap.mmap(self.descriptor, _HEADER + self.capacity)
        except BaseException:
            os.close(self.descriptor)
            raise
        self.close = weakref.finalize(self, os.close, self.descriptor)  # the other process keeps its own mapping
        self.used = 0
        self._arrays: set[int] = set()  # where the arrays begin that were allocated here and still exist
        self._address = _address_of(self._map) + _HEADER

    def allocate(self, size: int) -> Array | None:
        """Bytes of this block to be filled; None if it has not enough left."""
        if not self._arrays:
            self.used = 0
        if size > self.capacity - self.used:
            return None
        start = self._reserve(size)
        memory = np.frombuffer(self._map, np.uint8, size, _HEADER + start)
        self._arrays.add(start)
        weakref.finalize(memory, self._arrays.discard, start).atexit = False
        return memory

    def hold(self, buffer: memoryview) -> int:
        """Where in this block a buffer is; one that was not allocated here is copied in, and must fit."""
        place = self._start_of(buffer)
        if place is None:
            place = self._reserve(buffer.nbytes)
            self._map[_HEADER + place : _HEADER + place + buffer.nbytes] = buffer
        return place

    def can_hold(self, buffers: list[memoryview]) -> bool:
        """Whether some of the buffers were allocated here, and the others fit."""
        others = [aligned(buffer.nbytes) for buffer in buffers if self._start_of(buffer) is None]
        return len(others) < len(buffers) and sum(others) <= self.capacity - self.used

    def _start_of(self, buffer: memoryview) -> int | None:
        place = _address_of(buffer) - self._address
        return place if 0 <= place < self.used else None

    def _reserve(self, size: int) -> int:
        start, self.used = self.used, self.used + aligned(size)
        return start

    def send(self) -> tuple[int, int, int, bool]:
        """Mark the block as sent: the arguments of `receive`."""
        self._map[0] = _SENT
        return os.getpid(), self.descriptor, _HEADER + self.capacity, bool(self._arrays)

    @property
    def free(self) -> bool:
        """Whether neither side uses it."""
        return self._map[0] == _FREE and not self._arrays

    @property
    def received(self) -> bool:
        """Whether the other side has it, or had it."""
        return self._map[0] != _SENT


class Blocks:
    """The blocks of a worker: a few to use again, and those that wait for the other side.

    >>> blocks = Blocks(keep=2)
    >>> first = blocks.take(100)
    >>> blocks.take(100) is first  # it was not sent
    True
    >>> block = receive(*first.send())
    >>> blocks.take(100) is first
    False
    >>> del block
    >>> blocks.take(100) is first
    True
    """

    def __init__(self, keep: int) -> None:
        self.keep = keep
        self._blocks: list[Block] = []
        self._maker = _this_thread()  # the thread whose batches are allocated here
        self._last = 0  # the size of the batch before: the next one will be like it
        self._open: Block | None = None  # the block in which the next batch is made

    def allocate(self, size: int) -> Array | None:
        """Bytes to be filled that need not be copied when they are sent; None if there are none."""
        if size < _SMALLEST or size > self._last or _this_thread() != self._maker:
            return None
        if self._open is None or (self._open.free and self._open.capacity < self._last):
            self._open = self.take(self._last)
        return self._open.allocate(size) if self._open is not None else None

    def block_for(self, buffers: list[memoryview], size: int) -> Block | None:
        """The block in which these were allocated, or else one that is large enough for their total size, if any."""
        block = self._open
        if block is not None and block.can_hold(buffers):
            if block.capacity <= _most_for(size):
                return block
            self._open = None  # made for a much larger batch: a consumer that keeps this one would keep all of it
        return self.take(size)

    def send(self, block: Block, size: int) -> tuple[int, int, int, bool]:
        """Send a block that holds a batch of this size; the next batch is made in another one."""
        self._last = size
        if block is self._open:
            self._open = None
        return block.send()

    def take(self, size: int) -> Block | None:
        """A free block of at least this size; None where this process may not have more descriptors."""
        for block in self._blocks:
            if block.free and size <= block.capacity <= _most_for(size):
                block.used = 0
                return block
        self._forget()
        if len(self._blocks) >= _most_open():
            return None
        try:
            block = Block(size)
        except OSError as error:
            if error.errno in _TOO_MANY:
                return None
            raise StageError(
                f"not enough memory for a batch of {size:,} bytes ({error.strerror})",
                hint="fewer workers, a smaller prefetch_factor or smaller batches need less",
            ) from error
        self._blocks.append(block)
        return block

    def _forget(self) -> None:
        """Close surplus blocks: a consumer that keeps many batches must not make the worker keep them too."""
        spare = len(self._blocks) + 1 - min(self.keep, _most_open())
        for block in [block for block in self._blocks if block.received and block is not self._open][: max(0, spare)]:
            self._blocks.remove(block)
            block.close()


def _this_thread() -> tuple[int, int]:
    """This thread of this process: a process that a worker forks inherits its blocks, but does not own them."""
    return os.getpid(), threading.get_ident()


def _most_for(size: int) -> int:
    """How large a block may be that holds so many bytes: a consumer who keeps them keeps the block."""
    return 2 * size + mmap.PAGESIZE


def receive(pid: int, descriptor: int, length: int, watched: bool) -> Array:
    """The bytes of a block that another process has sent; it is freed when the last view of them is gone.

    Args:
        pid: the process.
        descriptor: the block, there.
        length: its size.
        watched: the worker still uses it, and must not see what is written here.
    """
    try:
        opened = os.open(f"/proc/{pid}/fd/{descriptor}", os.O_RDWR)
        try:
            if watched:
                state = mmap.mmap(opened, _HEADER)
                mapped = mmap.mmap(opened, length - _HEADER, flags=mmap.MAP_PRIVATE, offset=_HEADER)
            else:
                state = mapped = mmap.mmap(opened, length, flags=mmap.MAP_SHARED | mmap.MAP_POPULATE)
        finally:
            os.close(opened)
    except OSError as error:
        if _has_ended(pid):
            raise StageError(f"worker process {pid} was killed while its batch was being sent", hint=KILLED) from error
        raise StageError(
            f"a batch of worker process {pid} cannot be opened ({error.strerror})",
            hint="raise the limit of open files (ulimit -n)"
            if error.errno in _TOO_MANY
            else "this system forbids it: WebLoader(…, shared_memory=False) uses pipes",
        ) from error
    # NumPy lets a view of a view refer to the array at the root, so it is the root whose end is the end of all views.
    block = np.frombuffer(mapped, np.uint8, offset=0 if watched else _HEADER)
    if _open.count >= _most_open():
        return _copied(state, block)
    state[0] = _RECEIVED
    _open.count += 1
    weakref.finalize(block, _free, state, _open.forks).atexit = False
    return block


def _has_ended(pid: int) -> bool:
    """Whether a process is gone, or dead and not yet waited for: only root is told "no such file" of the latter."""
    try:
        status = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return True
    return status.rpartition(b")")[2].split()[0] in (b"Z", b"X")


class _Open:
    """How many blocks this process has mapped, and how often it was forked."""

    count = 0
    forks = 0

    def fork(self) -> None:
        self.forks += 1


_open = _Open()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_open.fork)


def _free(state: mmap.mmap, forks: int) -> None:
    _open.count -= 1
    if forks == _open.forks:  # else a forked process may use the block as well; the worker forgets it
        state[0] = _FREE


def _most_open() -> int:
    allowed, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return _MOST_OPEN if allowed < 0 else min(_MOST_OPEN, allowed // 4)


def _copied(state: mmap.mmap, block: Array) -> Array:
    """A copy, for a consumer that keeps hundreds of batches."""
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
