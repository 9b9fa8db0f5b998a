"""The fields of a `.beton`: how a value is split between the table of samples and the data pages.

Numbers are stored in the table itself. Everything else is in a page, and the table has its address: alone for arrays,
with the size for bytes and JSON (which ends with a zero byte), with mode, width and height for images.
"""

from __future__ import annotations

import json
import struct
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, Final

import numpy as np

from webdataset.arguments import require_choice
from webdataset.codecs import check_dtype, encode_field, imagehandler
from webdataset.errors import EncodingError, FormatError


class FieldType(IntEnum):
    """The type of a field."""

    FLOAT, INT, IMAGE, BYTES, NDARRAY, JSON, TENSOR = range(7)


NUMBERS: Final = frozenset({FieldType.INT, FieldType.FLOAT})
SIZED: Final = frozenset({FieldType.BYTES, FieldType.JSON})
JPEG, RAW = 0, 1
ARGUMENTS = 1024  # bytes that describe a field
_MOST_DIMENSIONS = 32
HEADER: Final = struct.Struct("<HHIQQ")
DESCRIPTION: Final = struct.Struct(f"<B16s{ARGUMENTS}s")
VERSION: Final = 2

_SIZED = np.dtype([("ptr", "<u8"), ("size", "<u8")])
_PICTURE = np.dtype([("mode", "<u1"), ("width", "<u2"), ("height", "<u2"), ("ptr", "<u8")])
CELLS: Final = {
    FieldType.FLOAT: np.dtype("<f8"),
    FieldType.INT: np.dtype("<i8"),
    FieldType.IMAGE: _PICTURE,
    FieldType.BYTES: _SIZED,
    FieldType.NDARRAY: np.dtype("<u8"),
    FieldType.JSON: _SIZED,
    FieldType.TENSOR: np.dtype("<u8"),
}


@dataclass(frozen=True, slots=True)
class BetonField:
    """One field of the file: its type, and for arrays what they hold."""

    name: str
    kind: FieldType
    dtype: np.dtype[Any] | None = None
    shape: tuple[int, ...] = ()

    def __str__(self) -> str:
        name = self.kind.name.lower()
        return name if self.dtype is None else f"{name}:{self.dtype.name}{list(self.shape)}"

    @property
    def nbytes(self) -> int:
        """The bytes of one array."""
        assert self.dtype is not None
        return int(self.dtype.itemsize * np.prod(self.shape))

    def arguments(self) -> bytes:
        """The description of the field in the file."""
        if self.dtype is None:
            return bytes(ARGUMENTS)
        text = json.dumps(self.dtype.descr).encode()
        shape = np.zeros(_MOST_DIMENSIONS + 1, "<u8")
        shape[: len(self.shape)] = self.shape
        shape[-1] = len(text)
        return (shape.tobytes() + text).ljust(ARGUMENTS, b"\0")


def row_type(fields: list[BetonField]) -> np.dtype[Any]:
    """A row of the table of samples.

    >>> row_type([BetonField("a", FieldType.IMAGE), BetonField("b", FieldType.INT)]).itemsize
    24
    """
    return np.dtype([(f"f{number}", CELLS[each.kind]) for number, each in enumerate(fields)], align=True)


def parse_field(name: str, kind: int, arguments: bytes) -> BetonField:
    """Parse the description of a field."""
    if kind not in CELLS:
        raise FormatError(f"the field {name} has type {kind}, which is not known", hint="custom fields cannot be read")
    if kind not in {FieldType.NDARRAY, FieldType.TENSOR}:
        return BetonField(name, FieldType(kind))
    numbers = np.frombuffer(arguments, "<u8", _MOST_DIMENSIONS + 1).tolist()
    text = arguments[8 * (_MOST_DIMENSIONS + 1) :][: numbers[-1]]
    try:
        descr = json.loads(text)
        check_dtype(descr)
        dtype = np.dtype(descr[0][1]) if len(descr) == 1 and descr[0][0] == "" else np.dtype([tuple(d) for d in descr])
    except Exception as error:  # NumPy raises exceptions of many classes for an invalid type
        raise FormatError(f"the type of the field {name} is damaged: {error}") from error
    if dtype.hasobject:
        raise FormatError(f"the field {name} holds Python objects")
    return BetonField(name, FieldType(kind), dtype, tuple(size for size in numbers[:-1] if size))


def field_for(name: str, value: Any) -> BetonField:
    """The field that can store a value.

    >>> str(field_for("cls", 7)), str(field_for("x", np.zeros((2, 3), np.int16))), str(field_for("t", {"a": 1}))
    ('int', 'ndarray:int16[2, 3]', 'json')
    """
    if isinstance(value, bytes | str):
        return BetonField(name, FieldType.BYTES)
    if isinstance(value, int | np.integer) and not isinstance(value, bool):
        return BetonField(name, FieldType.INT)
    if isinstance(value, float | np.floating):
        return BetonField(name, FieldType.FLOAT)
    if isinstance(value, np.ndarray) and not value.dtype.hasobject:
        if not value.ndim or not value.size:
            raise EncodingError(f"a beton has no arrays of shape {value.shape}", hint="map it to a name in .npy")
        return BetonField(name, FieldType.NDARRAY, value.dtype.newbyteorder("<"), value.shape)
    if isinstance(value, dict | list | bool | None):
        return BetonField(name, FieldType.JSON)
    raise EncodingError(f"a beton cannot hold {type(value).__name__}")


@dataclass(frozen=True, slots=True)
class ImageOptions:
    """How images are stored.

    Attributes:
        mode: "jpg" stores JPEG, "raw" pixels; "smart" stores JPEG for images whose pixels take more than `threshold`
            bytes, "proportion" for a `probability` of the images.
        quality: of JPEGs that are made here; JPEGs that come in are stored as they are, unless they are resized.
        max_resolution: larger images are shrunk to this length of the longer side.
        threshold: for "smart"; None stores everything as pixels.
        probability: for "proportion".
    """

    mode: str = "jpg"
    quality: int = 90
    max_resolution: int | None = None
    threshold: int | None = None
    probability: float = 0.5

    def __post_init__(self) -> None:
        require_choice("mode", self.mode, ("jpg", "raw", "smart", "proportion"))

    def encode(self, value: Any, chance: float) -> tuple[int, int, int, bytes]:
        """(mode, width, height, bytes) of an image; `chance` is a number in [0, 1) for "proportion"."""
        pixels = _pixels(value)
        height, width = pixels.shape[:2]
        resized = False
        if self.max_resolution is not None and max(width, height) > self.max_resolution:
            scale = self.max_resolution / max(width, height)
            pixels, resized = _resized(pixels, int(width * scale), int(height * scale)), True
            height, width = pixels.shape[:2]
        as_jpeg = {
            "jpg": True,
            "raw": False,
            "smart": self.threshold is not None and pixels.nbytes > self.threshold,
            "proportion": chance < self.probability,
        }[self.mode]
        if not as_jpeg:
            return RAW, width, height, np.ascontiguousarray(pixels).tobytes()
        ready = isinstance(value, bytes) and value[:3] == b"\xff\xd8\xff" and not resized
        return JPEG, width, height, value if ready else encode_field("jpg", pixels, quality=self.quality)


def _pixels(value: Any) -> np.ndarray[Any, Any]:
    """The pixels of an image, as an array of height, width and three channels."""
    if isinstance(value, bytes):
        value = imagehandler("rgb8")(".jpg", value)
    if not isinstance(value, np.ndarray) or value.dtype != np.uint8 or value.ndim not in {2, 3}:
        raise EncodingError(f"expected an image, got {type(value).__name__}")
    pixels = np.repeat(value[:, :, None], 3, axis=2) if value.ndim == 2 else value
    if pixels.shape[2] != 3 or max(pixels.shape[:2]) >= 1 << 16:
        raise EncodingError(f"expected three channels and sides of less than 65,536 pixels, got {value.shape}")
    return pixels


def _resized(pixels: np.ndarray[Any, Any], width: int, height: int) -> np.ndarray[Any, Any]:
    from PIL import Image

    return np.asarray(Image.fromarray(pixels).resize((max(1, width), max(1, height)), Image.Resampling.BOX))
