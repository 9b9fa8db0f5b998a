"""One array: its type code, its header, its bytes."""

from __future__ import annotations

import math
import struct
from collections.abc import Iterable
from typing import Any

import numpy as np

from webdataset.codecs._field_limit import check_empty
from webdataset.errors import EncodingError, FormatError
from webdataset.optional import require

Array = Any  # a NumPy array, or a torch tensor of bfloat16
Buffer = bytes | bytearray | memoryview

long_to_short = {
    **{f"float{8 * size}": f"f{size}" for size in (2, 4, 8)},
    **{f"int{8 * size}": f"i{size}" for size in (1, 2, 4, 8)},
    **{f"uint{8 * size}": f"u{size}" for size in (1, 2, 4, 8)},
    "bool": "b1",
    "bfloat16": "bf16",
}
short_to_long = {short: long for long, short in long_to_short.items()}

_MAX_DIMENSIONS = 9
_WORD = 8


def str64(s: str) -> int:
    """Up to eight ASCII characters as one 64-bit integer.

    >>> str64("f4")
    13414
    """
    try:
        word = s.encode("ascii")
    except UnicodeEncodeError as error:
        raise EncodingError(f"tenbin names are ASCII, not {s!r}") from error
    if len(word) > _WORD:
        raise EncodingError(f"tenbin names have at most 8 characters, {s!r} has {len(word)}", hint="shorten the info")
    return int.from_bytes(word, "little", signed=False)


def unstr64(i: int) -> str:
    """The characters in a 64-bit integer.

    >>> unstr64(13414)
    'f4'
    """
    try:
        return (int(i) & (2**64 - 1)).to_bytes(_WORD, "little").rstrip(b"\0").decode("ascii")
    except UnicodeDecodeError as error:
        raise FormatError(f"tenbin name {i:#x} is not ASCII") from error


def bytelen(a: Any) -> int:
    """The number of bytes in an array or buffer.

    >>> bytelen(np.zeros(3)), bytelen(b"abc")
    (24, 3)
    """
    return memoryview(bytedata(a)).nbytes


def bytedata(a: Any) -> Buffer:
    r"""The bytes of an array or buffer.

    >>> bytes(bytedata(np.array([1, 2], "u1")))
    b'\x01\x02'
    """
    if isinstance(a, bytes | bytearray | memoryview):
        return a
    array, _ = _raw(a)
    # A view of bytes needs at least one dimension and no zero in the shape.
    return array.reshape(-1).view(np.uint8).data if array.size else b""


def _raw(a: Any) -> tuple[np.ndarray[Any, Any], str]:
    """The array as little-endian, contiguous NumPy, and its dtype code."""
    if str(getattr(a, "dtype", "")) == "torch.bfloat16":
        torch = require("torch", extra="torch", why="to encode bfloat16")
        return a.detach().cpu().contiguous().view(torch.int16).numpy(), "bf16"
    array = np.asarray(a.detach().cpu() if hasattr(a, "detach") else a)
    code = long_to_short.get(array.dtype.name)
    if code is None:
        raise EncodingError(f"tenbin has no code for {array.dtype}", hint=f"it knows {', '.join(long_to_short)}")
    return np.asarray(array, array.dtype.newbyteorder("<"), order="C"), code


def check_acceptable_input_type(data: Iterable[Any], allow64: bool) -> None:
    """Refuse arrays of a type without a tenbin code, or of 64 bits unless they are allowed.

    >>> check_acceptable_input_type([np.zeros(3)], allow64=False)
    Traceback (most recent call last):
    webdataset.errors.EncodingError: 64-bit array (float64) where none is allowed – convert it, or pass allow64=True
    """
    for array in data:
        _, code = _raw(array)
        if not allow64 and code.endswith("8"):
            raise EncodingError(
                f"64-bit array ({short_to_long[code]}) where none is allowed", hint="convert it, or pass allow64=True"
            )


def encode_header(a: Array, info: str = "") -> bytes:
    """The header of an array.

    >>> encode_header(np.zeros((2, 3), "f4"), "x").hex(" ", 8)
    '6634000000000000 7800000000000000 0200000000000000 0200000000000000 0300000000000000'
    """
    array, code = _raw(a)
    if array.ndim > _MAX_DIMENSIONS:
        raise EncodingError(f"tenbin arrays have at most {_MAX_DIMENSIONS} dimensions, this one has {array.ndim}")
    return struct.pack(f"<QQ{1 + array.ndim}q", str64(code), str64(info), array.ndim, *array.shape)


def decode_header(h: Buffer) -> tuple[tuple[int, ...], np.dtype[Any], str]:
    """Shape, dtype and info of a header. For bfloat16, the dtype is the two-byte integer in which it is stored.

    >>> decode_header(encode_header(np.zeros((2, 3), "f4"), "x"))
    ((2, 3), dtype('float32'), 'x')
    """
    shape, code, info = _parse_header(h)
    return shape, _dtype(code), info


def _dtype(code: str) -> np.dtype[Any]:
    return np.dtype({"bf16": "<i2", "b1": "?"}.get(code, f"<{code}"))


def _parse_header(h: Buffer) -> tuple[tuple[int, ...], str, str]:
    h = memoryview(h).cast("B")
    if h.nbytes < 3 * _WORD or h.nbytes % _WORD:
        raise FormatError(f"tenbin header has {h.nbytes} bytes")
    words = struct.unpack(f"<QQ{h.nbytes // _WORD - 2}q", h)
    code, info, ndim = unstr64(words[0]), unstr64(words[1]), words[2]
    if code not in short_to_long:
        raise FormatError(f"tenbin dtype code {code!r} is not known")
    shape = words[3 : 3 + max(ndim, 0)]
    if not 0 <= ndim <= _MAX_DIMENSIONS or len(shape) != ndim or min(shape, default=0) < 0:
        raise FormatError(f"tenbin header announces {ndim} dimensions {shape}")
    return shape, code, info


def build_array(header: Buffer, data: Buffer) -> tuple[Array, str]:
    """The array of a header and its data, as a copy."""
    shape, code, info = _parse_header(header)
    dtype, view = _dtype(code), memoryview(data).cast("B")
    if math.prod(shape) * dtype.itemsize != view.nbytes:
        raise FormatError(f"tenbin array of shape {shape} and type {short_to_long[code]} has {view.nbytes:,} bytes")
    check_empty(shape, dtype.itemsize)
    array = np.frombuffer(view, dtype).reshape(shape).copy() if view.nbytes else np.empty(shape, dtype)
    if code != "bf16":
        return array, info
    torch = require("torch", extra="torch", why="to decode bfloat16")
    return torch.from_numpy(array).view(torch.bfloat16), info
