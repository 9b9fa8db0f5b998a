"""The members of a plain local archive: of small ones all blocks are swept, large ones are walked past.

A walk goes from one header to the next without a look at what lies between; for members of 100 kB that is a hundredth
of the bytes. A sweep reads everything, in windows, and picks the headers out of it by their magic. Either way the
chain is checked afterwards: each header has to stand where the one before it ends. So a tar inside a tar, long names,
PAX records, sparse files or something behind the end are noticed, and the archive is left to the tar room.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import islice

import numpy as np

from webdataset import tar
from webdataset.tar import BLOCK

from ._header_columns import Bytes, GiveUpError, Headers, Members
from ._shard_index import Ints, padded

# Below this mean size reading everything is cheaper: a header costs 1.5 µs in a walk, 0.3 µs in a sweep.
_SMALL = 1 << 14
# So many members are enough to know the mean.
_JUDGED = 64
# Measured per member of 1 kB samples: 256 kB 0.33 µs, 512 kB 0.29, 1 MB 0.28, 2 MB 0.27, 4 MB 0.38 (out of the cache).
_WINDOW = 1 << 20
# So many headers are checked and cut at a time: the fixed costs of NumPy are spread, and the headers stay in the cache.
_AT_A_TIME = 1 << 13
# Zeros that may follow the end: records of tapes have up to 1 MiB.
_LONGEST_END = 1 << 20

_ZEROS = bytes(BLOCK)


class Opened:
    """A local file, read at any place: for single blocks half the price of a mapping, whose every page is a fault."""

    def __init__(self, path: str) -> None:
        self._file = open(path, "rb", buffering=0)  # noqa: PTH123, SIM115 - any path that the system takes; closed below
        self.size = self._file.seek(0, os.SEEK_END)

    def read(self, start: int, length: int) -> bytes:
        """These bytes, fewer at the end of the file."""
        return os.pread(self._file.fileno(), length, start)

    def windows(self) -> Iterator[Bytes]:
        """All whole blocks of the file, some at a time, each time in the same memory."""
        window = np.empty(_WINDOW, np.uint8)
        self._file.seek(0)
        while (count := (self._file.readinto(window.data) or 0) // BLOCK) > 0:
            yield window[: count * BLOCK].reshape(count, BLOCK)

    def close(self) -> None:
        """Let go of the file."""
        self._file.close()


def plain_members(shard: Opened) -> Iterator[Members]:
    """The regular files of an archive, some at a time; raises `GiveUpError` at the first surprise.

    >>> import tempfile
    >>> from contextlib import closing
    >>> from webdataset import tar
    >>> with tempfile.NamedTemporaryFile() as file:
    ...     _ = file.write(tar.encode_header("a.jpg", 20000) + bytes(20000) + tar.padding(20000) + tar.END_OF_ARCHIVE)
    ...     file.flush()
    ...     with closing(Opened(file.name)) as shard:
    ...         [(members.offsets, members.sizes) for members in plain_members(shard)]
    [(array([512]), array([20000]))]
    """
    headers = Headers()
    for blocks, at in _walk(shard) if _has_large_members(shard) else _sweep(shard):
        headers.add(blocks, at)
        if headers.count >= _AT_A_TIME:
            yield headers.take()
    if headers.count:
        yield headers.take()
    rest = shard.size - headers.next
    if not (headers.next and 2 * BLOCK <= rest <= _LONGEST_END and shard.read(headers.next, rest).count(0) == rest):
        raise GiveUpError  # empty, cut, or something follows: for the tar room to say which


def _has_large_members(shard: Opened) -> bool:
    seen = end = 0
    for seen, (offset, block) in enumerate(_steps(shard), 1):
        end = offset + BLOCK + padded(_size(block))
        if seen == _JUDGED:
            break
    return end >= seen * _SMALL


def _walk(shard: Opened) -> Iterator[tuple[Bytes, Ints]]:
    walk = _steps(shard)
    while steps := list(islice(walk, _AT_A_TIME)):
        joined = b"".join([block for _, block in steps])
        yield np.frombuffer(joined, np.uint8).reshape(-1, BLOCK), np.array([offset for offset, _ in steps])


def _sweep(shard: Opened) -> Iterator[tuple[Bytes, Ints]]:
    position = 0
    for window in shard.windows():
        found = tar.find_headers(window, 0, len(window))
        yield window.take(found, axis=0), position + found * BLOCK
        position += window.size


def _steps(shard: Opened) -> Iterator[tuple[int, bytes]]:
    """Where each header stands, and its block, as far as one leads to the next."""
    offset = 0
    while offset + BLOCK <= shard.size and (block := shard.read(offset, BLOCK)) != _ZEROS:
        yield offset, block
        offset += BLOCK + padded(_size(block))


def _size(block: bytes) -> int:
    try:
        size = int(block[124:135], 8)
    except ValueError as error:
        raise GiveUpError from error
    if size < 0:
        raise GiveUpError
    return size
