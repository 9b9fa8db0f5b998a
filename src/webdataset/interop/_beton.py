"""FFCV's `.beton`, version 2.

    header       version (2 bytes), fields (2), page size (4), samples (8), address of the allocation table (8)
    fields       type (1), name (16), arguments (1024), for each field
    samples      a table with one row per sample, aligned as a C struct (`_beton_fields`)
    pages        from the next multiple of the page size on; the data of one sample are in one page
    allocations  (sample, address, size), 8 bytes each, to the end of the file

All numbers are little-endian.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from webdataset.errors import FormatError, Where

from ._beton_fields import (
    DESCRIPTION,
    HEADER,
    JPEG,
    NUMBERS,
    RAW,
    SIZED,
    VERSION,
    BetonField,
    FieldType,
    ImageOptions,
    parse_field,
    row_type,
)
from ._byte_ranges import RangeFile
from ._record_format import Format, Part, Record, RecordFile, RecordSink, Schema, raise_undecodable

_ROWS = 4096  # rows of the table that are read at once


@dataclass(frozen=True)
class Beton(Format):
    """FFCV files. Images stored as JPEG are read as its bytes, others as arrays of pixels.

    Attributes:
        page_size: of the file that is written; a sample must fit a page.
        images: names of the fields that are written as images; by default those with the extension of an image.
        image: how images are stored.
        seed: decides which images "proportion" stores as JPEG.
    """

    page_size: int = 1 << 23
    images: tuple[str, ...] | None = None
    image: ImageOptions = field(default_factory=ImageOptions)
    seed: int = 0

    name: ClassVar[str] = "beton"
    suffixes: ClassVar[tuple[str, ...]] = (".beton",)

    def open(self, part: Part) -> RecordFile:
        """Open one file."""
        return _BetonFile(part.url)

    def create(self, url: str) -> RecordSink:
        """Begin to write one file."""
        from ._beton_writer import BetonSink

        return BetonSink(url, self.page_size, self.images, self.image, self.seed)


class _BetonFile(RangeFile):
    def _read_header(self) -> None:
        version, count, self._page, self._count, table = HEADER.unpack(self._data.read(0, HEADER.size))
        if version != VERSION:
            raise FormatError(
                f"expected version {VERSION} of the format, got {version}",
                Where(shard=self._url, offset=0),
                hint="write it again with FFCV 1.0, or it is not a .beton",
            )
        self._fields = []
        for number in range(count):
            offset = HEADER.size + number * DESCRIPTION.size
            kind, name, arguments = DESCRIPTION.unpack(self._data.read(offset, DESCRIPTION.size))
            try:
                self._fields.append(parse_field(str(name.rstrip(b"\0"), "utf-8", "replace"), kind, arguments))
            except FormatError as error:
                raise FormatError(error.what, Where(shard=self._url, offset=offset), hint=error.hint) from error
        self._row = row_type(self._fields)
        self._rows_at = HEADER.size + count * DESCRIPTION.size
        if not self._rows_at <= table <= self._data.size or (self._data.size - table) % 24:
            raise FormatError(
                f"the header puts the allocation table at byte {table} of {self._data.size}",
                Where(shard=self._url, offset=16),
                hint="the file is truncated, or was not completed",
            )
        if self._rows_at + self._count * self._row.itemsize > table:
            raise FormatError(f"the file has no space for {self._count} samples", Where(shard=self._url, offset=8))
        self._addresses, self._lengths = self._allocations(table)

    def _allocations(self, table: int) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
        """(addresses, sizes) of the data in the pages; the table of samples has no length for a JPEG."""
        if not any(beton_field.kind == FieldType.IMAGE for beton_field in self._fields):
            return np.zeros(0, np.uint64), np.zeros(0, np.uint64)
        raw = np.frombuffer(self._data.read(table, self._data.size - table), "<u8").reshape(-1, 3)
        order = np.argsort(raw[:, 1], kind="stable")
        return np.ascontiguousarray(raw[order, 1]), np.ascontiguousarray(raw[order, 2])

    @property
    def schema(self) -> Schema:
        return {beton_field.name: str(beton_field) for beton_field in self._fields}

    def __len__(self) -> int:
        return int(self._count)

    def records(self, start: int = 0) -> Iterator[Record]:
        for first in range(start, len(self), _ROWS):
            for number, row in enumerate(self._rows(first, min(_ROWS, len(self) - first)), first):
                yield self._record(number, row)

    def record(self, number: int) -> Record:
        return self._record(number, self._rows(number, 1)[0])

    def _rows(self, first: int, count: int) -> np.ndarray[Any, Any]:
        size = self._row.itemsize
        return np.frombuffer(self._data.read(self._rows_at + first * size, count * size), self._row)

    def _record(self, number: int, row: Any) -> Record:
        record: Record = {}
        for beton_field, cell in zip(self._fields, row, strict=True):
            try:
                record[beton_field.name] = self._value(beton_field, cell)
            except Exception as error:  # any decoder, on any bytes
                offset = self._rows_at + number * self._row.itemsize
                raise_undecodable(error, f"field {beton_field.name}", self._url, number, offset)
        return record

    def _value(self, beton_field: BetonField, cell: Any) -> Any:
        if beton_field.kind in NUMBERS:
            return cell.item()
        if beton_field.kind in SIZED:
            data = self._data.read(int(cell["ptr"]), int(cell["size"]))
            return data if beton_field.kind == FieldType.BYTES else json.loads(data.rstrip(b"\0"))
        if beton_field.kind == FieldType.IMAGE:
            return self._image(cell)
        assert beton_field.dtype is not None
        return np.frombuffer(self._data.read(int(cell), beton_field.nbytes), beton_field.dtype).reshape(
            beton_field.shape
        )

    def _image(self, cell: Any) -> Any:
        width, height, offset = int(cell["width"]), int(cell["height"]), int(cell["ptr"])
        if cell["mode"] == RAW:
            return np.frombuffer(self._data.read(offset, 3 * width * height), np.uint8).reshape(height, width, 3)
        if cell["mode"] != JPEG:
            raise FormatError(f"the image mode {cell['mode']} is not known")
        number = int(np.searchsorted(self._addresses, offset))
        if number == len(self._addresses) or self._addresses[number] != offset:
            raise FormatError(f"nothing is allocated at byte {offset}")
        return self._data.read(offset, int(self._lengths[number]))
