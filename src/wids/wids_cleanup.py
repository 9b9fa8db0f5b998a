"""Delete the oldest files of a cache."""

from __future__ import annotations

import glob
import multiprocessing
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from webdataset.child_processes import Parent, end_with
from webdataset.stores import lock_file, remove_lock, system_errors


def keep_most_recent_files(pattern: str, maxsize: float = 10**12, maxfiles: int = 1000, debug: bool = False) -> None:
    """Delete the oldest files that match a glob, until the others are within both limits.

    >>> keep_most_recent_files("/nowhere/*.tar")

    Args:
        pattern: a glob.
        maxsize: bytes in all.
        maxfiles: how many files.
        debug: accepted.
    """
    found = []
    for name in glob.glob(pattern):  # noqa: PTH207 - an absolute pattern
        with suppress(FileNotFoundError):
            state = Path(name).stat()
            found.append((max(state.st_mtime, state.st_atime), state.st_size, name))
    kept = size = 0
    for _, each, name in sorted(found, reverse=True):
        if kept < maxfiles and size + each <= maxsize:
            kept, size = kept + 1, size + each
            continue
        maxfiles = kept  # older files are deleted too
        Path(name).unlink(missing_ok=True)


class ExclusiveLock:
    """A lock file that one process holds at a time.

    >>> import tempfile
    >>> lock = ExclusiveLock(tempfile.mkdtemp() + "/lock")
    >>> lock.try_lock(), lock.release_lock()
    (True, None)
    """

    def __init__(self, lockfile: str) -> None:
        self.lockfile = lockfile
        self._lock: Any = None

    def try_lock(self) -> bool:
        """Acquire the lock; False if another process has it."""
        with system_errors(self.lockfile):
            lock = lock_file(self.lockfile)
        self._lock = lock or self._lock
        return lock is not None

    def release_lock(self) -> None:
        """Release the lock."""
        lock, self._lock = self._lock, None
        if lock is not None:
            remove_lock(lock)


def create_cleanup_background_process(
    pattern: str, maxsize: float = 10**12, maxfiles: int = 1000, every: float = 60
) -> multiprocessing.Process:
    """Start a process that deletes the oldest files repeatedly; it ends with this process."""
    process = multiprocessing.Process(
        target=_clean_up, args=(Parent.here(), pattern, maxsize, maxfiles, every), daemon=True
    )
    process.start()
    return process


def _clean_up(parent: Parent, pattern: str, maxsize: float, maxfiles: int, every: float) -> None:
    end_with(parent)
    while True:
        keep_most_recent_files(pattern, maxsize, maxfiles)
        time.sleep(every)
