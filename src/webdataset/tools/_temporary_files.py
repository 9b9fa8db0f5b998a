"""Temporary files and folders. Errors of the operating system become typed errors that name the path."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from webdataset import stores


@contextmanager
def scratch_folder(folder: str | None = None) -> Iterator[Path]:
    """A temporary folder in `folder`, or where the system has them; it is removed at the end of the block.

    >>> with scratch_folder() as place:
    ...     place.is_dir()
    True
    """
    with stores.system_errors(folder or tempfile.gettempdir()):
        temporary = tempfile.TemporaryDirectory(prefix="wds-", dir=folder, ignore_cleanup_errors=True)
    try:
        yield Path(temporary.name)
    finally:
        with suppress(OSError):  # of a disk that is gone: the error to report is the one before
            temporary.cleanup()


def write_scratch(path: Path, data: bytes) -> None:
    """Write a temporary file."""
    with stores.system_errors(str(path)):
        path.write_bytes(data)


def fetch(url: str, path: Path) -> str:
    """Copy what is stored at an address to a temporary file; its path."""
    with stores.open_read(url) as stream, stores.system_errors(str(path)), path.open("wb") as file:
        shutil.copyfileobj(stream, file, 1 << 20)
    return str(path)
