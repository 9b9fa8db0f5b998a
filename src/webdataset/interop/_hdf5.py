"""HDF5 files: datasets with one row per sample, at any depth."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

from webdataset import config
from webdataset.codecs import check_size
from webdataset.errors import FormatError, UnsafeContent, Where, located
from webdataset.optional import require

from ._byte_ranges import ByteRanges
from ._record_format import (
    Format,
    Part,
    Record,
    RecordFile,
    Schema,
    check_equal_rows,
    closing_on_error,
    damage_of,
    recognized,
)

_AT_A_TIME = 4 << 20
_MOST_ROWS = 1024


@dataclass(frozen=True)
class HDF5(Format):
    """HDF5 files. A field is a dataset, named by its path; all must have equally many rows.

    Attributes:
        datasets: read only these; None reads all.
    """

    datasets: tuple[str, ...] | None = None

    name: ClassVar[str] = "hdf5"
    suffixes: ClassVar[tuple[str, ...]] = (".h5", ".hdf5")

    def open(self, part: Part) -> RecordFile:
        """Open one file."""
        return _HDF5File(part.url, self.datasets)


class _HDF5File(RecordFile):
    def __init__(self, url: str, wanted: tuple[str, ...] | None) -> None:
        h5py = require("h5py", extra="hdf5", why="to read HDF5")
        self._url = url
        data = ByteRanges(url)
        self._size, self._stream = data.size, data.stream()
        with recognized(self._stream, url, "an HDF5 file"):
            self._file = h5py.File(self._stream, "r")
        with closing_on_error(self), damage_of("the file", url):
            self._datasets = self._find(wanted, h5py)
            self._text = {name for name, data in self._datasets.items() if h5py.check_string_dtype(data.dtype)}

    def _find(self, wanted: tuple[str, ...] | None, h5py: Any) -> dict[str, Any]:
        found: dict[str, Any] = {}
        self._file.visititems(lambda name, item: found.update({name: item} if isinstance(item, h5py.Dataset) else {}))
        missing = sorted(set(wanted or ()) - set(found))
        if missing:
            raise FormatError(
                f"there is no dataset {missing[0]!r}", Where(shard=self._url), hint=f"known: {sorted(found)}"
            )
        chosen = {name: data for name, data in found.items() if wanted is None or name in wanted}
        for name, data in chosen.items():
            if data.external or data.is_virtual:
                raise UnsafeContent(
                    f"the dataset {name!r} is stored in another file, which the author of this one chose",
                    Where(shard=self._url),
                    hint="if you trust it, copy it into one file: h5repack",
                )
            with located(shard=self._url, field=name):
                # Reading one row unpacks the whole compressed chunk with that row and others.
                check_size(data.dtype.itemsize * max(math.prod(data.shape[1:]), math.prod(data.chunks or ())))
        lengths = {name: data.shape[0] if data.shape else None for name, data in chosen.items()}
        check_equal_rows(lengths, self._url, "name those that have one row per sample: HDF5(datasets=(...))")
        return chosen

    @property
    def schema(self) -> Schema:
        return {name: f"{data.dtype}{list(data.shape[1:])}" for name, data in self._datasets.items()}

    def __len__(self) -> int:
        return int(next(iter(self._datasets.values())).shape[0])

    def records(self, start: int = 0) -> Iterator[Record]:
        size = sum(data.dtype.itemsize * math.prod(data.shape[1:]) for data in self._datasets.values())
        step = max(1, min(_MOST_ROWS, _AT_A_TIME // max(1, size), self._most_rows()))
        for first in range(start, len(self), step):
            columns = [self._rows(name, first, step) for name in self._datasets]
            for row in zip(*columns, strict=True):
                yield dict(zip(self._datasets, row, strict=True))

    def _most_rows(self) -> int:
        """How many rows the limit allows if every text or list of a row is as large as the file: it may be."""
        places = [math.prod(data.shape[1:]) for data in self._datasets.values() if data.dtype.hasobject]
        if not places:
            return _MOST_ROWS
        return int(config.read("WDS_DECOMPRESS_LIMIT") // max(1, sum(places) * self._size))

    def _rows(self, name: str, first: int, count: int) -> list[Any]:
        data = self._datasets[name].asstr() if name in self._text else self._datasets[name]
        with damage_of(f"the dataset {name}", self._url, first):
            rows = data[first : first + count]
        if rows.dtype.kind == "V" and rows.dtype.names is None:
            return [row.tobytes() for row in rows]
        return rows.tolist() if name in self._text else list(rows)

    def close(self) -> None:
        self._file.close()
        self._stream.close()
