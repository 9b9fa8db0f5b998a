"""Parquet and Arrow files: a row is a record, a column is a field.

Columns of images and audio, as Hugging Face stores them (`struct<bytes: binary, path: string>`), are read as their
bytes. Lists of numbers are read as arrays of the column's type, so that no bit is lost.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from webdataset.codecs import check_row_group, check_unpacked
from webdataset.errors import FormatError, WebDatasetError, Where, located

from ._byte_ranges import ByteRanges
from ._parquet_writer import ArrowSink, ipc_writer, parquet_writer, require_pyarrow
from ._record_format import Format, Part, Record, RecordFile, RecordSink, Schema, bad_record, damage_of, recognized

_AT_A_TIME = 1 << 20  # bytes of rows that are made at once, about; more would leave the heap after each batch
_MOST_ROWS = 4096
_PAGES = 1 << 20  # bytes of a column that are fetched at once; without it, whole row groups are


@dataclass(frozen=True)
class Parquet(Format):
    """Parquet files.

    Attributes:
        columns: read only these.
        compression: of the files that are written: "none", "snappy", "zstd", … Images do not get smaller.
        row_group_size: bytes of a row group that is written; that much is kept in memory.
    """

    columns: tuple[str, ...] | None = None
    compression: str = "none"
    row_group_size: int = 8 << 20

    name: ClassVar[str] = "parquet"
    suffixes: ClassVar[tuple[str, ...]] = (".parquet",)

    def open(self, part: Part) -> RecordFile:
        """Open one file."""
        return _ParquetFile(part.url, self.columns)

    def create(self, url: str) -> RecordSink:
        """Begin to write one file."""
        return ArrowSink(url, parquet_writer(self.compression), self.row_group_size)


@dataclass(frozen=True)
class Arrow(Format):
    """Arrow IPC files and streams, as Hugging Face's `save_to_disk` and `Dataset` caches have them."""

    name: ClassVar[str] = "arrow"
    suffixes: ClassVar[tuple[str, ...]] = (".arrow", ".feather")

    def open(self, part: Part) -> RecordFile:
        """Open one file."""
        return _ArrowFile(part.url)

    def create(self, url: str) -> RecordSink:
        """Begin to write one file."""
        return ArrowSink(url, ipc_writer, 8 << 20)


class _ParquetFile(RecordFile):
    def __init__(self, url: str, columns: tuple[str, ...] | None) -> None:
        pa = require_pyarrow()
        self._url, self._columns = url, columns
        data = ByteRanges(url)
        self._stream = data.stream()
        with recognized(self._stream, url, "a parquet file"):
            # pyarrow reads a local file itself, without two copies of the bytes.
            self._file = pa.parquet.ParquetFile(data.path or self._stream, buffer_size=_PAGES, pre_buffer=False)
            self._schema = _checked_schema(self._file.schema_arrow, url)

    @property
    def schema(self) -> Schema:
        return self._schema

    def __len__(self) -> int:
        return int(self._file.metadata.num_rows)

    def records(self, start: int = 0) -> Iterator[Record]:
        metadata = self._file.metadata
        before = 0
        with damage_of("the file", self._url):
            for group in range(metadata.num_row_groups):
                rows = metadata.row_group(group)
                if before + rows.num_rows > start:
                    yield from self._group(group, rows, before, max(0, start - before))
                before += rows.num_rows
            self._check_row_count(len(self), before)

    def _group(self, group: int, rows: Any, before: int, skip: int) -> Iterator[Record]:
        with located(shard=self._url):
            check_row_group(rows)
        size = max(1, rows.total_byte_size // max(1, rows.num_rows))
        count = max(1, min(_MOST_ROWS, _AT_A_TIME // size))
        packed = sum(rows.column(column).total_compressed_size for column in range(rows.num_columns))
        number = 0
        batches = self._file.iter_batches(
            count, row_groups=[group], columns=None if self._columns is None else list(self._columns), use_threads=False
        )
        while True:
            try:
                batch = next(batches, None)
            except WebDatasetError:
                raise
            except Exception as error:  # pyarrow's own classes, and Python's
                offset = rows.column(0).file_offset or rows.column(0).data_page_offset
                raise bad_record(f"{error}", self._url, before + number, offset, hint="copy the file again") from error
            if batch is None:
                self._check_row_count(rows.num_rows, number)
                return
            with located(shard=self._url):
                check_unpacked(packed, batch.nbytes, "a row group")  # equal values are stored once
            if number + batch.num_rows > skip:
                yield from rows_of(batch, max(0, skip - number))
            number += batch.num_rows

    def _check_row_count(self, rows: int, found: int) -> None:
        """Refuse a file with another number of rows than it states."""
        if rows != found:
            raise bad_record(f"expected {rows} rows, got {found}", self._url, hint="copy the file again")

    def close(self) -> None:
        self._file.close(force=True)
        self._stream.close()


class _ArrowFile(RecordFile):
    def __init__(self, url: str) -> None:
        pa = require_pyarrow()
        self._url = url
        self._stream = ByteRanges(url).stream()
        magic = self._stream.read(6)
        self._stream.seek(0)
        with recognized(self._stream, url, "an Arrow file"):
            self._random = pa.ipc.open_file(self._stream) if magic == b"ARROW1" else None
            self._reader = self._random or pa.ipc.open_stream(self._stream)
            self._schema = _checked_schema(self._reader.schema, url)
        self._pa = pa

    @property
    def schema(self) -> Schema:
        return self._schema

    def __len__(self) -> int:
        return sum(batch.num_rows for batch in self._batches())

    def records(self, start: int = 0) -> Iterator[Record]:
        before = 0
        with damage_of("the file", self._url):
            for batch in self._batches():
                batch.validate(full=True)  # pyarrow does not check the file's offsets and lengths when it uses them
                for first in range(max(0, start - before), batch.num_rows, 64):
                    yield from rows_of(batch.slice(first, 64), 0)
                before += batch.num_rows

    def _batches(self) -> Iterator[Any]:
        number = 0
        try:
            if self._random is not None:
                batches = map(self._random.get_batch, range(self._random.num_record_batches))
            else:
                self._stream.seek(0)
                batches = self._pa.ipc.open_stream(self._stream)
            for batch in batches:
                yield batch
                number += batch.num_rows
        except WebDatasetError:
            raise
        except Exception as error:
            raise bad_record(f"{error}", self._url, number, hint="copy the file again") from error

    def close(self) -> None:
        self._stream.close()


def _checked_schema(schema: Any, url: str) -> Schema:
    """The columns and their types; two of the same name are refused, because a record would have only one of them."""
    twice = [name for name, count in Counter(schema.names).items() if count > 1]
    if twice:
        raise FormatError(f"there are two columns {twice[0]!r}", Where(shard=url), hint="rename one of them")
    return {field.name: str(field.type) for field in schema}


def rows_of(batch: Any, skip: int) -> Iterator[Record]:
    """The rows of a record batch."""
    columns = [_values(column, skip) for column in batch.columns]
    names = batch.schema.names
    for row in zip(*columns, strict=True):
        yield dict(zip(names, row, strict=True))


def _values(column: Any, skip: int) -> list[Any]:
    """The values of a column from number `skip` on."""
    pa = require_pyarrow()
    part = column.slice(skip) if skip else column
    kind = part.type
    if pa.types.is_struct(kind) and {field.name for field in kind} == {"bytes", "path"}:
        return _media(part)
    if isinstance(part, pa.ExtensionArray):
        part, kind = part.storage, part.storage.type
    if _is_list_of_numbers(kind, pa):
        return [_array(value) if value.is_valid else None for value in part]
    if pa.types.is_floating(kind) and not pa.types.is_float64(kind):
        dtype = kind.to_pandas_dtype()
        return [None if value is None else dtype(value) for value in part.to_pylist()]
    readable = _with_text(kind, pa)
    values: list[Any] = (part if readable == kind else part.cast(readable)).to_pylist()
    return values


def _with_text(kind: Any, pa: Any) -> Any:
    """The type with text for dates, times and decimals, which no field of a sample holds; durations are numbers."""
    if pa.types.is_duration(kind):
        return pa.int64()
    if pa.types.is_temporal(kind) or pa.types.is_decimal(kind):
        return pa.string()
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(_with_text(field.type, pa)) for field in kind])
    if pa.types.is_list(kind):
        return pa.list_(_with_text(kind.value_type, pa))
    if pa.types.is_large_list(kind):
        return pa.large_list(_with_text(kind.value_type, pa))
    return kind


def _media(part: Any) -> list[bytes | None]:
    contents, paths = part.field("bytes").to_pylist(), part.field("path").to_pylist()
    for content, path in zip(contents, paths, strict=True):
        if content is None and path is not None:
            raise FormatError(
                f"an image or sound is not in the file, which only names {path!r}",
                hint="embed the files first: datasets.table.embed_table_storage does",
            )
    return contents  # type: ignore[no-any-return]  # from pyarrow


def _is_list_of_numbers(kind: Any, pa: Any) -> bool:
    while pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        kind = kind.value_type
        if pa.types.is_integer(kind) or pa.types.is_floating(kind):
            return True
    return False


def _array(value: Any) -> Any:
    """A list scalar as an array; nested lists that are not rectangular, or have gaps, stay lists."""
    pa = require_pyarrow()
    inner = value.values
    if inner.null_count:
        return value.as_py()
    if pa.types.is_integer(inner.type) or pa.types.is_floating(inner.type):
        return np.array(inner.to_numpy(zero_copy_only=False), inner.type.to_pandas_dtype())
    rows = [_array(row) for row in inner]
    if rows and all(isinstance(row, np.ndarray) and row.shape == rows[0].shape for row in rows):
        return np.stack(rows)
    return value.as_py()
