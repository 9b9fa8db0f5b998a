"""The values of an MDS sample: one encoding per column, given by its name (`int`, `str`, `ndarray:float32:2,2`, …)."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from decimal import Decimal
from typing import Any, Final

import numpy as np

from webdataset.codecs import unpickle_loads
from webdataset.errors import EncodingError, FormatError, SpecError

_SIZES = {"int": (1, 2, 4, 8), "uint": (1, 2, 4, 8), "float": (2, 4, 8)}
_SCALARS: Final[dict[str, np.dtype[Any]]] = {
    f"{kind}{8 * size}": np.dtype(f"<{kind[0]}{size}") for kind, sizes in _SIZES.items() for size in sizes
}
_KINDS = {"u": 0, "i": 1, "f": 2}
_SHAPES: Final[tuple[np.dtype[Any], ...]] = (np.dtype("<u1"), np.dtype("<u2"), np.dtype("<u4"), np.dtype("<u8"))
_MODES = {
    "L": (1, np.uint8),
    "P": (1, np.uint8),
    "RGB": (3, np.uint8),
    "RGBA": (4, np.uint8),
    "I": (1, np.int32),
    "F": (1, np.float32),
}


def column_size(encoding: str) -> int | None:
    """The bytes of a column whose values are all equally long, else None.

    >>> column_size("int"), column_size("uint16"), column_size("ndarray:float32:2,2"), column_size("str")
    (8, 2, 16, None)
    """
    if encoding == "int":
        return 8
    if encoding in _SCALARS:
        return _SCALARS[encoding].itemsize
    if encoding.count(":") == 2:
        dtype, shape = _array_type(encoding)
        assert dtype is not None
        assert shape is not None
        return int(dtype.itemsize * np.prod(shape))
    return None


def decode_value(encoding: str, data: bytes) -> Any:
    """Decode the bytes of a value.

    >>> decode_value("int", (7).to_bytes(8, "little")), decode_value("ndarray:uint8", bytes([4, 2, 8, 9]))
    (7, array([8, 9], dtype=uint8))
    """
    if encoding.startswith("ndarray"):
        return _decode_array(encoding, data)
    if encoding in _SCALARS:
        return np.frombuffer(data, _SCALARS[encoding])[0]
    decode = _DECODERS.get(encoding)
    if decode is None:
        raise FormatError(f"the encoding {encoding!r} is not known", hint=f"known: {', '.join(sorted(_DECODERS))}")
    return decode(data)


def encode_value(encoding: str, value: Any) -> bytes:
    """The bytes of a value.

    >>> encode_value("ndarray", np.array([[1, 2]], np.int16)).hex()
    '1108010201000200'
    """
    if encoding.startswith("ndarray"):
        return _encode_array(encoding, np.asarray(value))
    if encoding in _SCALARS:
        return np.asarray(value).astype(_SCALARS[encoding]).tobytes()
    return _ENCODERS[encoding](value)


def encoding_for(value: Any) -> str:
    """The encoding that stores a value without loss.

    >>> encoding_for(7), encoding_for("a"), encoding_for(0.5), encoding_for(np.float32(1)), encoding_for({"a": 1})
    ('int', 'str', 'float64', 'float32', 'json')
    """
    if isinstance(value, np.generic | np.ndarray) and value.dtype.name in _SCALARS and (value.size or not value.ndim):
        return "ndarray" if value.ndim else value.dtype.name
    plain = {bytes: "bytes", str: "str", bool: "json", int: "int", float: "float64", list: "json", dict: "json"}
    if type(value) in plain:
        return plain[type(value)]
    raise EncodingError(
        f"MDS has no encoding for {type(value).__name__} {getattr(value, 'dtype', '')}{getattr(value, 'shape', '')}",
        hint="map it to a name that ends in .npy or .json, so that it is stored as bytes",
    )


def _array_type(encoding: str) -> tuple[np.dtype[Any] | None, tuple[int, ...] | None]:
    """(dtype, shape) of an array column; None for what its name does not state."""
    _, *more = encoding.split(":")
    try:
        dtype = _SCALARS[more[0]] if more else None
        shape = tuple(int(size) for size in more[1].split(",")) if len(more) > 1 else None
    except (KeyError, ValueError) as error:
        raise FormatError(f"the encoding {encoding!r} is not known") from error
    return dtype, shape


def _decode_array(encoding: str, data: bytes) -> np.ndarray[Any, Any]:
    dtype, shape = _array_type(encoding)
    offset = 0
    try:
        if dtype is None:
            kind = {number: letter for letter, number in _KINDS.items()}[data[0] & 7]
            dtype, offset = np.dtype(f"<{kind}{data[0] >> 3}"), 1
        if shape is None:
            count, sizes = data[offset] >> 2, _SHAPES[data[offset] & 3]
            end = offset + 1 + count * sizes.itemsize
            shape, offset = tuple(np.frombuffer(data[offset + 1 : end], sizes, count).tolist()), end
        return np.frombuffer(data, dtype, offset=offset).reshape(shape)
    except (KeyError, IndexError, ValueError, TypeError) as error:
        raise FormatError(f"the array is damaged: {error}") from error


def _encode_array(encoding: str, array: np.ndarray[Any, Any]) -> bytes:
    dtype, shape = _array_type(encoding)
    if (dtype is not None and array.dtype != dtype) or (shape is not None and array.shape != shape):
        raise EncodingError(f"{array.dtype}{array.shape} does not fit {encoding}")
    if array.dtype.name not in _SCALARS or not array.ndim or not array.size:
        raise EncodingError(f"MDS has no arrays of {array.dtype}{array.shape}", hint="map it to a name in .npy")
    header = b""
    if dtype is None:
        header += bytes((array.dtype.itemsize << 3 | _KINDS[array.dtype.kind],))
    if shape is None:
        largest = max(array.shape)
        size = next(index for index, kind in enumerate(_SHAPES) if largest < 256**kind.itemsize)
        header += bytes((array.ndim << 2 | size,)) + np.array(array.shape, _SHAPES[size]).tobytes()
    return header + array.astype(array.dtype.newbyteorder("<"), copy=False).tobytes()


def decode_pixels(data: bytes) -> np.ndarray[Any, Any]:
    """Raw pixels with width, height and mode before them, as an array; Pillow's modes of whole bytes are known."""
    width, height, length = struct.unpack_from("<3I", data)
    mode = str(data[12 : 12 + length], "ascii", "replace")
    if mode not in _MODES:
        raise FormatError(f"the image mode {mode!r} is not known", hint=f"known: {', '.join(_MODES)}")
    channels, dtype = _MODES[mode]
    shape = (height, width) if channels == 1 else (height, width, channels)
    return np.frombuffer(data, dtype, offset=12 + length).reshape(shape)


_DECODERS: Final[dict[str, Callable[[bytes], Any]]] = {
    "bytes": bytes,
    "str": lambda data: str(data, "utf-8"),
    "int": lambda data: int.from_bytes(data, "little", signed=True),
    "json": json.loads,
    "pkl": unpickle_loads,
    "jpeg": bytes,
    "png": bytes,
    "pil": decode_pixels,
    "str_int": int,
    "str_float": float,
    "str_decimal": lambda data: Decimal(str(data, "utf-8")),
}


def _encode_int(value: Any) -> bytes:
    try:
        return int(value).to_bytes(8, "little", signed=True)
    except OverflowError as error:
        raise EncodingError(f"{value} does not fit 64 bits") from error


_ENCODERS: Final[dict[str, Callable[[Any], bytes]]] = {
    "bytes": bytes,
    "str": lambda value: str(value).encode(),
    "int": _encode_int,
    "json": lambda value: json.dumps(value).encode(),
    "jpeg": bytes,
    "png": bytes,
}


def check_encodings(encodings: dict[str, str]) -> None:
    """Refuse encodings that cannot be written."""
    for name, encoding in encodings.items():
        if encoding not in _ENCODERS and encoding not in _SCALARS and not encoding.startswith("ndarray"):
            raise SpecError(f"the column {name} cannot be written as {encoding!r}", hint=", ".join(sorted(_ENCODERS)))
