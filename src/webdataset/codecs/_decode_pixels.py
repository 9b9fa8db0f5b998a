"""Compressed still images → pixels.

`_jpeg.py` decodes JPEGs, `_opencv.py` plain PNGs and WebPs; Pillow decodes the rest of these, and all other formats.
"""

from __future__ import annotations

import io
import math
import re
import struct
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from webdataset.optional import require

from ._field_limit import check_size
from ._jpeg import check_scans
from ._media_length import check_length
from ._opencv import plain_pixels

if TYPE_CHECKING:
    from PIL.Image import Image

Pixels = np.ndarray[Any, Any]

# Raw pixels after a line of text without comments: images are converted to this where decoding is the bottleneck.
_PLAIN_PPM = re.compile(rb"P6\s+([1-9]\d{0,5})\s+([1-9]\d{0,5})\s+255\s")
_JPEG = b"\xff\xd8"
_ICO, _ICNS = b"\0\0\1\0", b"icns"
_RGBA = 4
_JP2, _J2K = b"\0\0\0\x0c", b"\xff\x4f\xff\x51"
# Of TIFF and BigTIFF: the size of an offset, of the count of entries, and of an entry.
_TIFF_OFFSETS = {42: (4, 2, 12), 43: (8, 8, 20)}
_TILE_SIDES, _TIFF_NUMBERS = {322, 323}, {3: 2, 4: 4}  # tags; types and their sizes
_TILE = 1 << 14  # bytes that OpenJPEG needs for the description of a tile
# Pillow's plugins that run a program (EPS starts Ghostscript), only call another library, or do not decode still
# images: never used, whatever the bytes look like.
_UNWANTED = {"EPS", "WMF", "BUFR", "GRIB", "HDF5", "FITS", "MPEG", "FLI"}
_WANTED = [
    *("JPEG", "PNG", "WEBP", "AVIF", "GIF", "BMP", "DIB", "PPM", "TIFF", "JPEG2000", "ICO", "CUR"),
    *("ICNS", "TGA", "SGI", "PCX", "DCX", "PSD", "DDS", "QOI", "XBM", "XPM", "SUN"),
]


def open_image(data: bytes) -> Image:
    """The image in the bytes; only its header is read.

    >>> from webdataset.codecs import encode_field
    >>> open_image(encode_field("png", np.zeros((2, 3), "u1"))).size
    (3, 2)
    """
    images = require("PIL.Image", extra="images", why="to decode images")
    check_length(data)
    if data[:2] == _JPEG:
        check_scans(data)
    _check_icon(data)
    _check_tiles(data)
    _check_tile(data)
    own = [name for name in images.ID if name not in _WANTED and name not in _UNWANTED]  # plugins of the user's
    try:
        image: Image = images.open(io.BytesIO(data), formats=[*_WANTED, *own])
    except images.UnidentifiedImageError:  # Pillow's own message has an address in memory, another one in each run
        raise images.UnidentifiedImageError("cannot identify image file") from None
    check_size(image.width * image.height * max(3, len(image.getbands())))  # palettes become colours
    return image


def _check_tiles(data: bytes) -> None:
    """Raise an error for a JPEG 2000 of too many tiles: each takes memory, however few pixels it has."""
    if data[:4] not in (_JP2, _J2K, _ICNS):
        return
    for found in re.finditer(_J2K, data):  # JP2 has boxes before it, of any size and content
        size = bytes(data[found.start() + 8 : found.start() + 40]).ljust(32, b"\0")
        right, bottom, _, _, width, height, left, top = struct.unpack(">8I", size)
        if width and height:
            check_size(-(-(right - left) // width) * -(-(bottom - top) // height) * _TILE)


def _check_tile(data: bytes) -> None:
    """Raise an error for a TIFF of too large tiles: each is decoded as a whole, however few pixels the image has."""
    order: Literal["little", "big"] = "little" if data[:2] == b"II" else "big"
    number = partial(int.from_bytes, byteorder=order)
    if data[:2] not in (b"II", b"MM") or number(data[2:4]) not in _TIFF_OFFSETS:
        return
    offset, count, entry = _TIFF_OFFSETS[number(data[2:4])]
    at = number(data[offset : 2 * offset])
    sides: dict[int, int] = {}
    first = at + count
    for start in range(first, first + number(data[at:first]) * entry, entry):
        if start > len(data):
            break
        tag, kind = number(data[start : start + 2]), number(data[start + 2 : start + 4])
        if tag in _TILE_SIDES:
            value = data[start + entry - offset : start + entry]
            side = number(value[: _TIFF_NUMBERS.get(kind)])
            sides[tag] = max(side, sides.get(tag, 1))  # a tag may come twice: Pillow and libtiff take different ones
    check_size(math.prod(sides.values()) * _RGBA)


def _check_icon(data: bytes) -> None:
    """Raise an error if the image in an icon is too large; Pillow decodes it for any size that the icon claims."""
    starts = []
    if data[:4] == _ICO:
        icon = require("PIL.IcoImagePlugin", extra="images", why="to decode icons").IcoFile(io.BytesIO(data))
        starts = [each.offset for each in icon.entry[:1]]  # the one that Pillow takes
    elif data[:4] == _ICNS:
        icon = require("PIL.IcnsImagePlugin", extra="images", why="to decode icons").IcnsFile(io.BytesIO(data))
        starts = [icon.dct[name][0] for name, _ in icon.SIZES[icon.bestsize()] if name in icon.dct]
    images = require("PIL.Image", extra="images", why="to decode images")
    for start in starts:
        try:
            image = images.open(io.BytesIO(data[start:]), formats=["PNG", "JPEG2000", "DIB"])
        except images.UnidentifiedImageError:
            continue  # raw pixels: as many as the icon claims
        check_size(image.width * image.height * _RGBA)


def other_pixels(data: bytes, mode: str) -> Pixels:
    """The pixels of an image that is not a JPEG; those of a PPM are not copied, and must not be changed.

    >>> other_pixels(b"P6 2 1 255 " + bytes(range(6)), "RGB").tolist()
    [[[0, 1, 2], [3, 4, 5]]]
    """
    plain = _PLAIN_PPM.match(data) if mode == "RGB" else None
    if plain is None:
        pixels = plain_pixels(data, mode)
        return pillow_pixels(open_image(data), mode) if pixels is None else pixels
    width, height = int(plain[1]), int(plain[2])
    if len(data) < plain.end() + 3 * width * height:
        return pillow_pixels(open_image(data), mode)  # truncated: Pillow raises the error
    return np.frombuffer(data, np.uint8, 3 * width * height, plain.end()).reshape(height, width, 3)


def pillow_pixels(image: Image, mode: str) -> Pixels:
    """The pixels of an opened image as 8-bit grey, RGB or RGBA."""
    if is_deep(image):
        return _repeat_channels(_to_8_bits(deep_pixels(image)), mode)
    return np.array(image.convert(mode))


def is_deep(image: Image) -> bool:
    """Whether the image has one channel of more than 8 bits."""
    return str(image.mode).startswith("I")


def deep_pixels(image: Image) -> Pixels:
    """The pixels of an opened image as 16-bit grey."""
    if is_deep(image):
        deep: Pixels = np.clip(np.asarray(image), 0, 65535)
        return deep.astype(np.uint16)
    grey: Pixels = np.array(image.convert("L"), np.uint16)
    grey *= np.uint16(257)
    return grey


def _to_8_bits(deep: Pixels) -> Pixels:
    """16 bits to 8, rounded: white stays white and black black."""
    return ((deep.astype(np.uint32) * 255 + 32767) // 65535).astype(np.uint8)


def _repeat_channels(grey: Pixels, mode: str) -> Pixels:
    if mode == "L":
        return grey
    pixels = np.repeat(grey[..., None], len(mode), axis=2)
    if mode == "RGBA":
        pixels[..., 3] = 255
    return pixels


def over(image: Image, background: Any) -> Image:
    """The image on a background colour, if it is transparent anywhere."""
    if "A" not in image.getbands() and "transparency" not in image.info:
        return image
    images = require("PIL.Image", extra="images", why="to decode images")
    front = image.convert("RGBA")
    return images.alpha_composite(images.new("RGBA", front.size, background), front)


def as_float(pixels: Pixels, white: int = 255) -> Pixels:
    """Pixels as float32 between 0 and 1.

    >>> as_float(np.array([0, 255], "u1"))
    array([0., 1.], dtype=float32)
    """
    result = np.empty(pixels.shape, np.float32)
    result[...] = pixels
    result /= white
    return result
