"""Samples → parquet and Arrow files."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numpy as np

from webdataset import stores
from webdataset.codecs import AUDIO_EXTENSIONS, IMAGE_EXTENSIONS
from webdataset.errors import EncodingError, Where
from webdataset.optional import require

from ._field_mapping import KEY, extension_of
from ._record_format import Record, RecordSink

Writer = Callable[[Any, Any], Any]  # (stream, schema) → something with write_table and close


def require_pyarrow() -> Any:
    """The package pyarrow."""
    require("pyarrow.parquet", extra="parquet", why="to read and write parquet")
    return sys.modules["pyarrow"]


class ArrowSink(RecordSink):
    """One file of rows. The types of the columns are those of the first group of rows; later rows must fit.

    Fields with the extension of an image or a sound are stored as Hugging Face stores them, so that
    `datasets.load_dataset` decodes them.
    """

    def __init__(self, url: str, begin: Writer, group: int) -> None:
        self._pa = require_pyarrow()
        self._url, self._begin, self._group = url, begin, group
        self._rows: list[Record] = []
        self._size = self._written = 0
        self._schema: Any = None
        self._writer: Any = None
        self._stream = stores.open_write(url)

    def write(self, sample: Record) -> int:
        """Keep one sample until a group of rows is full."""
        row = {name: plain(value) for name, value in sample.items()}
        size = sum(_size_of(value) for value in row.values())
        self._rows.append(row)
        self._size += size
        if self._size >= self._group:
            self._flush()
        return size

    def close(self) -> None:
        """Publish the file."""
        if self._rows or self._writer is None:
            self._flush()
        self._writer.close()
        self._stream.close()

    def abort(self) -> None:
        """Discard the file."""
        if self._writer is not None:
            with suppress(Exception):  # what it still writes is discarded too
                self._writer.close()
        self._stream.abort()

    def _flush(self) -> None:
        rows, self._rows, self._size = self._rows, [], 0
        if self._schema is None:
            self._schema = self._find_schema(rows)
            self._writer = self._begin(self._stream, self._schema)
        known = set(self._schema.names)
        for number, row in enumerate(rows, self._written):
            if not known.issuperset(row):
                raise self._misfit_error(number, min(set(row) - known), "is not in the first rows of the file")
        columns = [self._column(field, rows) for field in self._schema]
        self._writer.write_table(self._pa.Table.from_arrays(columns, schema=self._schema))
        self._written += len(rows)
        self._pa.default_memory_pool().release_unused()  # otherwise it keeps the memory of several groups

    def _column(self, field: Any, rows: list[Record]) -> Any:
        values: list[Any] = [row.get(field.name) for row in rows]
        if self._pa.types.is_struct(field.type) and _media_kind(field.name) is not None:
            keys = [row.get(KEY, "") for row in rows]
            values = [
                value if value is None else {"bytes": value, "path": f"{key}.{field.name}"}
                for key, value in zip(keys, values, strict=True)
            ]
        try:
            return self._pa.array(values, field.type)
        except (self._pa.ArrowInvalid, self._pa.ArrowTypeError, OverflowError) as error:
            number = next((n for n, value in enumerate(values) if not self._fits(value, field.type)), 0)
            raise self._misfit_error(
                self._written + number, field.name, f"does not fit {field.type}: {error}"
            ) from error

    def _fits(self, value: Any, kind: Any) -> bool:
        try:
            self._pa.array([value], kind)
        except (self._pa.ArrowInvalid, self._pa.ArrowTypeError, OverflowError):
            return False
        return True

    def _find_schema(self, rows: list[Record]) -> Any:
        names = dict.fromkeys(name for row in rows for name in row)
        media = self._pa.struct({"bytes": self._pa.binary(), "path": self._pa.string()})
        features: dict[str, Any] = {}
        fields = []
        for name in names:
            values = [row.get(name) for row in rows]
            kind = _media_kind(name) if all(isinstance(value, bytes | None) for value in values) else None
            if kind is not None:
                features[name] = {"_type": kind}
            fields.append(self._pa.field(name, self._type(name, values) if kind is None else media))
        metadata = None
        if features:
            others = {field.name: _feature(field.type, self._pa) for field in fields if field.name not in features}
            if all(value is not None for value in others.values()):
                described = {name: features.get(name) or others[name] for name in names}
                metadata = {"huggingface": json.dumps({"info": {"features": described}})}
        return self._pa.schema(fields, metadata=metadata)

    def _type(self, name: str, values: list[Any]) -> Any:
        whole = all(isinstance(value, int | None) for value in values)
        if whole and max(value or 0 for value in values) >= 1 << 63:
            return self._pa.uint64()
        try:
            return self._pa.array(values).type
        except (self._pa.ArrowInvalid, self._pa.ArrowTypeError, OverflowError) as error:
            raise EncodingError(
                f"the values have no common type: {error}",
                Where(field=name, shard=self._url),
                hint=f"map it to {name}.json or {name}.npy, so that it is stored as bytes",
            ) from error

    def _misfit_error(self, number: int, name: str, what: str) -> EncodingError:
        return EncodingError(
            f"row {number}: the field {what}",
            Where(field=name, shard=self._url),
            hint="give every sample the same fields and types, or name the fields to keep in the mapping",
        )


def parquet_writer(compression: str) -> Writer:
    """The function that begins a parquet file."""
    pa = require_pyarrow()
    return lambda stream, schema: pa.parquet.ParquetWriter(
        stream, schema, compression=compression, use_dictionary=False, write_statistics=False
    )


def ipc_writer(stream: Any, schema: Any) -> Any:
    """Begin an Arrow file."""
    return require_pyarrow().ipc.new_file(stream, schema)


def plain(value: Any) -> Any:
    """A value that pyarrow accepts: arrays of more dimensions become lists of arrays.

    >>> plain(np.arange(4).reshape(2, 2))
    [array([0, 1]), array([2, 3])]
    """
    if isinstance(value, np.ndarray):
        if value.ndim == 0:
            return value[()]
        return value if value.ndim == 1 else [plain(row) for row in value]
    return value


def _size_of(value: Any) -> int:
    if isinstance(value, bytes | str):
        return len(value)
    if isinstance(value, list):
        return sum(map(_size_of, value))
    return int(getattr(value, "nbytes", 8))


def _media_kind(name: str) -> str | None:
    extension = extension_of(name)
    if extension in IMAGE_EXTENSIONS:
        return "Image"
    return "Audio" if extension in AUDIO_EXTENSIONS else None


def _feature(kind: Any, pa: Any) -> Any:
    """A column's type as Hugging Face describes it; None for types that are not simple."""
    if pa.types.is_list(kind):
        inner = _feature(kind.value_type, pa)
        return None if inner is None else {"feature": inner, "_type": "List"}
    names = {"double": "float64", "float": "float32", "halffloat": "float16"}
    name = names.get(str(kind), str(kind))
    simple = pa.types.is_primitive(kind) or name in {"string", "binary"}
    return {"dtype": name, "_type": "Value"} if simple else None
