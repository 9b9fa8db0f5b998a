"""Bytes at any offset of a stored object, for formats that are read from their end or out of order."""

from __future__ import annotations

import hashlib
import io
import os
import tempfile
from abc import abstractmethod
from typing import IO, Any

import numpy as np

from webdataset import config, stores
from webdataset.decompress import COMPRESSIONS, Unpacked
from webdataset.errors import SpecError, TruncatedShard, Where, located
from webdataset.index import SeekableRange, open_bytes
from webdataset.optional import require

from ._record_format import IndexedFile, bad_record, closing_on_error

_PIECE = 1 << 20
_NAMES = {"gz": "gzip", "bz2": "bzip2", "zstd": "zstd", "zst": "zstd"}
_COMPRESSIONS = {name: kind for name, whole in _NAMES.items() for kind in COMPRESSIONS if kind.name == whole}


class ByteRanges(stores.Closing):
    """An object of any store, read by position. Local files are read in place, and compressed ones unpacked first.

    >>> with stores.open_write("memory://ranges/a.bin") as stream:
    ...     _ = stream.write(b"hello world")
    >>> with ByteRanges("memory://ranges/a.bin") as data:
    ...     data.size, data.read(6, 5)
    (11, b'world')
    >>> ByteRanges("memory://ranges/a.bin").read(6, 9)
    Traceback (most recent call last):
    webdataset.errors.TruncatedShard: expected 9 bytes at byte 6, the file ends at byte 11 – ...

    Args:
        url: a path or an address of any scheme that can read ranges.
        compression: "gz", "bz2" or "zstd" for an object that is unpacked into a temporary file before it is read.
    """

    def __init__(self, url: str, compression: str | None = None) -> None:
        self.url = url
        self._data = open_bytes(url) if compression is None else _UnpackedBytes(url, compression)
        self.path, self.size = self._data.path, self._data.size  # the path is for libraries that open files themselves

    def read(self, start: int, length: int) -> bytes:
        """Exactly these bytes; an error if the object is shorter."""
        if start < 0 or length < 0 or start + length > self.size:
            raise TruncatedShard(
                f"expected {length} bytes at byte {start}, the file ends at byte {self.size}",
                Where(shard=self.url, offset=min(max(start, 0), self.size)),
                hint="the file is truncated, or is not what its name says: copy it again",
            )
        return self._data.read(start, length) if length else b""

    def checksum(self, algorithm: str) -> str:
        """The checksum of all bytes, in hexadecimal digits."""
        digest = _new_hash(algorithm)
        for start in range(0, self.size, _PIECE):
            digest.update(self.read(start, min(_PIECE, self.size - start)))
        return str(digest.hexdigest())

    def stream(self) -> IO[bytes]:
        """A seekable file object, for libraries that need one. Closing it closes this object."""
        return io.BufferedReader(_Stream(self), _PIECE)

    def close(self) -> None:
        """Release the file."""
        self._data.close()


class RangeFile(IndexedFile):
    """A part of a dataset that is read by position: its header when it is opened, then its records."""

    def __init__(self, url: str, compression: str | None = None) -> None:
        self._url = url
        self._data = ByteRanges(url, compression)
        with closing_on_error(self._data):
            self._read_header()

    @abstractmethod
    def _read_header(self) -> None:
        """Read what all records need."""

    def close(self) -> None:
        """Release the file."""
        self._data.close()


def read_offsets(data: ByteRanges) -> list[int]:
    """Where each record begins, and where the last one ends: their number, then the offsets, 4 bytes each.

    >>> stores.write_bytes("memory://ranges/b.bin", np.array([2, 16, 17, 19], "<u4").tobytes() + b"abb")
    >>> read_offsets(ByteRanges("memory://ranges/b.bin"))
    [16, 17, 19]
    """
    count = int.from_bytes(data.read(0, 4), "little")
    offsets: list[int] = np.frombuffer(data.read(4, 4 * (count + 1)), "<u4").tolist()
    if offsets[-1] != data.size or offsets[0] < 4 * (count + 2):
        raise bad_record(
            f"the last record ends at byte {offsets[-1]}, the file at {data.size}",
            data.url,
            offset=4 * (count + 1),
            hint="the file is truncated: copy it again",
        )
    return offsets


class _Stream(SeekableRange):
    """All bytes as a file; closing it closes the object that it reads."""

    def __init__(self, data: ByteRanges) -> None:
        super().__init__(data, 0, data.size)
        self._data = data

    def close(self) -> None:
        self._data.close()
        super().close()


class _UnpackedBytes:
    """A compressed object, unpacked into a temporary file."""

    path = None

    def __init__(self, url: str, compression: str) -> None:
        kind = _COMPRESSIONS.get(compression.partition(":")[0])  # the level follows the colon
        if kind is None:
            raise SpecError(f"the compression {compression!r} is not known", hint="gz, bz2 and zstd can be read")
        with stores.system_errors(tempfile.gettempdir()), located(shard=url), stores.open_read(url) as stream:
            self._file = tempfile.TemporaryFile()  # noqa: SIM115 - closed in close()
            try:
                unpacked = Unpacked(stream, kind, limit=config.read("WDS_DECOMPRESS_LIMIT"))
                while piece := unpacked.read(_PIECE):
                    self._file.write(piece)
                self._file.flush()
                self.size = self._file.tell()
            except BaseException:
                self.close()
                raise

    def read(self, start: int, length: int) -> bytes:
        descriptor = self._file.fileno()
        with stores.system_errors(tempfile.gettempdir()):
            data = os.pread(descriptor, length, start)
            while len(data) < length:  # Linux reads at most 2 GB at once
                data += os.pread(descriptor, length - len(data), start + len(data))
        return data

    def close(self) -> None:
        self._file.close()


def _new_hash(algorithm: str) -> Any:
    if algorithm in hashlib.algorithms_available:
        return hashlib.new(algorithm, usedforsecurity=False)
    xxhash = require("xxhash", extra="mds", why=f"to check {algorithm!r} checksums")
    kinds = {"xxh32": xxhash.xxh32, "xxh64": xxhash.xxh64, "xxh128": xxhash.xxh128, "xxh3_64": xxhash.xxh3_64}
    if algorithm not in kinds:
        raise SpecError(f"the checksum {algorithm!r} is not known", hint="pass check=False to read without checking")
    return kinds[algorithm]()
