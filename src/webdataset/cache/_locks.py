"""Who may do what, across the processes that share a cache directory.

A lock is one byte of one file, by `fcntl.lockf`: it goes with its process, even after kill -9, is not inherited by a
forked child, and works over NFS. Where the file system has no locks, lease files take over (`_leases`).

Nothing becomes wrong without locks: they save work, they do not guard bytes. Every writer has a file of its own.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

from webdataset.stores import pause

from ._leases import Leases

if TYPE_CHECKING:
    from collections.abc import Iterator

_NO_LOCKS = {errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.EINVAL}
_registry: dict[str, Locks] = {}
_registering = threading.Lock()


class Locks:
    """The locks of one directory, as this process holds them; get it with `locks_of`.

    A process forgets a lock when it closes *any* descriptor of the file, so there is one descriptor, opened with the
    first lock and closed with the last.
    """

    def __init__(self, folder: str) -> None:
        self._path = os.path.join(folder, "locks")
        self._leases = Leases(folder)
        self._mutex = threading.Lock()
        self._held: dict[str, bool] = {}  # name → whether it is a lease
        self._descriptor: int | None = None

    @property
    def leased(self) -> bool:
        """Whether leases are used, because there are no locks: then nobody knows for sure that an owner is gone."""
        with self._mutex:
            return any(self._held.values())

    def try_acquire(self, name: str) -> bool:
        """Take a lock if it is free; a thread of this process that holds it counts like anybody else."""
        with self._mutex:
            if name in self._held:
                return False
            try:
                got, lease = self._lock(name), False
            except OSError as error:
                if error.errno not in _NO_LOCKS:
                    raise
                got, lease = self._leases.try_acquire(name), True
            if got:
                self._held[name] = lease
            self._close_if_idle()
            return got

    def release(self, name: str) -> None:
        """Give a lock back."""
        with self._mutex:
            if self._held.pop(name):
                self._leases.release(name)
            elif self._descriptor is not None:
                fcntl.lockf(self._descriptor, fcntl.LOCK_UN, 1, _byte(name))
            self._close_if_idle()

    def refresh(self, name: str) -> None:
        """Show that the owner lives; only leases need it."""
        if self._held.get(name):
            self._leases.refresh(name)

    @contextmanager
    def holding(self, name: str) -> Iterator[None]:
        """Wait for a lock and hold it for a block."""
        wait = 0.0005
        while not self.try_acquire(name):
            pause(wait)
            wait = min(wait * 2, 0.05)
        try:
            yield
        finally:
            self.release(name)

    def _lock(self, name: str) -> bool:
        if self._descriptor is None:
            self._descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        try:
            fcntl.lockf(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, _byte(name))
        except OSError as error:
            if error.errno in {errno.EACCES, errno.EAGAIN}:
                return False
            raise
        return True

    def _close_if_idle(self) -> None:
        if self._descriptor is not None and not any(not lease for lease in self._held.values()):
            os.close(self._descriptor)
            self._descriptor = None


def locks_of(folder: str) -> Locks:
    """The locks of a directory; one object per process.

    >>> import tempfile
    >>> locks = locks_of(tempfile.mkdtemp())
    >>> locks.try_acquire("a"), locks.try_acquire("a")
    (True, False)
    >>> locks.release("a")
    """
    path = os.path.realpath(folder)
    with _registering:
        if path not in _registry:
            _registry[path] = Locks(path)
        return _registry[path]


def _byte(name: str) -> int:
    # 62 bits: signed offsets everywhere, and no two names of one cache meet by chance.
    return int.from_bytes(hashlib.blake2b(name.encode(), digest_size=8).digest(), "little") >> 2


def _after_fork() -> None:
    global _registering  # noqa: PLW0603 - the parent's lock may have been held by a thread that does not exist here
    _registering = threading.Lock()
    for locks in _registry.values():
        if locks._descriptor is not None:
            os.close(locks._descriptor)
    _registry.clear()


os.register_at_fork(after_in_child=_after_fork)
