"""Shards kept in memory, once for all workers.

A shard that lies in a local file is read from it: the system keeps it in memory already, for everybody. Any other is
copied, by the first who wants it, into a file without a name (`memfd`) that the worker processes inherit; it is as
large as they like and empty except where something was written, so every shard has a place of its own whatever its
size. A small table says how long each shard is; it is written when the shard is complete.
"""

from __future__ import annotations

import fcntl
import io
import mmap
import os
import struct
import sys
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from typing import Any

from webdataset import stores
from webdataset.errors import SpecError, StoreError, Where
from webdataset.flow import digest

_ENTRY = struct.Struct("<QQ")  # which shard, and its length plus one once it is complete
_PLACES = 1 << 20  # shards
_ROOM = 1 << 40  # bytes for each; only what is written takes memory
_CHUNK = 1 << 20


class MemoryOpener:
    """Opens shards out of memory; `start` works as for stores.

    >>> with stores.open_write("memory://docs/m.tar") as stream:
    ...     _ = stream.write(b"hello")
    >>> opener = MemoryOpener()
    >>> opener("memory://docs/m.tar").read()
    b'hello'
    >>> with stores.open_write("memory://docs/m.tar") as stream:
    ...     _ = stream.write(b"something else")
    >>> opener("memory://docs/m.tar", start=1).read()
    b'ello'
    """

    def __init__(self, opener: Callable[..., Any] = stores.open_read) -> None:
        if not hasattr(os, "memfd_create"):
            raise SpecError("shards cannot be kept in memory on this system", hint="use cache_dir= instead")
        self._opener = opener
        self._own(os.memfd_create("webdataset-table"), os.memfd_create("webdataset-shards"))
        os.ftruncate(self._table, _PLACES * _ENTRY.size)
        os.ftruncate(self._data, _PLACES * _ROOM)

    def _own(self, table: int, data: int) -> None:
        self._table, self._data = table, data
        self._threads = threading.Lock()
        _openers.add(self)
        for descriptor in (table, data):
            weakref.finalize(self, os.close, descriptor)

    def __call__(self, url: str, *, start: int = 0) -> Any:
        """A stream of the shard from byte `start` on; the first one to ask waits until it has been read."""
        if stores.is_local(url) is not None:
            return self._opener(url, start=start) if start else self._opener(url)
        place = self._place(digest(str(url)) or 1)
        length = self._length(place)
        if length is None:
            with self._alone(place):
                length = self._length(place)
                if length is None:
                    length = self._fill(url, place)
        return _Shard(self._data, place * _ROOM, length, start)

    def _place(self, name: int) -> int:
        """Where this shard is, or will be: the first place after `name` that is its own or nobody's."""
        with self._alone(_PLACES):
            for number in range(name, name + _PLACES):
                place = number % _PLACES
                owner, _ = self._entry(place)
                if owner == name:
                    return place
                if owner == 0:
                    os.pwrite(self._table, _ENTRY.pack(name, 0), place * _ENTRY.size)
                    return place
        raise StoreError(f"no more than {_PLACES:,} shards can be kept in memory")

    def _fill(self, url: str, place: int) -> int:
        length = 0
        try:
            with closing(self._opener(url)) as stream:
                rest = memoryview(b"")
                while rest := rest or memoryview(stream.read(_CHUNK)):
                    written = os.pwrite(self._data, rest, place * _ROOM + length)
                    rest, length = rest[written:], length + written  # the system may take less than it is given
        except OSError as error:
            if isinstance(error, StoreError):
                raise
            raise StoreError(
                f"no memory for this shard after {length:,} bytes ({error.strerror})",
                Where(shard=str(url)),
                hint="leave out in_memory=True, or keep the shards on disk with cache_dir=",
            ) from error
        os.pwrite(self._table, _ENTRY.pack(self._entry(place)[0], length + 1), place * _ENTRY.size)
        return length

    def _entry(self, place: int) -> tuple[int, int]:
        owner, length = _ENTRY.unpack(os.pread(self._table, _ENTRY.size, place * _ENTRY.size))
        return owner, length

    def _length(self, place: int) -> int | None:
        length = self._entry(place)[1]
        return length - 1 if length else None

    @contextmanager
    def _alone(self, place: int) -> Iterator[None]:
        """Be the only one, of all processes and threads, at this place; whoever is killed lets go of it."""
        with self._threads:
            fcntl.lockf(self._table, fcntl.LOCK_EX, 1, place)
            try:
                yield
            finally:
                fcntl.lockf(self._table, fcntl.LOCK_UN, 1, place)

    def __repr__(self) -> str:
        return "MemoryOpener()"

    def __getstate__(self) -> dict[str, Any]:
        """Shared with a process that is being spawned; a copy for any other purpose starts empty."""
        state: dict[str, Any] = {"opener": self._opener, "shared": None}
        context = sys.modules.get("multiprocessing.context")
        if context is not None and context.get_spawning_popen() is not None:
            from multiprocessing.reduction import DupFd

            state["shared"] = DupFd(self._table), DupFd(self._data)
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        if state["shared"] is None:
            self.__init__(state["opener"])  # type: ignore[misc]  # our own constructor
            return
        self._opener = state["opener"]
        self._own(*(shared.detach() for shared in state["shared"]))

    def after_fork(self) -> None:
        """A lock that no thread holds: the one that held it, reading ahead, is not in this process."""
        self._threads = threading.Lock()


_openers: weakref.WeakSet[MemoryOpener] = weakref.WeakSet()


def _after_fork() -> None:
    for opener in list(_openers):
        opener.after_fork()


os.register_at_fork(after_in_child=_after_fork)


class _Shard(io.RawIOBase):
    """One shard in the common memory, read from a mapping of its own."""

    def __init__(self, descriptor: int, offset: int, length: int, start: int) -> None:
        super().__init__()
        self._map = mmap.mmap(descriptor, length, access=mmap.ACCESS_READ, offset=offset) if length else None
        self._at, self._length = min(start, length), length

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        count = min(len(buffer), self._length - self._at)
        if count and self._map is not None:
            buffer[:count] = memoryview(self._map)[self._at : self._at + count]
        self._at += count
        return count

    def read(self, size: int | None = -1) -> bytes:
        end = self._length if size is None or size < 0 else min(self._length, self._at + size)
        data = self._map[self._at : end] if self._map is not None else b""
        self._at += len(data)
        return data

    def close(self) -> None:
        if self._map is not None:
            self._map.close()
            self._map = None
        self._at = self._length
        super().close()
