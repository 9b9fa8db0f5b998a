"""Samples → `.beton` files."""

from __future__ import annotations

import json
import random
import shutil
import tempfile
from contextlib import suppress
from typing import IO, Any

import numpy as np

from webdataset import stores
from webdataset.codecs import IMAGE_EXTENSIONS
from webdataset.errors import EncodingError, SpecError, Where, located

from ._beton_fields import (
    DESCRIPTION,
    HEADER,
    NUMBERS,
    SIZED,
    VERSION,
    BetonField,
    FieldType,
    ImageOptions,
    field_for,
    row_type,
)
from ._field_mapping import KEY, extension_of
from ._record_format import Record, RecordSink

_PIECE = 1 << 20
_LONGEST_NAME = 16


class BetonSink(RecordSink):
    """One `.beton`. The number of samples comes before the data, so pages are kept in a temporary file until the end.

    Every sample must have the fields of the first one; a key is stored only if it is mapped to a field.
    """

    def __init__(self, url: str, page: int, images: tuple[str, ...] | None, image: ImageOptions, seed: int) -> None:
        if page & (page - 1) or not 1 << 21 <= page < 1 << 32:
            raise SpecError(f"page_size={page}: expected a power of two from 2 MiB to 2 GiB")
        self._url, self._page, self._images, self._image = url, page, images, image
        self._fields: list[BetonField] = []
        self._rows: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - closed in close and abort
        self._pages: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115
        self._allocations: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115
        self._position = self._count = 0
        self._random = random.Random(seed)
        self._stream = stores.open_write(url)

    def write(self, sample: Record) -> int:
        """Write one sample."""
        values = {name: value for name, value in sample.items() if name != KEY}
        with located(key=sample.get(KEY), shard=self._url):
            if not self._fields:
                self._fields = [self._field(name, value) for name, value in values.items()]
                self._row = row_type(self._fields)
            size = self._add_to_page(self._encode(values))
        self._count += 1
        return size

    def close(self) -> None:
        """Assemble the file and publish it."""
        try:
            head = HEADER.size + len(self._fields) * DESCRIPTION.size + self._rows.tell()
            first = -(-head // self._page) * self._page
            end = first + -(-self._position // self._page) * self._page
            self._stream.write(HEADER.pack(VERSION, len(self._fields), self._page, self._count, end))
            for field in self._fields:
                self._stream.write(DESCRIPTION.pack(field.kind, field.name.encode(), field.arguments()))
            self._copy_shifted(self._rows, first)
            _fill(self._stream, first - head)
            _copy(self._pages, self._stream)
            _fill(self._stream, end - first - self._position)
            self._copy_allocations(first)
            self._stream.close()
        finally:
            self._release()

    def abort(self) -> None:
        """Discard the file."""
        self._release()
        self._stream.abort()

    def _release(self) -> None:
        for file in (self._rows, self._pages, self._allocations):
            with suppress(OSError):  # a disk that is full: what is in its buffer is not needed any more
                file.close()

    def _field(self, name: str, value: Any) -> BetonField:
        if len(name.encode()) > _LONGEST_NAME:
            raise EncodingError("a field of a beton has a name of at most 16 bytes", Where(field=name), hint="map it")
        if name in self._images if self._images is not None else _looks_like_image(name, value):
            return BetonField(name, FieldType.IMAGE)
        with located(field=name):
            return field_for(name, value)

    def _encode(self, values: Record) -> list[tuple[Any, bytes | None]]:
        """For each field, what the table stores (in addition to an address), and the bytes in the page, if any."""
        if values.keys() != {field.name for field in self._fields}:
            first = sorted(field.name for field in self._fields)
            raise EncodingError(
                f"expected the fields {first} as in the first sample, got {sorted(values)}",
                hint="a beton has no missing values: name the fields that all samples have in the mapping",
            )
        encoded = []
        for field in self._fields:
            with located(field=field.name):
                encoded.append(self._encode_field(field, values[field.name]))
        return encoded

    def _encode_field(self, field: BetonField, value: Any) -> tuple[Any, bytes | None]:
        if field.kind == FieldType.IMAGE:
            *shape, data = self._image.encode(value, self._random.random())
            return shape, data
        found = field_for(field.name, value)
        if (found.kind, found.dtype, found.shape) != (field.kind, field.dtype, field.shape):
            raise EncodingError(f"expected {field} as in the first sample, got {found}")
        if field.kind in NUMBERS:
            return _number(field, value), None
        if field.kind in SIZED:
            data = value.encode() if isinstance(value, str) and field.kind == FieldType.BYTES else value
            data = json.dumps(value).encode() + b"\0" if field.kind == FieldType.JSON else data
            return None, data
        return None, np.ascontiguousarray(value).astype(field.dtype, copy=False).tobytes()

    def _add_to_page(self, encoded: list[tuple[Any, bytes | None]]) -> int:
        """Add a sample to the current page, or to the next one if it does not fit; returns its bytes in the page."""
        size = sum(len(block) for _, block in encoded if block is not None)
        if size > self._page:
            raise EncodingError(
                f"the sample has {size} bytes, more than a page of {self._page}", hint="use a larger page_size"
            )
        free = -self._position % self._page
        if size > free and free:
            _fill(self._pages, free)
            self._position += free
        row = np.zeros(1, self._row)
        for name, field, (extra, block) in zip(self._row.names or (), self._fields, encoded, strict=True):
            if block is None:
                row[name] = extra
                continue
            row[name] = _cell(field, extra, self._position, len(block))
            self._allocations.write(np.array([self._count, self._position, len(block)], "<u8").tobytes())
            self._pages.write(block)
            self._position += len(block)
        self._rows.write(row.tobytes())
        return size

    def _copy_shifted(self, rows: IO[bytes], first: int) -> None:
        """Copy the table of samples, with addresses in the file instead of in the pages."""
        rows.seek(0)
        size = self._row.itemsize * 4096 if self._fields else 1
        while piece := rows.read(size):
            table = np.frombuffer(bytearray(piece), self._row)
            for name, field in zip(self._row.names or (), self._fields, strict=True):
                if field.kind not in NUMBERS:
                    column = table[name]["ptr"] if field.kind in SIZED | {FieldType.IMAGE} else table[name]
                    column += np.uint64(first)
            self._stream.write(table.tobytes())

    def _copy_allocations(self, first: int) -> None:
        self._allocations.seek(0)
        while piece := self._allocations.read(24 * 4096):
            table = np.frombuffer(bytearray(piece), "<u8").reshape(-1, 3)
            table[:, 1] += np.uint64(first)
            self._stream.write(table.tobytes())


def _looks_like_image(name: str, value: Any) -> bool:
    """Bytes with the extension of an image, or pixels."""
    if isinstance(value, bytes):
        return extension_of(name) in IMAGE_EXTENSIONS
    return isinstance(value, np.ndarray) and value.dtype == np.uint8 and value.ndim == 3 and value.shape[2] == 3


def _number(field: BetonField, value: Any) -> Any:
    if field.kind == FieldType.INT and not -(1 << 63) <= int(value) < 1 << 63:
        raise EncodingError(f"{value} does not fit 64 bits")
    return value


def _cell(field: BetonField, extra: Any, address: int, size: int) -> Any:
    """The entry in the table for a field whose value is in a page."""
    if field.kind == FieldType.IMAGE:
        return (*extra, address)
    return (address, size) if field.kind in SIZED else address


def _fill(target: Any, size: int) -> None:
    while size > 0:
        target.write(bytes(min(size, _PIECE)))
        size -= _PIECE


def _copy(source: IO[bytes], target: Any) -> None:
    source.seek(0)
    shutil.copyfileobj(source, target, _PIECE)
