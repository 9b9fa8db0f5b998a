"""Manifests: tables with one sample per row, as TSV, CSV, JSONL or Parquet."""

from __future__ import annotations

import csv
import io
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from webdataset import stores
from webdataset.address import Address, Birth
from webdataset.codecs import check_row_group
from webdataset.errors import FormatError, SpecError, Where, located
from webdataset.optional import require

from ._sample_sources import Entry, LocalFile, Source, StoredFile, as_bytes

DEFAULT_KEY = "{record:09d}"


def read_manifest(
    url: str,
    kind: str,
    *,
    key: str = DEFAULT_KEY,
    folder: str | None = None,
    columns: Sequence[str] | None = None,
) -> Iterator[Entry]:
    r"""The samples of a table.

    >>> with stores.open_write("memory://doc-manifest/t") as stream:
    ...     _ = stream.write(b"__key__\tcls\ttxt\na\t3\thello\n")
    >>> [entry.sample() for entry in read_manifest("memory://doc-manifest/t", "tsv")]
    [{'__key__': 'a', 'cls': b'3', 'txt': b'hello'}]

    The columns are fields. `__key__` is the key; a column `@jpg` holds the path or URL of the file that becomes the
    field `jpg`. Text is written as it is, other values of JSONL and Parquet as JSON, and null leaves the field out.
    A table may come from anywhere: `pipe:` is refused in it, credentials are not sent to the hosts that it names, and
    local files are opened below the current directory or `folder` only; for a table from a server, below `folder` only.

    Args:
        url: the table; `-` is standard input.
        kind: "tsv", "csv", "jsonl" or "parquet".
        key: the key of rows without a `__key__`, a format with `{record}`.
        folder: what relative paths are relative to.
        columns: the names of the columns of a TSV or CSV file without a header.
    """
    _check_key(key)
    reading = {"jsonl": _read_jsonl, "parquet": _read_parquet}.get(kind)
    rows = reading(url) if reading is not None else _read_csv(url, kind, columns)
    for record, (place, row) in enumerate(rows):
        yield _entry(row, place, key.format(record=record), partial(file_in_table, table=url, folder=folder))


def _check_key(key: str) -> None:
    try:
        if key.format(record=0) == key.format(record=1):
            raise ValueError("it has no {record}")
    except (KeyError, IndexError, ValueError, AttributeError) as error:
        raise SpecError(f"{key!r} cannot make keys: {error}", hint=f"write {DEFAULT_KEY!r}") from error


def _entry(row: Mapping[str, Any], place: str, key: str, file: Callable[[str], Source]) -> Entry:
    fields: dict[str, Source] = {}
    for column, value in row.items():
        with located(shard=place, field=column):
            data = as_bytes(value)
        if data is None:
            continue
        name = column.removeprefix("@").lower()
        if column == "__key__":
            key = str(value)
        elif name in fields:
            raise FormatError(f"the field {name!r} is given twice", Where(shard=place), hint="keep one of them")
        elif column.startswith("@"):
            fields[name] = file(str(value))
        else:
            fields[name] = data
    if not key:
        raise FormatError("the key is empty", Where(shard=place), hint="give every row a key")
    if not fields:
        raise FormatError("the row has no fields", Where(shard=place), hint="remove the row, or fill it")
    return Entry(key, fields, place)


def file_in_table(text: str, *, table: str, folder: str | None) -> Source:
    """The file that a table names; with `folder`, a table on this machine may name any file of this machine."""
    is_local = table == "-" or stores.scheme_of(table) in {"", "file", "pipe"}
    is_path = folder is not None and stores.scheme_of(text) in {"", "file"}
    url = Address(text, Birth.MAPPING if is_path else Birth.SPEC, folder or ("." if is_local else table))
    path = stores.is_local(url)
    if path is None:
        return StoredFile(url)
    if folder is not None:
        path = os.path.join(folder, path)  # noqa: PTH118 - an address
        if not is_local:
            stores.permitted(Address(path, Birth.SPEC, folder))
    return LocalFile(path)


def _text(url: str) -> str:
    data = stores.read_bytes(url)
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise FormatError("the table is not text", Where(shard=f"{url}, line {line}"), hint="write UTF-8") from error


def _read_csv(url: str, kind: str, columns: Sequence[str] | None) -> Iterator[tuple[str, Mapping[str, Any]]]:
    dialect: dict[str, Any] = {"delimiter": ","} if kind == "csv" else {"delimiter": "\t", "quoting": csv.QUOTE_NONE}
    reader = csv.reader(io.StringIO(_text(url), newline=""), strict=True, **dialect)
    try:
        header = list(columns) if columns is not None else next(reader, [])
        if not header or len(set(header)) != len(header) or not all(header):
            raise FormatError(
                f"the header {header} does not name the columns", Where(shard=url), hint="name each column once"
            )
        for row in reader:
            place = f"{url}, line {reader.line_num}"
            if not row:
                continue
            if len(row) != len(header):
                problem = f"expected {len(header)} columns, got {len(row)}"
                raise FormatError(problem, Where(shard=place), hint="correct the row")
            yield place, dict(zip(header, row, strict=True))
    except csv.Error as error:
        place = f"{url}, line {reader.line_num}"
        raise FormatError(f"the table cannot be read: {error}", Where(shard=place), hint="correct the row") from error


def _read_jsonl(url: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for number, line in enumerate(_text(url).split("\n"), 1):
        if not line.strip():
            continue
        place = f"{url}, line {number}"
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise FormatError(f"the line is not JSON: {error}", Where(shard=place), hint="correct the line") from error
        if not isinstance(row, dict):
            raise FormatError(f"expected an object, got {type(row).__name__}", Where(shard=place), hint='{"txt": ...}')
        yield place, row


def _read_parquet(url: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    pq = require("pyarrow.parquet", extra="parquet", why="to read Parquet files")
    pa = require("pyarrow", extra="parquet", why="to read Parquet files")
    path = stores.is_local(url)
    try:
        file = pq.ParquetFile(path if path is not None else pa.BufferReader(StoredFile(url)()))
    except (pa.ArrowException, OSError) as error:
        raise FormatError(f"this is not a Parquet file: {error}", Where(shard=url)) from error
    with file:
        with located(shard=url):
            for group in range(file.metadata.num_row_groups):
                check_row_group(file, group)
        rows = (row for batch in file.iter_batches(batch_size=256) for row in batch.to_pylist())
        number = 0
        while True:
            try:
                row = next(rows, None)
            except (pa.ArrowException, OSError, ValueError) as error:
                where = Where(shard=f"{url}, row {number + 1}")
                raise FormatError(f"the table cannot be read: {error}", where, hint="copy it again") from error
            if row is None:
                return
            number += 1
            yield f"{url}, row {number}", {name: _plain(value) for name, value in row.items()}


def _plain(value: Any) -> Any:
    """An image, as Hugging Face stores it, as its bytes; other values as they are."""
    return value["bytes"] if isinstance(value, dict) and set(value) == {"bytes", "path"} else value
