"""Deletes the oldest files of any directory until it fits a size: the public library's cleaner."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

from webdataset import config

_log = logging.getLogger(__name__)


def last_used(path: str) -> float:
    """When a file was last read or written, as far as its file system records it.

    >>> last_used(os.devnull) > 0
    True
    """
    found = os.stat(path)
    return max(found.st_atime, found.st_mtime)


class LRUCleanup:
    """Deletes files of a directory, least recently used first, until the rest fits.

    >>> import tempfile
    >>> folder = tempfile.mkdtemp()
    >>> for name in "ab":
    ...     with open(os.path.join(folder, name), "wb") as file:
    ...         _ = file.write(bytes(1000))
    >>> LRUCleanup(folder, cache_size=1500, interval=None).cleanup()
    >>> len(os.listdir(folder))
    1

    `ShardCache` has a limit of its own and does not need this. This class deletes every file that it finds.

    Args:
        cache_dir: The directory; `WDS_CACHE` if none is given.
        cache_size: Limit in bytes.
        keyfn: The time of a file; the smallest goes first.
        verbose: Log deleted files.
        interval: Seconds between two cleanups; None cleans at every call.
    """

    def __init__(
        self,
        cache_dir: str | os.PathLike[str] | None = None,
        cache_size: float = int(1e12),
        keyfn: Callable[[str], Any] = last_used,
        verbose: bool = False,
        interval: float | None = 30,
    ) -> None:
        self.cache_dir = cache_dir if cache_dir is not None else config.read("WDS_CACHE")
        self.cache_size, self.keyfn, self.verbose, self.interval = cache_size, keyfn, verbose, interval
        self.last_run = float("-inf")

    def set_cache_dir(self, cache_dir: str | os.PathLike[str]) -> None:
        """Clean this directory from now on."""
        self.cache_dir = cache_dir

    def cleanup(self) -> None:
        """Delete until the rest fits; a file that cannot be deleted does not stop the others."""
        if self.cache_dir is None or not os.path.isdir(self.cache_dir):
            return
        now = time.monotonic()
        if self.interval is not None and now - self.last_run < self.interval:
            return
        self.last_run = now
        files = sorted(self._files())
        total = sum(size for _, size, _ in files)
        for _, size, path in files:
            if total <= self.cache_size:
                break
            with suppress(OSError):
                os.unlink(path)
                total -= size
                if self.verbose:
                    _log.info("removed %s", path)

    def _files(self) -> Iterator[tuple[Any, int, str]]:
        assert self.cache_dir is not None
        for folder, folders, names in os.walk(self.cache_dir):
            folders[:] = [name for name in folders if name != ".webdataset"]
            for name in names:
                path = os.path.join(folder, name)
                with suppress(OSError):
                    yield self.keyfn(path), os.stat(path).st_size, path
