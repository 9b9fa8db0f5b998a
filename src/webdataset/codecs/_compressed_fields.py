"""Compressed members: `txt.gz` and `json.zst`, unpacked up to a limit so that a bomb cannot fill the memory."""

from __future__ import annotations

import gzip
import zlib
from typing import TYPE_CHECKING

from webdataset import config
from webdataset.errors import FormatError

from ._require import require

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

# zstd repeats a byte 128 KiB times for 3 bytes of input, so the input is fed in pieces that can overshoot the limit by
# 43 MB at most; at 1 KiB the calls cost 2 % on text.
_ZSTD_PIECE = 1024
_GZIP = 31  # zlib's window size plus 16: a gzip header and trailer, checksum verified


def gunzip(data: bytes, limit: int | None = None) -> bytes:
    """Unpack gzip, all members of it.

    >>> gunzip(pack_gz(b"hello"))
    b'hello'

    Args:
        data: the compressed bytes.
        limit: largest accepted result in bytes; None means the environment variable `WDS_DECOMPRESS_LIMIT`.
    """
    limit = config.read("WDS_DECOMPRESS_LIMIT") if limit is None else limit
    return _collect(_gzip_members(data, limit), limit)


def _gzip_members(data: bytes, limit: int) -> Iterator[bytes]:
    while True:
        unpacker = zlib.decompressobj(_GZIP)
        yield unpacker.decompress(data, limit + 1)
        if not unpacker.eof and not unpacker.unconsumed_tail:
            raise EOFError("the gzip data ends before its end")
        data = unpacker.unused_data.lstrip(b"\0")
        if not data:
            return


def unzstd(data: bytes, limit: int | None = None) -> bytes:
    """Unpack Zstandard, all frames of it.

    >>> unzstd(pack_zst(b"hello"))
    b'hello'

    Args:
        data: the compressed bytes.
        limit: largest accepted result in bytes; None means the environment variable `WDS_DECOMPRESS_LIMIT`.
    """
    limit = config.read("WDS_DECOMPRESS_LIMIT") if limit is None else limit
    return _collect(_zstd_pieces(data), limit)


def _zstd_pieces(data: bytes) -> Iterator[bytes]:
    unpacking = require("zstandard", extra="compression", why="to unpack '.zst' fields").ZstdDecompressor()
    unpacker = unpacking.decompressobj()
    position = 0
    while position < len(data):
        if unpacker.eof:
            unpacker = unpacking.decompressobj()
        piece = data[position : position + _ZSTD_PIECE]
        yield unpacker.decompress(piece)
        position += len(piece) - len(unpacker.unused_data)
    if not unpacker.eof:
        raise EOFError("the zstd data ends before its end")


def _collect(pieces: Iterator[bytes], limit: int) -> bytes:
    unpacked, size = [], 0
    for piece in pieces:
        size += len(piece)
        if size > limit:
            raise FormatError(
                f"unpacks to more than {limit:,} bytes",
                hint="raise WDS_DECOMPRESS_LIMIT if you trust the data",
            )
        unpacked.append(piece)
    return unpacked[0] if len(unpacked) == 1 else b"".join(unpacked)


def pack_gz(data: bytes, level: int = 9) -> bytes:
    """Pack as gzip, the same bytes every time (no date inside).

    >>> len(pack_gz(b"x" * 1000))
    29
    """
    return gzip.compress(data, level, mtime=0)


def pack_zst(data: bytes, level: int = 3) -> bytes:
    """Pack as Zstandard.

    >>> len(pack_zst(b"x" * 1000)) < 30
    True
    """
    packing = require("zstandard", extra="compression", why="to pack '.zst' fields").ZstdCompressor(level=level)
    return bytes(packing.compress(data))


UNPACK: dict[str, Callable[[bytes], bytes]] = {"gz": gunzip, "zst": unzstd}
PACK: dict[str, Callable[..., bytes]] = {"gz": pack_gz, "zst": pack_zst}
