"""Header blocks of plain members, many at once: are they all in order, and what do they say?

Plain is what the tar room's columns call so, and a regular file or a directory. One block that is anything else makes
the whole archive one for the tar room's reader, which knows every dialect.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from webdataset import tar
from webdataset.tar import BLOCK

from ._shard_index import Ints

Bytes = NDArray[np.uint8]

# What is kept of a block after its sum is known: name, numbers and type.
_KEPT = 160
_REGULAR, _DIRECTORY = ord("0"), ord("5")


class GiveUpError(Exception):
    """This archive is not a plain one."""


class Members(NamedTuple):
    """Regular files as columns: names as rows of 100 bytes, filled up with NULs."""

    names: Bytes
    offsets: Ints
    sizes: Ints


class Headers:
    """The header blocks of an archive, in order, that have not been looked at yet.

    >>> import tarfile
    >>> info = tarfile.TarInfo("a.txt")
    >>> headers = Headers()
    >>> headers.add(np.frombuffer(info.tobuf()[:512], np.uint8).reshape(1, 512), np.array([0]))
    >>> headers.take().offsets, headers.next
    (array([512]), 512)
    """

    def __init__(self) -> None:
        self.next = 0  # where the next header has to stand
        self.count = 0
        self._heads: list[Bytes] = []
        self._sums: list[NDArray[np.uint32]] = []
        self._at: list[Ints] = []

    def add(self, blocks: Bytes, at: Ints) -> None:
        """More blocks, rows of 512 bytes, and where each stands in the archive."""
        if blocks[:, tar.PREFIX].any():
            raise GiveUpError  # a long name in two parts, or times of GNU's own
        self._heads.append(blocks[:, :_KEPT].copy())
        self._sums.append(tar.block_sums(blocks))
        self._at.append(at)
        self.count += len(at)

    def take(self) -> Members:
        """The files among them, checked; there has to be at least one block."""
        heads, sums, at = np.concatenate(self._heads), np.concatenate(self._sums), np.concatenate(self._at)
        sizes, plain = tar.plain_sizes(heads, sums)
        kinds = heads[:, tar.TYPE]
        ends = at + BLOCK + (sizes + BLOCK - 1 & -BLOCK)
        if not (
            plain.all()
            and ((kinds == _REGULAR) | (kinds == 0) | (kinds == _DIRECTORY)).all()
            and at[0] == self.next
            and (ends[:-1] == at[1:]).all()
        ):
            raise GiveUpError
        self.next, self.count = int(ends[-1]), 0
        self._heads, self._sums, self._at = [], [], []
        files = kinds != _DIRECTORY
        if files.all():
            return Members(heads[:, tar.NAME], at + BLOCK, sizes)
        if sizes[~files].any():
            raise GiveUpError
        return Members(heads[files, tar.NAME], at[files] + BLOCK, sizes[files])
