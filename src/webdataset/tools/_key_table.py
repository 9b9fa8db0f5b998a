"""Keys of any number of samples, compared with little memory.

A key is stored as a hash of 16 bytes, its shard, its offset, and where its text is: 40 bytes in one of 128 temporary
files, chosen by the hash. Keys that are equal are in the same file, so one file is loaded and sorted at a time. The
texts are in a file of their own and are read only for keys that are found. For n samples that takes
40 · n bytes of disk and the texts, and about n bytes of memory. Little data is kept in memory only.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from itertools import accumulate
from tempfile import SpooledTemporaryFile
from typing import NamedTuple, Self

import numpy as np

_PARTS = 128
_IN_MEMORY = 1 << 18  # bytes of each part
_RECORD = np.dtype(
    [("high", "<u8"), ("low", "<u8"), ("text", "<u8"), ("offset", "<i8"), ("shard", "<u4"), ("length", "<u4")]
)


class KeyPlace(NamedTuple):
    """Where a key was: the number of its shard, and the byte."""

    shard: int
    offset: int


class Duplicate(NamedTuple):
    """A key that is in two shards."""

    key: str
    first: KeyPlace
    again: KeyPlace


class KeyTable:
    """Takes the keys of shards, and finds those that are there twice.

    >>> with KeyTable() as table:
    ...     table.add(0, ["a", "b"], [0, 1024])
    ...     table.add(1, ["b", "c"], [0, 1024])
    ...     list(table.duplicates())
    [Duplicate(key='b', first=KeyPlace(shard=0, offset=1024), again=KeyPlace(shard=1, offset=0))]
    """

    def __init__(self) -> None:
        self._parts = [SpooledTemporaryFile(max_size=_IN_MEMORY) for _ in range(_PARTS)]  # noqa: SIM115 - closed by close
        self._texts = SpooledTemporaryFile(max_size=_IN_MEMORY * _PARTS)  # noqa: SIM115 - closed by close
        self._length = 0

    def add(self, shard: int, keys: Sequence[str], offsets: Sequence[int]) -> None:
        """The keys of one shard, and where its samples begin."""
        if not keys:
            return
        texts = [key.encode("utf-8", "surrogateescape") for key in keys]
        digests = b"".join(hashlib.blake2b(text, digest_size=16).digest() for text in texts)
        records = np.empty(len(keys), _RECORD)
        hashes = np.frombuffer(digests, "<u8").reshape(-1, 2)
        records["high"], records["low"], records["shard"], records["offset"] = (
            hashes[:, 0],
            hashes[:, 1],
            shard,
            offsets,
        )
        records["length"] = [len(text) for text in texts]
        records["text"] = self._length + np.array([0, *accumulate(map(len, texts))][:-1], np.int64)
        self._texts.write(b"".join(texts))
        self._length += sum(map(len, texts))
        parts = records["high"] % _PARTS
        order = np.argsort(parts, kind="stable")
        records, bounds = records[order], np.searchsorted(parts[order], np.arange(_PARTS + 1))
        for part in np.unique(parts).tolist():
            self._parts[part].write(records[bounds[part] : bounds[part + 1]].tobytes())

    def duplicates(self) -> Iterator[Duplicate]:
        """Every key that comes again, with the place where it came first."""
        for part in self._parts:
            part.seek(0)
            records = np.frombuffer(part.read(), _RECORD)
            records = records[np.lexsort([records[name] for name in ("offset", "shard", "low", "high")])]
            same = (records["high"][1:] == records["high"][:-1]) & (records["low"][1:] == records["low"][:-1])
            first = 0
            for row in (np.flatnonzero(same) + 1).tolist():
                if not first or records["high"][row] != records["high"][first - 1]:
                    first = row
                yield Duplicate(self._text(records[row]), _place(records[first - 1]), _place(records[row]))

    def close(self) -> None:
        """Delete the temporary files."""
        for file in (*self._parts, self._texts):
            file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _text(self, record: np.void) -> str:
        self._texts.seek(int(record["text"]))
        text = self._texts.read(int(record["length"])).decode("utf-8", "surrogateescape")
        self._texts.seek(0, 2)
        return text


def _place(record: np.void) -> KeyPlace:
    return KeyPlace(int(record["shard"]), int(record["offset"]))
