"""Keys of any number of samples, compared with little memory.

A key is a record of 40 bytes in one of 128 temporary files, chosen by a hash of the key: the hash (16 bytes), where the
sample comes from, a number about it, and where its text is in a file of texts. Records of equal keys are in the same
file, so one file is loaded and sorted at a time, and texts are read only for keys that are reported. For n samples that
takes 40 · n bytes of disk, the texts, and about n bytes of memory. Little data is kept in memory only.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from itertools import accumulate
from tempfile import SpooledTemporaryFile
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

_PARTS = 128
_IN_MEMORY = 1 << 18  # bytes of each part
_GATHERED = 1 << 12  # records that are written at a time
_RECORD = np.dtype(
    [("high", "<u8"), ("low", "<u8"), ("text", "<u8"), ("number", "<i8"), ("source", "<u4"), ("length", "<u4")]
)

Records = NDArray[Any]


class _Table:
    """Records by key, in temporary files."""

    def __init__(self) -> None:
        self._parts = [SpooledTemporaryFile(max_size=_IN_MEMORY) for _ in range(_PARTS)]  # noqa: SIM115 - see close
        self._texts = SpooledTemporaryFile(max_size=_IN_MEMORY * _PARTS)  # noqa: SIM115 - closed by close
        self._length = 0

    def _write(self, source: int, keys: Sequence[str], numbers: Sequence[int], texts: Sequence[bytes]) -> None:
        if not keys:
            return
        encoded = (key.encode("utf-8", "surrogateescape") for key in keys)
        digests = b"".join(hashlib.blake2b(key, digest_size=16).digest() for key in encoded)
        hashes, records = np.frombuffer(digests, "<u8").reshape(-1, 2), np.empty(len(keys), _RECORD)
        records["high"], records["low"], records["source"], records["number"] = *hashes.T, source, numbers
        records["length"] = [len(text) for text in texts]
        records["text"] = self._length + np.array([0, *accumulate(map(len, texts))][:-1], np.int64)
        self._texts.write(b"".join(texts))
        self._length += sum(map(len, texts))
        parts = records["high"] % _PARTS
        order = np.argsort(parts, kind="stable")
        records, bounds = records[order], np.searchsorted(parts[order], np.arange(_PARTS + 1))
        for part in np.unique(parts).tolist():
            self._parts[part].write(records[bounds[part] : bounds[part + 1]].tobytes())

    def _groups(self) -> Iterator[tuple[Records, NDArray[np.int64]]]:
        """The records of each part, sorted by key, source and number; and where each key begins, with the end."""
        for part in self._parts:
            part.seek(0)
            records = np.frombuffer(part.read(), _RECORD)
            records = records[np.lexsort([records[name] for name in ("number", "source", "low", "high")])]
            differ = (records["high"][1:] != records["high"][:-1]) | (records["low"][1:] != records["low"][:-1])
            yield records, np.concatenate([[0], np.flatnonzero(differ) + 1, [len(records)]])

    def _text(self, record: Any) -> bytes:
        self._texts.seek(int(record["text"]))
        return self._texts.read(int(record["length"]))

    def close(self) -> None:
        """Delete the temporary files."""
        for file in (*self._parts, self._texts):
            file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class KeyPlace(NamedTuple):
    """Where a key was: the number of its shard, and the byte."""

    shard: int
    offset: int


class Duplicate(NamedTuple):
    """A key that is in two shards."""

    key: str
    first: KeyPlace
    again: KeyPlace


class KeyTable(_Table):
    """Takes the keys of shards, and finds those that are there twice.

    >>> with KeyTable() as table:
    ...     table.add(0, ["a", "b"], [0, 1024])
    ...     table.add(1, ["b", "c"], [0, 1024])
    ...     list(table.duplicates())
    [Duplicate(key='b', first=KeyPlace(shard=0, offset=1024), again=KeyPlace(shard=1, offset=0))]
    """

    def add(self, shard: int, keys: Sequence[str], offsets: Sequence[int]) -> None:
        """The keys of one shard, and where its samples begin."""
        self._write(shard, keys, offsets, [key.encode("utf-8", "surrogateescape") for key in keys])

    def duplicates(self) -> Iterator[Duplicate]:
        """Every key that comes again, with the place where it came first. No key may be added after this."""
        for records, starts in self._groups():
            for group in np.flatnonzero(np.diff(starts) > 1).tolist():
                first, *others = records[starts[group] : starts[group + 1]]
                key = self._text(first).decode("utf-8", "surrogateescape")
                for record in others:
                    yield Duplicate(key, _place(first), _place(record))


Fields = dict[str, str]


class DigestTable(_Table):
    """Takes samples of two sides as digests of their fields, and finds those that differ.

    >>> with DigestTable() as table:
    ...     table.add(0, "a", {"txt": b"1"})
    ...     table.add(1, "a", {"txt": b"2"})
    ...     list(table.differences())
    [('a', {'txt': '31'}, {'txt': '32'})]
    """

    def __init__(self) -> None:
        super().__init__()
        self._side = 0
        self._waiting: list[tuple[str, int, bytes]] = []

    def add(self, side: int, key: str, fields: dict[str, bytes]) -> None:
        """A sample of side 0 or 1."""
        if side != self._side or len(self._waiting) >= _GATHERED:
            self._flush()
        self._side = side
        text = json.dumps([key, {name: fields[name].hex() for name in sorted(fields)}]).encode()
        number = int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), signed=True)
        self._waiting.append((key, number, text))

    def differences(self) -> Iterator[tuple[str, Fields | None, Fields | None]]:
        """The samples that are not the same on both sides: key, fields on one side, fields on the other."""
        self._flush()
        for records, starts in self._groups():
            sizes, firsts = np.diff(starts), starts[:-1]
            pairs = firsts[sizes == 2]
            same = np.zeros(len(sizes), bool)
            one, two = records[pairs], records[pairs + 1]
            same[sizes == 2] = (one["source"] != two["source"]) & (one["number"] == two["number"])
            for group in np.flatnonzero(~same & (sizes > 0)).tolist():
                yield from self._pairs(records[starts[group] : starts[group + 1]])

    def _pairs(self, group: Records) -> Iterator[tuple[str, Fields | None, Fields | None]]:
        """A key that one side has several times is compared copy by copy."""
        texts = [json.loads(self._text(record)) for record in group]
        sides = [[text[1] for text, row in zip(texts, group, strict=True) if row["source"] == side] for side in (0, 1)]
        for number in range(max(map(len, sides))):
            left, right = (side[number] if number < len(side) else None for side in sides)
            if left != right:
                yield texts[0][0], left, right

    def _flush(self) -> None:
        waiting, self._waiting = self._waiting, []
        keys, numbers, texts = ([row[column] for row in waiting] for column in range(3))
        self._write(self._side, keys, numbers, texts)  # type: ignore[arg-type]  # columns of (str, int, bytes)


def _place(record: Any) -> KeyPlace:
    return KeyPlace(int(record["source"]), int(record["number"]))
