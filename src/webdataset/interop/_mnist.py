"""MNIST's idx files: `train-images-idx3-ubyte` and `train-labels-idx1-ubyte`, also compressed with gzip.

An idx file is two zero bytes, a type, the number of dimensions, the dimensions (4 bytes each, big-endian), the values.
"""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass
from typing import Any, ClassVar, Final

import numpy as np

from webdataset.errors import FormatError, Where

from ._byte_ranges import ByteRanges
from ._record_format import Format, IndexedFile, Part, Record, RecordFile, closing_on_error, training_parts

_TYPES: Final = {8: ">u1", 9: ">i1", 11: ">i2", 12: ">i4", 13: ">f4", 14: ">f8"}


@dataclass(frozen=True)
class MNIST(Format):
    """A file of images, with the file of labels of the same name beside it, or a directory with such files.

    A record has the pixels as `image` and the class as `label`.
    """

    name: ClassVar[str] = "mnist"
    suffixes: ClassVar[tuple[str, ...]] = ("-ubyte", "-ubyte.gz")

    def parts(self, source: Any) -> list[Part]:
        """The files of images; of a directory those for training."""
        return training_parts(source, lambda url: "images" in url.rpartition("/")[2], "t10k")

    def open(self, part: Part) -> RecordFile:
        """Open a file of images and its labels."""
        return _Pair(part.url)


class _Pair(IndexedFile):
    def __init__(self, url: str) -> None:
        self._url = url
        self._images = _IdxFile(url)
        self._labels: _IdxFile | None = None
        with closing_on_error(self):
            folder, slash, base = url.rpartition("/")
            name = base.replace("images", "labels").replace("idx3", "idx1")
            self._labels = _IdxFile(f"{folder}{slash}{name}") if name != base else None
            if self._labels is not None and len(self._labels) != len(self._images):
                what = f"there are {len(self._images)} images and {len(self._labels)} labels"
                raise FormatError(what, Where(shard=url))

    def __len__(self) -> int:
        return len(self._images)

    def record(self, number: int) -> Record:
        record: Record = {"image": self._images.row(number)}
        if self._labels is not None:
            record["label"] = int(self._labels.row(number))
        return record

    def close(self) -> None:
        self._images.close()
        if self._labels is not None:
            self._labels.close()


class _IdxFile:
    def __init__(self, url: str) -> None:
        self._data = ByteRanges(url, "gz" if url.endswith(".gz") else None)
        with closing_on_error(self._data):
            zeros, kind, dimensions = struct.unpack(">HBB", self._data.read(0, 4))
            if zeros or kind not in _TYPES or not dimensions:
                raise FormatError("not an idx file", Where(shard=url, offset=0), hint="it begins with 00 00")
            self.shape = struct.unpack(f">{dimensions}I", self._data.read(4, 4 * dimensions))
            self._dtype = np.dtype(_TYPES[kind])
            self._start = 4 + 4 * dimensions
            self._size = self._dtype.itemsize * math.prod(self.shape[1:])
            expected = self._start + self._size * self.shape[0]
            if not self._size:  # any number of them would fit
                raise FormatError(f"items of shape {list(self.shape[1:])} have no bytes", Where(shard=url, offset=4))
            if self._data.size != expected:
                raise FormatError(
                    f"expected {expected} bytes, got {self._data.size}",
                    Where(shard=url, offset=min(expected, self._data.size)),
                    hint="copy it again",
                )

    def __len__(self) -> int:
        return int(self.shape[0])

    def row(self, number: int) -> Any:
        """One item along the first dimension."""
        data = np.frombuffer(self._data.read(self._start + number * self._size, self._size), self._dtype)
        return data.reshape(self.shape[1:]).astype(self._dtype.newbyteorder("="), copy=False)

    def close(self) -> None:
        self._data.close()
