"""`wds query`: SQL over the samples of a dataset, by DuckDB. Only the fields that the query names are read.

The table is `samples`: `key`, `shard`, `number`, `offset`, `size` (bytes of all fields), `sizes` (bytes of each field:
`sizes.jpg`), and a column for each field that the query names: JSON fields (`json.width`), numbers (`cls`), text
(`txt`). It is kept in a temporary database on disk, so it may be larger than memory.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from webdataset import stores
from webdataset.errors import SpecError, StoreError, Where
from webdataset.index import ShardReader
from webdataset.optional import require
from webdataset.redact import redacted
from webdataset.samples import read_shard

from ._expression import JSON, NUMBERS, TEXTS
from ._list_samples import Listed, list_indexed, shard_index
from ._output_target import existing, refuse_existing
from ._read_inputs import Inputs, expand_inputs
from ._temporary_files import scratch_folder
from ._verb_options import Advance, advancing

_AT_A_TIME = 2000
_OWN = ("key", "shard", "number", "offset", "size", "sizes")
_ALL_COLUMNS = re.compile(r"(?i)\bselect\s+(distinct\s+)?\*")


@dataclass(frozen=True, slots=True)
class Answer:
    """The result of a query.

    Attributes:
        columns: the names of the columns.
        cursor: where the rows come from.
    """

    columns: tuple[str, ...]
    cursor: Any

    def rows(self) -> Iterator[tuple[Any, ...]]:
        """The rows, each once."""
        while batch := self.cursor.fetchmany(_AT_A_TIME):
            yield from batch

    def keys(self) -> Iterator[str]:
        """The column `key` of each row, for `wds select --keys`."""
        if "key" not in self.columns:
            raise SpecError("the query has no column 'key'", hint="write `select key from samples where …`")
        column = self.columns.index("key")
        return (str(row[column]) for row in self.rows())


@contextmanager
def query(
    sql: str,
    inputs: Inputs,
    *,
    index: str | None = None,
    parquet: str | None = None,
    force: bool = False,
    advance: Advance | None = None,
) -> Iterator[Answer]:
    """Query a dataset with SQL.

    >>> from webdataset.testing import make_shard
    >>> shard = make_shard("memory://doc-query/a.tar", [{"__key__": f"{n}", "json": {"width": n}} for n in range(5)])
    >>> with query("select key from samples where json.width > 2 order by key", shard) as answer:
    ...     list(answer.keys())
    ['3', '4']

    Args:
        sql: a query about the table `samples`.
        inputs: shards, or a description.
        index: where indexes are kept; by default beside the shards.
        parquet: write the result to this path or URL; the answer then has no rows.
        force: replace it if it exists.
        advance: called with 1 after each shard.
    """
    duckdb = require("duckdb", extra="query", why="to answer queries")
    refuse_existing(existing([parquet]), force=force)
    with (
        scratch_folder() as folder,
        _database_errors(duckdb, folder),
        closing(duckdb.connect(str(folder / "samples.duckdb"))) as connection,
    ):
        table, file = _Samples(connection, sql), folder / "answer.parquet"
        for url in advancing(expand_inputs(inputs), advance):
            table.add_shard(url, index)
        try:
            cursor = connection.execute(sql if parquet is None else _copy(sql, str(file)))
        except duckdb.IOException:
            raise
        except duckdb.Error as error:
            raise SpecError(f"DuckDB says: {error}", hint=f"the columns are {' '.join(table.columns)}") from error
        if parquet is not None:
            with file.open("rb") as stream, stores.open_write(parquet) as target:
                shutil.copyfileobj(stream, target, 1 << 20)
        yield Answer(tuple(column[0] for column in cursor.description or ()), cursor)


@contextmanager
def _database_errors(duckdb: Any, folder: Path) -> Iterator[None]:
    try:
        yield
    except duckdb.Error as error:
        raise StoreError(
            f"the temporary database cannot be used: {error}",
            Where(shard=str(folder)),
            hint="free some space there, or set TMPDIR to a folder on another disk",
        ) from error


class _Samples:
    """The table, filled shard by shard; the column of a field is added when the field first occurs."""

    def __init__(self, connection: Any, sql: str) -> None:
        self._connection = connection
        self._words = sql.lower()
        self._everything = _ALL_COLUMNS.search(sql) is not None
        self._fields: dict[str, str] = {}
        self._possible: set[str] = set()  # fields of the samples that can have a column
        connection.execute(
            'create table samples (key varchar, shard varchar, number bigint, "offset" bigint, size bigint, sizes json)'
        )

    @property
    def columns(self) -> list[str]:
        """The columns that a query can name; a field has one only if the query names it."""
        return [*_OWN, *sorted(self._possible)]

    def add_shard(self, url: str, place: str | None) -> None:
        index = shard_index(url, place)
        if index is None:
            self._add_streamed(url)
            return
        for name in index.fields:
            self._add_field(name.lower())
        fields = [name for name in self._fields if name in {field.lower() for field in index.fields}]
        rows = list_indexed(url, index)
        with closing(ShardReader(url, index)) as reader:
            while listed := list(islice(rows, _AT_A_TIME)):
                numbers = [row.number for row in listed]
                self._insert(listed, reader.samples(numbers, fields) if fields else [{}] * len(listed))

    def _add_streamed(self, url: str) -> None:
        """Add a shard without an index, which can only be read from beginning to end."""
        samples = enumerate(read_shard(url))
        while batch := list(islice(samples, _AT_A_TIME)):
            listed = []
            for number, sample in batch:
                sizes = {name: len(data) for name, data in sample.items() if isinstance(data, bytes)}
                for name in sizes:
                    self._add_field(name)
                listed.append(Listed(url, number, sample["__key__"], sizes))
            self._insert(listed, [sample for _, sample in batch])

    def _add_field(self, name: str) -> None:
        """Add a column for a field, if the query names it."""
        kind = name.rpartition(".")[2]
        if kind not in JSON | NUMBERS | TEXTS or name in _OWN:
            return
        self._possible.add(name)
        if name in self._fields or not (self._everything or _mentions(self._words, name)):
            return
        self._fields[name] = "json" if kind in JSON else "bigint" if kind in NUMBERS else "varchar"
        self._connection.execute(f'alter table samples add column "{_quoted(name)}" {self._fields[name]}')

    def _insert(self, listed: Sequence[Listed], values: Sequence[dict[str, Any]]) -> None:
        import numpy as np

        batch = {
            "key": np.array([row.key.encode("utf-8", "replace").decode() for row in listed], object),
            "shard": np.array([redacted(row.shard) for row in listed], object),
            "number": np.array([row.number for row in listed], np.int64),
            "offset": np.array([-1 if row.offset is None else row.offset for row in listed], np.int64),
            "size": np.array([row.size for row in listed], np.int64),
            "sizes": np.array([json.dumps(row.fields) for row in listed], object),
        }
        for name in self._fields:
            batch[name] = np.array([_decoded(value.get(name)) for value in values], object)
        chosen = ", ".join(f'try_cast("{_quoted(name)}" as {kind})' for name, kind in self._fields.items())
        own = 'key, shard, number, nullif("offset", -1), size, sizes::json'
        self._connection.register("batch", batch)
        self._connection.execute(f"insert into samples select {', '.join(filter(None, (own, chosen)))} from batch")  # noqa: S608 - quoted
        self._connection.unregister("batch")


def _decoded(data: Any) -> str | None:
    return None if data is None else bytes(data).decode("utf-8", "replace")


def _mentions(words: str, field: str) -> bool:
    """Whether a query names a field."""
    return re.search(rf"(?<![\w.]){re.escape(field)}(?!\w)", words) is not None


def _quoted(name: str) -> str:
    return name.replace('"', '""')


def _copy(sql: str, path: str) -> str:
    quoted = path.replace("'", "''")
    return f"copy ({sql.rstrip().rstrip(';')}) to '{quoted}' (format parquet)"
