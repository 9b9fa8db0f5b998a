"""`TarFileReader`: the members of a local tar file by number."""

from __future__ import annotations

import io
from typing import Any

from ._tar_members import TarMembers


def find_index_file(file: str) -> str:
    """Where wids stored its index of a tar file: a pickle, which is neither read nor written here.

    >>> find_index_file("a.tar")
    'a.index'
    """
    return file.removesuffix(".tar") + ".index"


class TarFileReader:
    """The members of a tar file.

    Args:
        file: its path, or an open file.
        index_file: accepted; the index is made of the file itself.
        verbose: accepted.
    """

    def __init__(self, file: Any, index_file: Any = find_index_file, verbose: bool = True) -> None:
        self._members = TarMembers(file)
        self.path = self._members.path

    def __len__(self) -> int:
        return len(self._members)

    def names(self) -> list[str]:
        """The names of all members, in their order."""
        return [row.name for row in self._members.rows]

    def get_file(self, i: int) -> tuple[str, io.BytesIO]:
        """Name and content of a member, as a stream."""
        return self._members.rows[i].name, io.BytesIO(self._members.read(i))

    def close(self) -> None:
        """Close the file."""
        self._members.close()
