"""`.npz` archives of arrays with one row per sample; `.npy` files too.

Rows are read one after another, so that an archive may be larger than the memory.
"""

from __future__ import annotations

import math
import zipfile
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from webdataset.codecs import check_size, open_member, read_npy_header
from webdataset.errors import FormatError, TruncatedShard, UnsafeContent, Where, located

from ._byte_ranges import ByteRanges
from ._record_format import (
    Format,
    Part,
    Record,
    RecordFile,
    Schema,
    bad_record,
    check_equal_rows,
    damage_of,
    recognized,
)

_MOST_PER_BYTE = 1100  # of deflate, which is how arrays are packed


@dataclass(frozen=True)
class Npz(Format):
    """Archives of arrays whose first dimension counts the samples; each array is a field."""

    name: ClassVar[str] = "npz"
    suffixes: ClassVar[tuple[str, ...]] = (".npz", ".npy")

    def open(self, part: Part) -> RecordFile:
        """Open one archive."""
        return _NpzFile(part.url)


class _Array:
    """The header of an array, and its rows, read from a stream."""

    def __init__(self, name: str, stream: Any, url: str, most: int) -> None:
        self.name, self._stream, self._url = name, stream, url
        try:
            self.shape, fortran, self.dtype = read_npy_header(stream)
        except FormatError as error:
            raise FormatError(f"the array {name}: {error.what}", Where(shard=url), hint=error.hint) from error
        if self.dtype.hasobject:
            raise UnsafeContent(f"the array {name} holds pickled objects", Where(shard=url), hint="save numbers only")
        if not self.shape or (fortran and len(self.shape) > 1):
            order = "has no rows" if not self.shape else "is stored by columns"
            raise FormatError(
                f"the array {name} {order}", Where(shard=url), hint="save it with order='C', a row per sample"
            )
        self._size = self.dtype.itemsize * math.prod(self.shape[1:])
        with located(shard=url):
            check_size(self._size)
        if self.shape[0] * max(1, self._size) > most:
            raise TruncatedShard(
                f"the array {name} claims {self.shape[0]:,} rows of {self._size:,} bytes, and there are {most:,} bytes",
                Where(shard=url),
                hint="copy it again",
            )

    def rows(self, start: int) -> Iterator[Any]:
        with damage_of(f"the array {self.name}", self._url):
            left = start * self._size
            while left and (piece := self._stream.read(min(left, 1 << 20))):
                left -= len(piece)
        for number in range(start, self.shape[0]):
            with damage_of(f"the array {self.name}", self._url, number):
                data = self._stream.read(self._size)
                if len(data) != self._size:
                    raise bad_record(f"the array {self.name} ends here", self._url, number)
                row = np.frombuffer(data, self.dtype).reshape(self.shape[1:])
            yield row[()] if len(self.shape) == 1 else row


class _NpzFile(RecordFile):
    def __init__(self, url: str) -> None:
        self._url = url
        self._data = ByteRanges(url)
        self._stream = self._data.stream()
        with recognized(self._stream, url, "an npz archive"):
            self._zip = None if self._stream.read(6) == b"\x93NUMPY" else zipfile.ZipFile(self._stream)
            with ExitStack() as opened:
                arrays = self._arrays(opened)
            self._shapes = {array.name: (array.shape, array.dtype) for array in arrays}
            check_equal_rows({name: shape[0] for name, (shape, _) in self._shapes.items()}, url, "one row per sample")

    def _arrays(self, opened: ExitStack) -> list[_Array]:
        if self._zip is None:
            self._stream.seek(0)
            return [_Array("npy", self._stream, self._url, self._data.size)]
        infos = [info for info in self._zip.infolist() if info.filename.endswith(".npy")]
        with located(shard=self._url):
            streams = [opened.enter_context(open_member(self._zip, info)) for info in infos]
        return [
            _Array(info.filename.removesuffix(".npy"), stream, self._url, _largest_size(info))
            for info, stream in zip(infos, streams, strict=True)
        ]

    @property
    def schema(self) -> Schema:
        return {name: f"{dtype}{list(shape[1:])}" for name, (shape, dtype) in self._shapes.items()}

    def __len__(self) -> int:
        return int(next(iter(self._shapes.values()))[0][0])

    def records(self, start: int = 0) -> Iterator[Record]:
        with ExitStack() as opened:
            arrays = self._arrays(opened)
            for row in zip(*(array.rows(start) for array in arrays), strict=True):
                yield dict(zip(self._shapes, row, strict=True))

    def close(self) -> None:
        if self._zip is not None:
            self._zip.close()
        self._stream.close()


def _largest_size(info: zipfile.ZipInfo) -> int:
    """The most bytes that a member can have: the smaller of what it claims and what deflate can unpack to."""
    return min(info.file_size, (info.compress_size + 1) * _MOST_PER_BYTE)
