"""Locks between processes: a file that one of them has locked. The lock ends with its process, even after kill -9."""

from __future__ import annotations

import os
from contextlib import suppress
from typing import Any


def lock_file(path: str, *, wait: bool = False) -> Any:
    """Lock a file; returns the lock (`.release()`), or None if another owner has it. After an error no file is left.

    >>> import tempfile
    >>> path = tempfile.mkdtemp() + "/lock"
    >>> lock = lock_file(path)
    >>> lock_file(path) is None
    True
    >>> lock.release()

    Args:
        path: the file, which is made if it does not exist, and stays: another process may be about to lock it.
        wait: wait until the lock is free.

    Raises:
        OSError: the file system has no locks, or the file cannot be opened.
    """
    import filelock  # 30 ms, which only a process that locks has to spend

    made = _create_file(path)
    # Without flock (ENOSYS) filelock would treat the existing file as a lock, and it was made by `_create_file`.
    lock = filelock.FileLock(path, thread_local=False, fallback_to_soft=False)
    try:
        lock.acquire(blocking=wait)
    except filelock.Timeout:
        return None
    except OSError:
        if made:  # another file may be locked by another process: without the file its lock would have no effect
            with suppress(OSError):
                os.unlink(path)
        raise
    return lock


def remove_lock(lock: Any) -> None:
    """Remove the file of a lock, then release the lock: after the release, the file may be another process's lock.

    >>> import tempfile
    >>> path = tempfile.mkdtemp() + "/lock"
    >>> remove_lock(lock_file(path))
    >>> os.path.exists(path)
    False

    Args:
        lock: what `lock_file` returned.
    """
    with suppress(OSError):
        os.unlink(lock.lock_file)
    lock.release()


def _create_file(path: str) -> bool:
    """Make an empty file; False if there is one. 0o666: the user's umask decides who else may lock it."""
    try:
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666))
    except FileExistsError:
        return False
    return True
