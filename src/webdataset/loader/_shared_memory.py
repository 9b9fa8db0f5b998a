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
_MOST_OPEN = 256  # blocks, and at most a quarter of the descriptors that this process may have: a block has one or two
_TOO_MANY = {errno.EMFILE, errno.ENFILE}
_HEADER = mmap.ALLOCATIONGRANULARITY  # bytes for the state of the block; what follows can be mapped by itself
_ALIGNED = 64  # a cache line; enough for every dtype and vector instruction
_SMALLEST = 1 << 16  # smaller arrays are copied: that is faster than tracking them

Array = np.ndarray[Any, Any]


def available() -> bool:
    """Whether blocks can be made and opened by another process here.

    >>> isinstance(available(), bool)
    True
    """
    return sys.platform == "linux" and os.path.exists("/proc/self/fd")


class Block:
    """A block in the worker that made it."""

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
        self._arrays: set[int] = set()  # where the arrays that were allocated here and still exist begin
        self._address = _address_of(self._map) + _HEADER

    def allocate(self, size: int) -> Array | None:
        """Return memory of this block; None if not enough is left."""
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
        """Return where a buffer is in this block; one that was not allocated here is copied into it, and must fit."""
        start = self._start_of(buffer)
        if start is None:
            start = self._reserve(buffer.nbytes)
            self._map[_HEADER + start : _HEADER + start + buffer.nbytes] = buffer
        return start

    def can_hold(self, buffers: list[memoryview]) -> bool:
        """Whether at least one of the buffers was allocated here, and the others fit."""
        others = [aligned(buffer.nbytes) for buffer in buffers if self._start_of(buffer) is None]
        return len(others) < len(buffers) and sum(others) <= self.capacity - self.used

    def _start_of(self, buffer: memoryview) -> int | None:
        start = _address_of(buffer) - self._address
        return start if 0 <= start < self.used else None

    def _reserve(self, size: int) -> int:
        start, self.used = self.used, self.used + aligned(size)
        return start

    def send(self) -> tuple[int, int, int, bool]:
        """Mark the block as sent; return the arguments of `receive`."""
        self._map[0] = _SENT
        return os.getpid(), self.descriptor, _HEADER + self.capacity, bool(self._arrays)

    @property
    def free(self) -> bool:
        """Whether neither process uses it."""
        return self._map[0] == _FREE and not self._arrays

    @property
    def received(self) -> bool:
        """Whether the other process has received it."""
        return self._map[0] != _SENT


class Blocks:
    """The blocks of a worker: a few to use again, and those that the other process has not freed.

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
        self._last = 0  # the size of the last batch: the next one is likely to have the same
        self._open: Block | None = None  # the block in which the next batch is allocated

    def allocate(self, size: int) -> Array | None:
        """Return memory that need not be copied when it is sent; None if there is none."""
        if size < _SMALLEST or size > self._last or _this_thread() != self._maker:
            return None
        if self._open is None or (self._open.free and self._open.capacity < self._last):
            self._open = self.take(self._last)
        return self._open.allocate(size) if self._open is not None else None

    def block_for(self, buffers: list[memoryview], size: int) -> Block | None:
        """Return the block in which these were allocated, or else one of their total size; None if there is none."""
        block = self._open
        if block is not None and block.can_hold(buffers):
            if block.capacity <= _largest_block_for(size):
                return block
            self._open = None  # it is much larger than this batch: a consumer that keeps the batch would keep all of it
        return self.take(size)

    def send(self, block: Block, size: int) -> tuple[int, int, int, bool]:
        """Send a block that holds a batch of this size; the next batch is allocated in another one."""
        self._last = size
        if block is self._open:
            self._open = None
        return block.send()

    def take(self, size: int) -> Block | None:
        """Return a free block of at least this size; None if this process may not have more descriptors."""
        for block in self._blocks:
            if block.free and size <= block.capacity <= _largest_block_for(size):
                block.used = 0
                return block
        self._close_surplus()
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

    def _close_surplus(self) -> None:
        """Close surplus blocks, so that a worker does not keep many batches open because the consumer does."""
        spare = len(self._blocks) + 1 - min(self.keep, _most_open())
        for block in [block for block in self._blocks if block.received and block is not self._open][: max(0, spare)]:
            self._blocks.remove(block)
            block.close()


def _this_thread() -> tuple[int, int]:
    """Return what identifies this thread: a process that a worker forks inherits its blocks, but must not use them."""
    return os.getpid(), threading.get_ident()


def _largest_block_for(size: int) -> int:
    """Return the largest block for a batch of this size: a consumer that keeps the batch keeps the whole block."""
    return 2 * size + mmap.PAGESIZE


def receive(pid: int, descriptor: int, length: int, is_used_by_sender: bool) -> Array:
    """Return the bytes of a block that another process has sent; it is freed when the last view of them is gone.

    Args:
        pid: the process that sent it.
        descriptor: of the block, in that process.
        length: the size of the block.
        is_used_by_sender: the worker still uses the block, and must not see what this process writes into it.
    """
    try:
        opened = os.open(f"/proc/{pid}/fd/{descriptor}", os.O_RDWR)
        try:
            if is_used_by_sender:
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
    # In NumPy a view of a view refers to the first array, so that array is deleted after all of its views.
    block = np.frombuffer(mapped, np.uint8, offset=0 if is_used_by_sender else _HEADER)
    if _open.count >= _most_open():
        return _copied(state, block)
    state[0] = _RECEIVED
    _open.count += 1
    weakref.finalize(block, _mark_free, state, _open.forks).atexit = False
    return block


def _has_ended(pid: int) -> bool:
    """Whether a process has ended, waited for or not; opening a file of a zombie is "not found" for root only."""
    try:
        status = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return True
    return status.rpartition(b")")[2].split()[0] in (b"Z", b"X")


class _Open:
    """How many received blocks this process has open, and how often it has forked."""

    count = 0
    forks = 0

    def fork(self) -> None:
        self.forks += 1


_open = _Open()
os.register_at_fork(before=_open.fork)


def _mark_free(state: mmap.mmap, forks: int) -> None:
    _open.count -= 1
    if forks == _open.forks:  # else a forked process may use the block as well: it stays in use
        state[0] = _FREE


def _most_open() -> int:
    allowed, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return _MOST_OPEN if allowed < 0 else min(_MOST_OPEN, allowed // 4)


def _copied(state: mmap.mmap, block: Array) -> Array:
    """Return a copy and free the block, for a consumer that keeps hundreds of batches."""
    copy = block.copy()
    state[0] = _FREE
    return copy


def aligned(size: int) -> int:
    """Return a size rounded up, so that what follows is aligned.

    >>> aligned(1), aligned(64)
    (64, 64)
    """
    return -(-size // _ALIGNED) * _ALIGNED


def _address_of(buffer: Any) -> int:
    """Return the address of a buffer."""
    return int(np.frombuffer(buffer, np.uint8).__array_interface__["data"][0])
