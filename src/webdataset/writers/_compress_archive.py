"""Whole-archive compression, with the same bytes for the same input: no time and no file name in the stream."""

from __future__ import annotations

import bz2
import lzma
import zlib
from collections.abc import Callable
from typing import Any, Final, Protocol

from webdataset.decompress import load_zstd
from webdataset.errors import SpecError


class Compressor(Protocol):
    """Takes bytes and returns compressed bytes; `flush` ends the stream."""

    def compress(self, data: bytes, /) -> bytes:
        """Add `data`; returns the compressed bytes that are complete, maybe none."""
        ...

    def flush(self) -> bytes:
        """The rest, with the trailer."""
        ...


def _gzip() -> Compressor:
    # 16 + 15: zlib writes a gzip header, which has neither a time nor a name.
    return zlib.compressobj(6, zlib.DEFLATED, 16 + zlib.MAX_WBITS)


def _zstd() -> Compressor:
    zstd = load_zstd("to write '.zst' archives")
    compressor: Compressor = zstd.ZstdCompressor(options={zstd.CompressionParameter.checksum_flag: 1})
    return compressor


_KINDS: Final[dict[str, Callable[[], Compressor]]] = {
    "gz": _gzip,
    "bz2": bz2.BZ2Compressor,
    "xz": lzma.LZMACompressor,
    "zst": _zstd,
}


def find_compression(target: Any, compress: bool | str | None) -> str | None:
    """The kind of compression for a target: the argument, else by the ending of its name.

    >>> find_compression("a.tgz", None), find_compression("a.tar.zst", None), find_compression("a.tar", True)
    ('gz', 'zst', 'gz')
    >>> find_compression("a.tar.gz", False) is None
    True
    """
    if compress is False:
        return None
    if compress is True:
        return "gz"
    if compress in _KINDS:
        return str(compress)
    if compress is not None:
        raise SpecError(
            f"compress={compress!r} is not supported", hint=f"use one of {', '.join(_KINDS)}, or False for none"
        )
    name = target if isinstance(target, str) else ""
    return next((kind for kind in _KINDS if name.endswith(kind)), None)


def open_compressor(kind: str) -> Compressor:
    r"""A new compressor of this kind.

    >>> compressor = open_compressor("gz")
    >>> data = compressor.compress(b"hello") + compressor.flush()
    >>> zlib.decompress(data, 31), data[4:8]
    (b'hello', b'\x00\x00\x00\x00')
    """
    return _KINDS[kind]()
