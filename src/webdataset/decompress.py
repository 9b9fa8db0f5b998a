"""Compressed archives: recognised by their first bytes, decompressed as a stream, their trailers verified.

Every format may be several compressed streams one after the other (`cat a.gz b.gz`, pigz, pzstd). A stream that does
not reach its own end, or whose check value is wrong, is an error: otherwise a truncated `.tar.gz` could not be noticed.
"""

from __future__ import annotations

import bz2
import lzma
import zlib
from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple

from webdataset.errors import BadHeader, FormatError, MissingDependency, TruncatedShard, Where

if TYPE_CHECKING:
    from webdataset.tar import Readable

# Bytes read from the compressed stream at a time: 64 kB is within 2 % of the best for gzip.
_PIECE = 1 << 16
# How large a member of a compressed archive may be, unless the caller says otherwise.
DECOMPRESS_LIMIT = 1 << 30
# A shard may decompress to any size as long as it is not suspicious: gzip reaches 1,032 bytes for one at most.
_MOST_PER_BYTE = 1100
# xz keeps what it decompressed in a dictionary of up to 4 GB, `xz -9` 64 MB; zstd takes no more than 128 MB by itself.
_XZ_MEMORY = 1 << 28


class _Unpacker:
    """Unpacks one compressed stream by an object of bz2, lzma or zstd, which buffers what it may not return yet.

    `theirs.eof` is true when the end mark of the stream was found and verified; `theirs.unused_data` is what follows.
    """

    def __init__(self, theirs: Any, piece: int = 4 * _PIECE) -> None:
        self.theirs, self._piece = theirs, piece

    def unpack(self, data: bytes) -> bytes:
        """Return what these bytes decompress to, or a part of it; call again without bytes for the next part."""
        return bytes(self.theirs.decompress(data, self._piece))


class _ZlibUnpacker(_Unpacker):
    """The same for an object of zlib, which returns the compressed bytes that it has not used yet."""

    def __init__(self, wbits: int) -> None:
        super().__init__(zlib.decompressobj(wbits))

    def unpack(self, data: bytes) -> bytes:
        return super().unpack(self.theirs.unconsumed_tail + data)


class Compression(NamedTuple):
    """A way to pack an archive: its name, how it starts, and how to unpack one stream of it."""

    name: str
    magic: tuple[bytes, ...]
    unpacker: Callable[[], _Unpacker]


def load_zstd(why: str) -> Any:
    """Return the module for zstd: that of the standard library from Python 3.14 on, else `backports.zstd`.

    >>> load_zstd("to read '.zst' archives").decompress(load_zstd("to write").compress(b"hello"))
    b'hello'
    """
    for name in ("compression.zstd", "backports.zstd"):
        try:
            return import_module(name)
        except ImportError:
            continue
    raise MissingDependency("backports.zstd", extra="compression", why=why)


def _zstd_unpacker() -> _Unpacker:
    # It allocates as much as it may return, so a small limit is faster: 1 MB takes 1.0 ms with 64 kB, 1.6 ms with 256.
    return _Unpacker(load_zstd("to read '.zst' archives").ZstdDecompressor(), _PIECE)


# "BZh" alone could be a name. What follows it is π or, in an empty stream, √π.
_BZIP2 = tuple(b"BZh%d%s" % (level, root) for level in range(1, 10) for root in (b"1AY&SY", b"\x17rE8P\x90"))
_ZSTD = (b"\x28\xb5\x2f\xfd", *(bytes([kind]) + b"\x2a\x4d\x18" for kind in range(0x50, 0x60)))

COMPRESSIONS = (
    Compression("gzip", (b"\x1f\x8b\x08",), lambda: _ZlibUnpacker(31)),
    Compression("bzip2", _BZIP2, lambda: _Unpacker(bz2.BZ2Decompressor())),
    Compression("xz", (b"\xfd7zXZ\0",), lambda: _Unpacker(lzma.LZMADecompressor(lzma.FORMAT_XZ, _XZ_MEMORY))),
    Compression("zstd", _ZSTD, _zstd_unpacker),
)
# Not in COMPRESSIONS: two bytes are not enough to recognise an archive by.
ZLIB = Compression("zlib", tuple(bytes((0x78, flags)) for flags in range(1, 256, 31)), lambda: _ZlibUnpacker(15))


def too_large(what: str, where: Where | None = None) -> FormatError:
    """The error for what exceeds the limit.

    >>> print(too_large("10 bytes decompress to more than 1,073,741,824", Where(offset=10)))
    10 bytes decompress to more than 1,073,741,824 – byte 10 – raise WDS_DECOMPRESS_LIMIT if you trust the data
    """
    return FormatError(what, where, hint="raise WDS_DECOMPRESS_LIMIT if you trust the data")


def is_bomb(packed: int, unpacked: int, limit: int) -> bool:
    """Whether data is larger than allowed, and much larger than what it was made of.

    >>> is_bomb(1000, 5000, 2000), is_bomb(1, 5000, 2000)
    (False, True)
    """
    return unpacked > limit and unpacked > _MOST_PER_BYTE * packed


def find_compression(head: bytes) -> Compression | None:
    """The compression of an archive that starts like this, or None for a plain one.

    >>> import gzip
    >>> find_compression(gzip.compress(b"")).name
    'gzip'
    >>> find_compression(b"a.txt") is None
    True
    """
    return next((kind for kind in COMPRESSIONS if head.startswith(kind.magic)), None)


def is_packed(url: str) -> bool:
    """Whether an archive is compressed, by its name: then it can be read from its beginning only.

    >>> is_packed("a.tar.GZ"), is_packed("a.tar")
    (True, False)
    """
    return url.lower().endswith((".gz", ".tgz", ".bz2", ".xz", ".zst"))


class Unpacked:
    """A stream around a compressed stream.

    >>> import gzip, io
    >>> packed = gzip.compress(b"hello ") + gzip.compress(b"world")
    >>> Unpacked(io.BytesIO(packed), find_compression(packed)).read(100)
    b'hello world'

    Args:
        stream: the compressed bytes.
        kind: how they are compressed.
        limit: bytes that may come out, however few go in; beyond them the ratio must not be suspicious.
    """

    def __init__(self, stream: Readable, kind: Compression, *, limit: int = DECOMPRESS_LIMIT) -> None:
        self._read = stream.read
        self._kind = kind
        self._packed = b""  # compressed bytes that were read and not unpacked yet
        self._taken = 0  # compressed bytes that were read
        self._given = 0  # bytes decompressed
        self._limit = limit
        self._ready = memoryview(b"")  # decompressed, not yielded yet
        self._unpacker: _Unpacker | None = kind.unpacker()
        self._failure: Exception | None = None

    def read(self, size: int, /) -> bytes:
        """Exactly `size` bytes; fewer before a failure, which the next call raises; none only at the verified end."""
        pieces, missing = [], size
        try:
            while missing and (piece := self._next(missing)):
                pieces.append(piece)
                missing -= len(piece)
        except Exception:
            if not pieces:
                raise
        return b"".join(pieces)

    def readinto(self, view: memoryview, /) -> int:
        """Some bytes into memory of the caller, without a copy in between; how many, 0 only at the verified end."""
        piece = self._next(len(view))
        view[: len(piece)] = piece
        return len(piece)

    def _next(self, most: int) -> memoryview:
        """The next bytes, no more than `most`. A failure is raised when the bytes before it are used up, and again."""
        if self._failure is not None:
            raise self._failure
        try:
            while not self._ready and self._unpacker is not None:
                self._ready = memoryview(self._step(self._unpacker))
        except Exception as error:
            self._failure = error
            raise
        piece, self._ready = self._ready[:most], self._ready[most:]
        return piece

    def _step(self, unpacker: _Unpacker) -> bytes:
        if unpacker.theirs.eof:
            self._next_stream(unpacker.theirs.unused_data)
            return b""
        if not self._packed:
            # First without new bytes: the unpacker may have buffered more than it was allowed to return.
            piece = self._unpack(unpacker, b"")
            if piece or unpacker.theirs.eof:
                return piece
            self._packed = self._read(_PIECE) or b""
            self._taken += len(self._packed)
            if not self._packed:
                raise TruncatedShard(
                    f"the {self._kind.name} stream is truncated",
                    Where(offset=self._taken),
                    hint="the shard is truncated; fetch or write it again",
                )
        packed, self._packed = self._packed, b""
        return self._unpack(unpacker, packed)

    def _unpack(self, unpacker: _Unpacker, packed: bytes) -> bytes:
        try:
            piece = unpacker.unpack(packed)
        except Exception as error:  # each library has its own kind: zlib.error, OSError, LZMAError, ZstdError
            raise self._damaged(f"the {self._kind.name} stream is damaged ({error})") from error

        self._given += len(piece)
        if is_bomb(self._taken, self._given, self._limit):
            raise too_large(
                f"{self._taken:,} bytes of {self._kind.name} decompress to more than {self._given - 1:,}",
                Where(offset=self._taken),
            )
        return piece

    def _next_stream(self, rest: bytes) -> None:
        """After the end of one compressed stream: another one, nothing, or garbage. NULs may pad (tapes, xz)."""
        self._packed = rest.lstrip(b"\0")
        while len(self._packed) < 10 and (more := self._read(_PIECE)):
            self._taken += len(more)
            self._packed = (self._packed + more).lstrip(b"\0")
        if not self._packed:
            self._unpacker = None
        elif self._packed.startswith(self._kind.magic):
            self._unpacker = self._kind.unpacker()
        else:
            raise self._damaged(f"garbage follows the {self._kind.name} stream")

    def _damaged(self, what: str) -> BadHeader:
        return BadHeader(what, Where(offset=self._taken), hint="the shard is damaged; fetch or write it again")
