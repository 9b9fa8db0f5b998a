"""Temporary files and folders. Errors of the operating system become typed errors that name the path."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from webdataset import stores


@contextmanager
def scratch_folder(folder: str | None = None) -> Iterator[Path]:
    """A temporary folder in `folder`, or where the system has them; it is removed at the end of the block.

    >>> with scratch_folder() as place:
    ...     place.is_dir()
    True
    """
    temporary = stores.TemporaryFolder(folder)
    try:
        yield Path(temporary.name)
    finally:
        temporary.close()


def write_scratch(path: Path, data: bytes) -> None:
    """Write a temporary file."""
    with stores.system_errors(str(path)):
        path.write_bytes(data)


def fetch(url: str, path: Path) -> str:
    """Copy what is stored at an address to a temporary file; its path."""
    with stores.open_read(url) as stream, stores.system_errors(str(path)), path.open("wb") as file:
        shutil.copyfileobj(stream, file, 1 << 20)
    return str(path)
