"""Temporary files and folders. Errors of the operating system become typed errors that name the path."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path

from webdataset import stores

_NAME = "wds"


@contextmanager
def scratch_folder(folder: str | None = None) -> Iterator[Path]:
    """A temporary folder in `folder`, or where the system has them; it is removed at the end of the block.

    >>> with scratch_folder() as place:
    ...     place.is_dir()
    True
    """
    place, prefix = folder or tempfile.gettempdir(), stores.temporary_prefix(_NAME)
    _sweep(place)
    with stores.system_errors(place):
        temporary = tempfile.TemporaryDirectory(".part", prefix, place, ignore_cleanup_errors=True)
        lock = stores.lock_folder(temporary.name)
    try:
        yield Path(temporary.name)
    finally:
        os.close(lock)
        with suppress(OSError):  # of a disk that is gone: the error to report is the one before
            temporary.cleanup()


@cache
def _sweep(place: str) -> None:
    """Remove what killed processes left there, once in each process."""
    stores.sweep_folder(place, {_NAME})


def write_scratch(path: Path, data: bytes) -> None:
    """Write a temporary file."""
    with stores.system_errors(str(path)):
        path.write_bytes(data)


def fetch(url: str, path: Path) -> str:
    """Copy what is stored at an address to a temporary file; its path."""
    with stores.open_read(url) as stream, stores.system_errors(str(path)), path.open("wb") as file:
        shutil.copyfileobj(stream, file, 1 << 20)
    return str(path)
