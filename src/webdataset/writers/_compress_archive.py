"""Whole-archive compression, with the same bytes for the same input: no time and no file name in the stream."""

from __future__ import annotations

import bz2
import lzma
import zlib
from collections.abc import Callable
from typing import Any, Final

from webdataset.decompress import load_zstd
from webdataset.errors import SpecError


def _zstd() -> Any:
    zstd = load_zstd("to write '.zst' archives")
    return zstd.ZstdCompressor(options={zstd.CompressionParameter.checksum_flag: 1})


# Each makes an object with `compress(data)` and `flush()`.
_KINDS: Final[dict[str, Callable[[], Any]]] = {
    # 16 + 15: zlib writes a gzip header, which has neither a time nor a name.
    "gz": lambda: zlib.compressobj(6, zlib.DEFLATED, 16 + zlib.MAX_WBITS),
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
        raise SpecError(f"compress={compress!r}: expected {', '.join(_KINDS)}, or False for none")
    name = target if isinstance(target, str) else ""
    return next((kind for kind in _KINDS if name.endswith(kind)), None)


def open_compressor(kind: str) -> Any:
    r"""A new compressor of this kind: `compress(data)` returns what is complete, `flush()` the rest with the trailer.

    >>> compressor = open_compressor("gz")
    >>> data = compressor.compress(b"hello") + compressor.flush()
    >>> zlib.decompress(data, 31), data[4:8]
    (b'hello', b'\x00\x00\x00\x00')
    """
    return _KINDS[kind]()
