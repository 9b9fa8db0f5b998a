"""Compressed fields: `txt.gz` and `json.zst`, decompressed up to a limit so that they cannot fill the memory."""

from __future__ import annotations

import gzip
import io
import sys
from collections.abc import Callable

from webdataset.decompress import COMPRESSIONS, Unpacked, load_zstd

from ._field_limit import check_size, field_limit

_KINDS = {kind.name: kind for kind in COMPRESSIONS}


def _decompress(kind: str, data: bytes, limit: int | None) -> bytes:
    limit = field_limit(limit)
    stream = Unpacked(io.BytesIO(data), _KINDS[kind], limit=sys.maxsize)
    pieces, size = [], 0
    while piece := stream.read(limit + 1 - size):
        pieces.append(piece)
        size += len(piece)
        check_size(size, limit)
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


def gunzip(data: bytes, limit: int | None = None) -> bytes:
    """Decompress gzip, all members of it.

    >>> gunzip(pack_gz(b"hello"))
    b'hello'

    Args:
        data: the compressed bytes.
        limit: largest accepted result in bytes; None means the environment variable `WDS_DECOMPRESS_LIMIT`.
    """
    return _decompress("gzip", data, limit)


def unzstd(data: bytes, limit: int | None = None) -> bytes:
    """Decompress Zstandard, all frames of it.

    >>> unzstd(pack_zst(b"hello"))
    b'hello'

    Args:
        data: the compressed bytes.
        limit: largest accepted result in bytes; None means the environment variable `WDS_DECOMPRESS_LIMIT`.
    """
    return _decompress("zstd", data, limit)


def pack_gz(data: bytes, level: int = 9) -> bytes:
    """Compress with gzip, to the same bytes every time (no date inside).

    >>> len(pack_gz(b"x" * 1000))
    29
    """
    return gzip.compress(data, level, mtime=0)


def pack_zst(data: bytes, level: int = 3) -> bytes:
    """Compress with Zstandard.

    >>> len(pack_zst(b"x" * 1000)) < 30
    True
    """
    return bytes(load_zstd("to encode '.zst' fields").compress(data, level))


UNPACK: dict[str, Callable[[bytes], bytes]] = {"gz": gunzip, "zst": unzstd}
PACK: dict[str, Callable[..., bytes]] = {"gz": pack_gz, "zst": pack_zst}
