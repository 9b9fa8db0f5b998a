"""Keys of any number of samples, compared with little memory: rows of a temporary SQLite database.

SQLite keeps a few pages in memory and the others in a temporary file, which it sorts and removes.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import groupby, zip_longest
from typing import Any, NamedTuple

from webdataset.errors import StoreError
from webdataset.stores import Closing

_REPEATED = """
    select key, source, detail from rows
    where key in (select key from rows group by key having count(*) > 1)
    order by key, source, detail
"""
_UNPAIRED = """
    select key, source, detail from rows
    where key in (select key from rows group by key, detail having count(*) != 2 or min(source) = max(source))
    order by key, source, detail
"""


class _Table(Closing):
    """Rows of a key, the number of its source, and a detail."""

    def __init__(self) -> None:
        with _disk_errors():
            self._database = sqlite3.connect("", isolation_level=None, check_same_thread=False)
            self._database.execute("create table rows (key blob, source integer, detail)")
            self._database.execute("begin")

    def _insert(self, rows: Iterable[tuple[str, int, Any]]) -> None:
        encoded = ((key.encode("utf-8", "surrogateescape"), source, detail) for key, source, detail in rows)
        with _disk_errors():
            self._database.executemany("insert into rows values (?, ?, ?)", encoded)

    def _groups(self, query: str) -> Iterator[tuple[str, list[tuple[int, Any]]]]:
        """The rows that a query finds, by key."""
        with _disk_errors():
            for key, rows in groupby(self._database.execute(query), lambda row: row[0]):
                yield key.decode("utf-8", "surrogateescape"), [(source, detail) for _, source, detail in rows]

    def close(self) -> None:
        """Delete the temporary files."""
        self._database.close()


@contextmanager
def _disk_errors() -> Iterator[None]:
    try:
        yield
    except sqlite3.Error as error:
        raise StoreError(f"keys cannot be compared: {error}", hint="set TMPDIR to a folder with more space") from error


class Duplicate(NamedTuple):
    """A key that is in two shards: the number of the first, of the other, and the byte in that one."""

    key: str
    first: int
    again: int
    offset: int


class KeyTable(_Table):
    """Stores the keys of shards, and finds duplicates.

    >>> with KeyTable() as table:
    ...     table.add(0, ["a", "b"], [0, 1024])
    ...     table.add(1, ["b", "c"], [0, 1024])
    ...     list(table.duplicates())
    [Duplicate(key='b', first=0, again=1, offset=0)]
    """

    def add(self, shard: int, keys: Sequence[str], offsets: Sequence[int]) -> None:
        """Add the keys of one shard, and the offsets of its samples."""
        self._insert((key, shard, offset) for key, offset in zip(keys, offsets, strict=True))

    def duplicates(self) -> Iterator[Duplicate]:
        """Every duplicate key, with the shard in which it occurs first."""
        for key, rows in self._groups(_REPEATED):
            (first, _), *others = rows
            for shard, offset in others:
                yield Duplicate(key, first, shard, offset)


Fields = dict[str, str]


class DigestTable(_Table):
    """Stores the samples of two sides as digests of their fields, and finds those that differ.

    >>> with DigestTable() as table:
    ...     table.add(0, "a", {"txt": b"1"})
    ...     table.add(1, "a", {"txt": b"2"})
    ...     list(table.differences())
    [('a', {'txt': '31'}, {'txt': '32'})]
    """

    def add(self, side: int, key: str, fields: dict[str, bytes]) -> None:
        """Add a sample of side 0 or 1."""
        self._insert([(key, side, json.dumps({name: fields[name].hex() for name in sorted(fields)}))])

    def differences(self) -> Iterator[tuple[str, Fields | None, Fields | None]]:
        """The samples that are not the same on both sides: key, fields on one side, fields on the other.

        A key that one side has several times is compared copy by copy.
        """
        for key, rows in self._groups(_UNPAIRED):
            sides = ([json.loads(detail) for source, detail in rows if source == side] for side in (0, 1))
            for left, right in zip_longest(*sides):
                if left != right:
                    yield key, left, right
