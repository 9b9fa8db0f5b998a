"""`MMIndexedTar`: the members of a local tar file by number and by name."""

from __future__ import annotations

import fcntl
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from webdataset.arguments import require_choice
from webdataset.errors import SpecError

from ._tar_members import TarMembers

Callback = Callable[[Any, int, str], object]


class MMIndexedTar(TarMembers):
    """The members of a tar file.

    Args:
        fname: its path, or an open file.
        index_file: accepted; the index is made of the file itself.
        verbose: accepted.
        cleanup_callback: called as (fname, descriptor, "start") after opening, and with "end" before closing.
    """

    def __init__(
        self, fname: Any, index_file: Any = None, verbose: bool = True, cleanup_callback: Callback | None = None
    ) -> None:
        super().__init__(fname)
        self.cleanup_callback = cleanup_callback
        self.by_index = [tuple(row) for row in self.rows]
        self.by_name = {row.name: row.offset for row in self.rows}
        self._at_offset = {row.offset: number for number, row in enumerate(self.rows)}
        self._call_back("start")

    def __iter__(self) -> Iterator[tuple[str, bytes]]:
        return (self.get_at_index(number) for number in range(len(self)))

    def __getitem__(self, key: int | str) -> tuple[str, bytes]:
        return self.get_by_name(key) if isinstance(key, str) else self.get_at_index(key)

    def get_at_index(self, index: int) -> tuple[str, bytes]:
        """Name and content of a member."""
        return self.rows[index].name, self.read(index)

    def get_at_offset(self, offset: int) -> tuple[str, bytes]:
        """The member whose header is at this byte."""
        return self.get_at_index(self._at_offset[offset])

    def get_by_name(self, name: str) -> tuple[str, bytes]:
        """The member of this name; the last one, if there are several."""
        return self.get_at_offset(self.by_name[name])

    def close(self, dispose: bool = False) -> None:
        """Close the file."""
        self._call_back("end")
        super().close()

    def _call_back(self, phase: str) -> None:
        if self.cleanup_callback is not None:
            self.cleanup_callback(self.path, self.fileno(), phase)


def keep_while_reading(fname: str | None, fd: int, phase: str, delay: float = 0.0) -> None:
    """A callback that deletes a file when its last reader closes it.

    Args:
        fname: the file.
        fd: its descriptor.
        phase: "start" takes a shared lock; "end" deletes the file if no other process has one.
        delay: 0.
    """
    if delay != 0.0:
        raise SpecError(f"delay={delay}: expected 0.0, nothing else is supported")
    require_choice("phase", phase, ("start", "end"))
    if fname is None or fd < 0:
        return
    if phase == "start":
        fcntl.flock(fd, fcntl.LOCK_SH)
        return
    with suppress(BlockingIOError, FileNotFoundError):
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        Path(fname).unlink()
