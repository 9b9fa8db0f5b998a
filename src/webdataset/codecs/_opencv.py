"""Plain PNGs and WebPs → pixels, by OpenCV where it is installed.

The pixels are the same as Pillow's. Plain means 8 bits, three colours, no transparency, one frame. Pillow decodes
everything else, and everything that OpenCV cannot decode (its libpng reports that on the standard error stream).

    500 × 375, one core, best of twelve: PNG 4.0 ms (Pillow 4.8), WebP 2.5 ms (3.1), lossless WebP 3.0 ms (3.7)
"""

from __future__ import annotations

import struct
import zlib
from typing import Any

import numpy as np

from webdataset.optional import find_package

from ._field_limit import check_size
from ._jpeg import MOST_PIXELS

Pixels = np.ndarray[Any, Any]

_PNG = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR"
_EIGHT_BITS_RGB = b"\x08\x02"
_DATA = b"IDAT"
# Chunks before the data that do not change it; not transparency, orientation or frames.
_HARMLESS = {b"pHYs", b"tEXt", b"zTXt", b"iTXt", b"tIME", b"sRGB", b"gAMA", b"cHRM", b"iCCP"}
_LOSSY, _LOSSLESS = b"VP8 ", b"VP8L"  # the extended form, VP8X, is for transparency, frames and EXIF tags


def plain_pixels(data: bytes, mode: str) -> Pixels | None:
    """The pixels of a plain PNG or WebP, or None for what Pillow decodes.

    Args:
        data: any bytes.
        mode: "L", "RGB" or "RGBA".
    """
    count = (_count_png(data) or _count_webp(data)) if mode == "RGB" else None
    if count is None or count > MOST_PIXELS:
        return None
    cv2 = find_package("cv2")
    if not hasattr(cv2, "IMREAD_COLOR_RGB"):  # absent, or older than 4.11
        return None
    check_size(3 * count)
    # An orientation tag, which may follow the pixels, is not applied.
    how = cv2.IMREAD_COLOR_RGB | cv2.IMREAD_IGNORE_ORIENTATION
    pixels: Pixels | None = cv2.imdecode(np.frombuffer(data, np.uint8), how)
    return pixels


def _count_png(data: bytes) -> int | None:
    """How many pixels a plain PNG has, None for anything else."""
    if data[:16] != _PNG or data[24:26] != _EIGHT_BITS_RGB:
        return None
    width, height = struct.unpack_from(">II", data, 16)
    offset = 33
    while (kind := bytes(data[offset + 4 : offset + 8])) in _HARMLESS:
        end = offset + 8 + int.from_bytes(data[offset : offset + 4])
        if zlib.crc32(data[offset + 4 : end]) != int.from_bytes(data[end : end + 4]):
            return None  # damaged; OpenCV would ignore it
        offset = end + 4
    return int(width * height) if kind == _DATA else None


def _count_webp(data: bytes) -> int | None:
    """How many pixels a plain WebP has, None for anything else."""
    if data[:4] != b"RIFF" or data[8:12] != b"WEBP" or len(data) < 30:
        return None
    file_size, chunk_size = int.from_bytes(data[4:8], "little"), int.from_bytes(data[16:20], "little")
    if file_size + 8 != len(data) or chunk_size + chunk_size % 2 + 20 != len(data):
        return None  # damaged, or with more than one chunk
    if data[12:16] == _LOSSY:
        width, height = struct.unpack_from("<HH", data, 26)
        return (int(width) & 0x3FFF) * (int(height) & 0x3FFF)
    if data[12:16] == _LOSSLESS:
        (bits,) = struct.unpack_from("<I", data, 21)
        transparent = bits >> 28 & 1
        return None if transparent else int((bits & 0x3FFF) + 1) * int((bits >> 14 & 0x3FFF) + 1)
    return None
