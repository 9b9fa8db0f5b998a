"""One writer at a time for a local archive: a lock file next to it, while it is written."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Any

from webdataset.errors import StoreError, Where
from webdataset.stores import hidden_name, is_local, lock_file, remove_lock


class WriterLock:
    """Held from the first byte of an archive until it is published. A second writer of the same name is refused.

    >>> import tempfile
    >>> path = tempfile.mkdtemp() + "/a.tar"
    >>> lock = WriterLock(path)
    >>> WriterLock(path)
    Traceback (most recent call last):
    webdataset.errors.StoreError: another writer is writing this archive – ...
    >>> lock.release()

    Other stores have no locks: there the archive of the writer that ends last remains, complete.
    """

    def __init__(self, url: str) -> None:
        self._lock: Any = None
        path = _file_to_lock(url)
        if path is None:
            return
        try:
            self._lock = lock_file(path)
        except OSError:
            return  # no locks, or no permission: opening the archive says so
        if self._lock is None:
            raise StoreError(
                "another writer is writing this archive",
                Where(shard=url),
                hint="give each writer a pattern of its own, such as f'train-{rank}-%06d.tar'",
            )

    def release(self) -> None:
        """Remove the lock file and release the lock; more calls do nothing."""
        lock, self._lock = self._lock, None
        if lock is not None:
            remove_lock(lock)


def _file_to_lock(url: str) -> str | None:
    """The lock file of a local archive; None for other stores, and for what is not a regular file."""
    path = is_local(url)
    if path is None or url == "-":
        return None
    with suppress(OSError):  # opening the archive says so
        target = Path(path).resolve()
        if (os.path.isfile(target) or not os.path.exists(target)) and os.path.isdir(target.parent):
            return str(target.with_name(f"{hidden_name(target.name)}.lock"))
    return None
