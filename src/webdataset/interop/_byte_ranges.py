"""Bytes at any place of a stored object, for formats that are read from their end or out of order."""

from __future__ import annotations

import hashlib
import io
import os
import tempfile
from abc import abstractmethod
from pathlib import Path
from typing import IO, Any, Self

from webdataset import config, stores
from webdataset.decompress import COMPRESSIONS, Unpacked
from webdataset.errors import SpecError, StoreError, TruncatedShard, Where, located
from webdataset.optional import require

from ._record_format import IndexedFile

_PIECE = 1 << 20
_NAMES = {"gz": "gzip", "bz2": "bzip2", "zstd": "zstd", "zst": "zstd"}
_COMPRESSIONS = {name: kind for name, whole in _NAMES.items() for kind in COMPRESSIONS if kind.name == whole}


class ByteRanges:
    """An object of any store, read by position. Local files are read in place, and compressed ones unpacked first.

    >>> with stores.open_write("memory://ranges/a.bin") as stream:
    ...     _ = stream.write(b"hello world")
    >>> with ByteRanges("memory://ranges/a.bin") as data:
    ...     data.size, data.read(6, 5)
    (11, b'world')
    >>> ByteRanges("memory://ranges/a.bin").read(6, 9)
    Traceback (most recent call last):
    webdataset.errors.TruncatedShard: 9 bytes are expected at byte 6, and the file ends at byte 11 – ...

    Args:
        url: a path or an address of any scheme that can read ranges.
        compression: "gz", "bz2" or "zstd" for an object that is unpacked into a temporary file before it is read.
    """

    def __init__(self, url: str, compression: str | None = None) -> None:
        self.url = url
        self._file: IO[bytes] | None = None
        self.path = stores.is_local(url) if compression is None else None  # for libraries that open files themselves
        if compression is not None:
            self._file = _unpacked(url, compression)
        elif self.path is not None:
            stores.open_read(url).close()  # a missing file is the store's error, with its words
            with stores.system_errors(url):
                self._file = Path(self.path).open("rb")  # noqa: SIM115 - closed in close()
        self.size = self._find_size()

    def read(self, start: int, length: int) -> bytes:
        """Exactly these bytes; an error if the object is shorter."""
        if start < 0 or length < 0 or start + length > self.size:
            raise TruncatedShard(
                f"{length} bytes are expected at byte {start}, and the file ends at byte {self.size}",
                Where(shard=self.url, offset=min(max(start, 0), self.size)),
                hint="the file was cut, or is not what its name says: copy it again",
            )
        if self._file is None:
            return stores.read_range(self.url, start, length) if length else b""
        with stores.system_errors(self.url):
            data = os.pread(self._file.fileno(), length, start)
            while len(data) < length:  # one system call reads at most 2 GiB
                more = os.pread(self._file.fileno(), length - len(data), start + len(data))
                if not more:
                    raise TruncatedShard("the file became shorter", Where(shard=self.url, offset=start + len(data)))
                data += more
        return data

    def checksum(self, algorithm: str) -> str:
        """The checksum of all bytes, in hexadecimal digits."""
        digest = _new_hash(algorithm)
        for start in range(0, self.size, _PIECE):
            digest.update(self.read(start, min(_PIECE, self.size - start)))
        return str(digest.hexdigest())

    def stream(self) -> IO[bytes]:
        """A seekable file object, for libraries that want one. It closes this object when it is closed."""
        return io.BufferedReader(_Seekable(self), _PIECE)

    def close(self) -> None:
        """Release the file."""
        if self._file is not None:
            self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _find_size(self) -> int:
        if self._file is not None:
            try:
                with stores.system_errors(self.url):
                    return os.fstat(self._file.fileno()).st_size
            except BaseException:
                self.close()
                raise
        size = stores.stat(self.url).size
        if size is None:
            raise StoreError(
                "the size of this object is not known, so it cannot be read out of order",
                Where(shard=self.url),
                hint="copy it to a file first",
            )
        return size


class RangeFile(IndexedFile):
    """A part of a dataset that is read by position: its header when it is opened, then its records."""

    def __init__(self, url: str, compression: str | None = None) -> None:
        self._url = url
        self._data = ByteRanges(url, compression)
        try:
            self._read_header()
        except BaseException:
            self._data.close()
            raise

    @abstractmethod
    def _read_header(self) -> None:
        """Read what all records need."""

    def close(self) -> None:
        """Release the file."""
        self._data.close()


class _Seekable(io.RawIOBase):
    def __init__(self, data: ByteRanges) -> None:
        self._data = data
        self._position = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        self._position = offset + {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._data.size}[whence]
        return self._position

    def readinto(self, buffer: Any, /) -> int:
        length = max(0, min(len(buffer), self._data.size - self._position))
        buffer[:length] = self._data.read(self._position, length) if length else b""
        self._position += length
        return length

    def close(self) -> None:
        self._data.close()
        super().close()


def _unpacked(url: str, compression: str) -> IO[bytes]:
    kind = _COMPRESSIONS.get(compression.partition(":")[0])  # after it comes the level
    if kind is None:
        raise SpecError(f"the compression {compression!r} is not known", hint="gz, bz2 and zstd can be read")
    with stores.system_errors(tempfile.gettempdir()), located(shard=url), stores.open_read(url) as stream:
        target = tempfile.TemporaryFile()  # noqa: SIM115 - closed by `ByteRanges`
        try:
            unpacked = Unpacked(stream, kind, limit=config.read("WDS_DECOMPRESS_LIMIT"))
            while piece := unpacked.read(_PIECE):
                target.write(piece)
            target.flush()
        except BaseException:
            target.close()
            raise
    return target


def _new_hash(algorithm: str) -> Any:
    if algorithm in hashlib.algorithms_available:
        return hashlib.new(algorithm, usedforsecurity=False)
    xxhash = require("xxhash", extra="mds", why=f"to check {algorithm!r} checksums")
    kinds = {"xxh32": xxhash.xxh32, "xxh64": xxhash.xxh64, "xxh128": xxhash.xxh128, "xxh3_64": xxhash.xxh3_64}
    if algorithm not in kinds:
        raise SpecError(f"the checksum {algorithm!r} is not known", hint="pass check=False to read without checking")
    return kinds[algorithm]()
