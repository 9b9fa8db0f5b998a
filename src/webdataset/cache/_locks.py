"""Locks between the processes that share a cache directory: one file per name, locked by the `filelock` package.

A lock ends with its process, even after kill -9, and is not inherited by a forked child. On a file system without locks
the existence of the file is the lock (`soft`); such a lock counts as abandoned after a time.

Locks save work; they do not protect bytes. Every process writes to a file of its own, and continues one of another
process only if that process has ended.
"""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import quote

from webdataset import config
from webdataset.errors import StoreError, Where
from webdataset.mutex import Mutex
from webdataset.stores import lock_file, pause

_NO_LOCKS = {errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.EINVAL}
# Seconds after which a soft lock counts as abandoned: its process may have died on another machine. If that process is
# alive, two processes fetch the same shard, each into a file of its own.
_ABANDONED = 3600.0
# Seconds to wait for a lock that is held for milliseconds.
_LONGEST_WAIT = 300.0
# Seconds between two checks of what another process does: short at first, then twenty times a second.
_SHORTEST, _LONGEST = 0.001, 0.05


class Wait:
    """Waiting for another process, longer each time, and for a limited time without progress.

    >>> Wait(limit=0).once()
    False
    """

    def __init__(self, limit: float | None = None) -> None:
        self._pause = _SHORTEST
        self._until = time.monotonic() + (max(120.0, 3 * config.read("WDS_TIMEOUT")) if limit is None else limit)

    def once(self) -> bool:
        """Wait once; return False if the time is over."""
        if time.monotonic() > self._until:
            return False
        pause(self._pause)
        self._pause = min(self._pause * 2, _LONGEST)
        return True


class Locks:
    """The locks of one directory, as this process holds them.

    >>> import tempfile
    >>> locks = Locks(tempfile.mkdtemp())
    >>> locks.try_acquire("a"), locks.try_acquire("a")
    (True, False)
    >>> locks.release("a")
    """

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._mutex = Mutex()
        self._held: dict[str, Any] = {}
        self.soft = False

    def try_acquire(self, name: str) -> bool:
        """Take a lock if it is free. Threads of this process exclude each other, too."""
        with self._mutex:
            if name in self._held:
                return False
            lock = self._acquired(self._path(name))
            if lock is not None:
                self._held[name] = lock
            return lock is not None

    def release(self, name: str) -> None:
        """Release a lock; its file stays, because another process may be about to lock it."""
        with self._mutex:
            self._held.pop(name).release()

    def discard(self, name: str) -> None:
        """Remove the file of a lock that no process holds.

        It is removed while this process holds the lock: another process that has opened the file finds that out, and
        makes a new one. Removed at any other moment, it would let two processes hold the same lock.
        """
        if self.try_acquire(name):
            try:
                Path(self._path(name)).unlink(missing_ok=True)
            finally:
                self.release(name)

    def _path(self, name: str) -> str:
        return os.path.join(self._folder, f"{quote(name, safe='')}.lock")

    @contextmanager
    def holding(self, name: str) -> Iterator[None]:
        """Wait for a lock and hold it for a block."""
        wait = Wait(_LONGEST_WAIT)
        while not self.try_acquire(name):
            if not wait.once():
                raise StoreError(
                    f"another process holds the lock {name!r} of the shard cache and does not release it",
                    Where(shard=self._folder),
                    hint="look for a hanging process that uses this cache directory",
                )
        try:
            yield
        finally:
            self.release(name)

    def _acquired(self, path: str) -> Any:
        if not self.soft:
            try:
                return lock_file(path)
            except OSError as error:
                if error.errno not in _NO_LOCKS:
                    raise
                self.soft = True
        import filelock

        path = f"{path}.soft"  # a file system may have had locks before: such files stay
        _remove_abandoned(path)
        with suppress(filelock.Timeout):
            lock = filelock.SoftFileLock(path, thread_local=False)
            lock.acquire(blocking=False)
            return lock
        return None


def _remove_abandoned(path: str) -> None:
    with suppress(FileNotFoundError):
        if time.time() - os.stat(path).st_mtime > _ABANDONED:
            os.unlink(path)
