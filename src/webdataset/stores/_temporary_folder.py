"""A folder for temporary files that does not stay, even if its process is killed."""

from __future__ import annotations

import os
import tempfile
from contextlib import suppress
from functools import cache

from ._local_files import lock_folder, sweep_folder, temporary_prefix
from ._system_errors import system_errors

_NAME = "wds"


class TemporaryFolder:
    """A folder that is removed by `close`, or by the next process that makes one, if this process is killed.

    >>> folder = TemporaryFolder()
    >>> os.path.isdir(folder.name), folder.close(), os.path.isdir(folder.name)
    (True, None, False)

    Args:
        place: The directory that it is made in; by default that of all temporary files.
    """

    def __init__(self, place: str | None = None) -> None:
        place = place or tempfile.gettempdir()
        _sweep(place)
        with system_errors(place):
            self._folder = tempfile.TemporaryDirectory(
                ".part", temporary_prefix(_NAME), place, ignore_cleanup_errors=True
            )
            try:
                self._lock = lock_folder(self._folder.name)
            except BaseException:
                self._folder.cleanup()
                raise
        self.name = self._folder.name

    def close(self) -> None:
        """Remove it with all that is in it; more calls do nothing."""
        descriptor, self._lock = self._lock, -1
        if descriptor >= 0:
            os.close(descriptor)
            with suppress(OSError):  # of a disk that is gone: the error to report is the one before
                self._folder.cleanup()


@cache
def _sweep(place: str) -> None:
    """Remove what killed processes left there, once in each process."""
    sweep_folder(place, {_NAME})
