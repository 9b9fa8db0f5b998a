"""`TarFileReader`: the members of a local tar file by number."""

from __future__ import annotations

from typing import Any

from ._tar_members import TarMembers


def find_index_file(file: str) -> str:
    """Where wids stored its index of a tar file: a pickle, which is neither read nor written here.

    >>> find_index_file("a.tar")
    'a.index'
    """
    return file.removesuffix(".tar") + ".index"


class TarFileReader(TarMembers):
    """The members of a tar file.

    Args:
        file: its path, or an open file.
        index_file: accepted; the index is made of the file itself.
        verbose: accepted.
    """

    def __init__(self, file: Any, index_file: Any = find_index_file, verbose: bool = True) -> None:
        super().__init__(file)
