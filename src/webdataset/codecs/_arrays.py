"""NumPy's own files: npy and npz, read without unpickling, with every size checked."""

from __future__ import annotations

import ast
import io
import math
import operator
import re
import zipfile
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any, Literal

import numpy as np
from numpy.lib import format as npy

from webdataset import batch_memory
from webdataset.errors import EncodingError, FormatError

from ._field_limit import check_empty, check_zip, read_member

_MAGIC = b"\x93NUMPY"
_SHORTEST = 12
_ALIGNED = 16  # enough for every number type; NumPy's own writer pads headers to 64
_AT_ONCE = 1 << 20  # bytes that are joined before they are copied into a batch
_LONGEST_HEADER = 10_000  # NumPy's limit: Python's parser is not safe with more
_PYTHON_2_LONG = re.compile(r"(?<=\d)L(?=[,)])")  # in shapes: (3L,)


def npy_loads(data: bytes) -> np.ndarray[Any, Any]:
    """The array in an npy file.

    >>> npy_loads(numpy_dumps(np.arange(3)))
    array([0, 1, 2])
    """
    if len(data) < _SHORTEST:
        raise FormatError("not an npy file")
    end = _header_end(data)
    header = data[:end]
    # A header in the cache must not keep the rest of the file in memory.
    shape, order, dtype, size = _parse_header(header if type(header) is bytes else bytes(header))
    if size > len(data) - end:
        raise FormatError(f"npy data is truncated: expected {size:,} bytes, got {len(data) - end:,}")
    if not size:
        return np.empty(shape, dtype, order)
    if end % _ALIGNED:
        return np.ndarray(shape, dtype, data, end, None, order).copy("K")
    # The file as it is in memory of its own, instead of a copy of the array in it: 0.85 µs for a small one, not 1.6.
    return np.ndarray(shape, dtype, bytearray(data), end, None, order)


def read_npy_header(stream: Any) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Shape, order (whether Fortran's) and type of the array in an npy file; the stream is then at its first item.

    >>> read_npy_header(io.BytesIO(numpy_dumps(np.zeros((2, 3), "<f4"))))
    ((2, 3), False, dtype('float32'))
    """
    start = stream.read(_SHORTEST)
    if len(start) < _SHORTEST:
        raise FormatError("not an npy file")
    rest = min(_header_end(start), _LONGEST_HEADER + 1) - _SHORTEST
    return _read_header(start + stream.read(max(rest, 0)))


def _header_end(data: bytes) -> int:
    return 10 + data[8] + 256 * data[9] if data[6] == 1 else 12 + int.from_bytes(data[8:12], "little")


@lru_cache(maxsize=1024)  # a shard has few shapes: 0.1 µs instead of the 25 µs of NumPy's parser
def _parse_header(header: bytes) -> tuple[tuple[int, ...], Literal["C", "F"], np.dtype[Any], int]:
    shape, fortran_order, dtype = _read_header(header)
    if dtype.hasobject:
        raise FormatError("an npy array of Python objects is a pickle", hint="write it under the field 'pkl'")
    if any(size < 0 for size in shape):
        raise FormatError(f"invalid npy shape {shape}")
    count = math.prod(shape)
    check_empty(shape, dtype.itemsize)
    if count and not dtype.itemsize:  # NumPy would allocate memory for strings without characters
        raise FormatError(f"{count:,} npy items without a size")
    return shape, "F" if fortran_order else "C", dtype, count * dtype.itemsize


def _read_header(header: bytes) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    if not header.startswith(_MAGIC):
        raise FormatError("not an npy file")
    version = header[6]
    if version not in {1, 2, 3} or len(header) > _LONGEST_HEADER:
        raise FormatError(f"unknown npy version {version}, or its header is too long")
    text = header[10 if version == 1 else 12 :].decode("utf-8" if version == 3 else "latin-1")
    try:
        fields = ast.literal_eval(_PYTHON_2_LONG.sub("", text))
        check_dtype(fields["descr"])
        dtype, shape = npy.descr_to_dtype(fields["descr"]), fields["shape"]
        if type(shape) is not tuple:
            raise TypeError(f"the shape {shape!r:.40} is not a tuple")
        return tuple(map(operator.index, shape)), bool(fields["fortran_order"]), dtype
    except Exception as error:  # a header is a Python expression, which can raise many exceptions
        raise FormatError(f"the npy header is damaged: {error}") from error


def check_dtype(descr: Any) -> None:
    """Raise an error for the description of a dtype that would crash the process: NumPy divides by the 0 of `M8[s/0]`.

    >>> check_dtype([("when/where", "<M8[s]"), ("x", "<f8", (2,))])
    >>> check_dtype("<M8[s/0]")
    Traceback (most recent call last):
    webdataset.errors.FormatError: the type '<M8[s/0]' divides its unit, which NumPy never writes
    """
    for code in _type_codes(descr):
        if "/" in code:
            raise FormatError(f"the type {code!r:.40} divides its unit, which NumPy never writes")


def _type_codes(descr: Any) -> list[str]:
    """The parts that NumPy reads as types or shapes: all except the names of fields."""
    if isinstance(descr, str):
        return [descr]
    if isinstance(descr, tuple):
        return [*_type_codes(descr[0]), *map(repr, descr[1:])]
    return [code for _, *inner in descr for code in _type_codes(tuple(inner))]


def numpy_dumps(data: Any) -> bytes:
    r"""The npy file of an array, or of anything NumPy makes one of (a torch tensor, a list of numbers).

    >>> numpy_dumps(np.zeros(2, "u1"))[-2:]
    b'\x00\x00'
    """
    array = as_array(data)
    order: Literal["C", "F"] = "F" if array.flags.f_contiguous and not array.flags.c_contiguous else "C"
    try:
        return _header(array.dtype, array.shape, order) + array.tobytes(order)
    except ValueError:  # a long header, or one with letters beyond Latin-1
        stream = io.BytesIO()
        npy.write_array(stream, array, (3, 0), allow_pickle=False)
        return stream.getvalue()


@lru_cache(maxsize=1024)  # a dataset has few shapes: 0.4 µs instead of the 15 µs of NumPy's writer
def _header(dtype: np.dtype[Any], shape: tuple[int, ...], order: str) -> bytes:
    stream = io.BytesIO()
    fields = {"descr": npy.dtype_to_descr(dtype), "fortran_order": order == "F", "shape": shape}
    npy.write_array_header_1_0(stream, fields)
    return stream.getvalue()


def stack_npy(files: Sequence[bytes] | np.ndarray[Any, Any]) -> np.ndarray[Any, Any] | list[np.ndarray[Any, Any]]:
    """The arrays in many npy files: stacked, copied once, if all have the same header; otherwise as a list.

    >>> stack_npy([numpy_dumps(np.arange(3) + n) for n in range(2)])
    array([[0, 1, 2],
           [1, 2, 3]])

    Args:
        files: the files; or all of them as a matrix of bytes, one a row.
    """
    first = bytes(files[0])
    array = npy_loads(first)  # for its checks
    header, size = first[: _header_end(first)], array.nbytes
    alike = isinstance(files, np.ndarray) or set(map(len, files)) == {len(first)}
    if not size or not alike or (array.ndim > 1 and _parse_header(header)[1] == "F"):
        return [npy_loads(bytes(file)) for file in files]
    stacked = batch_memory.empty_batch((len(files), *array.shape), array.dtype)
    target, done = stacked.reshape(-1).view(np.uint8).reshape(len(files), size), 0
    for rows in _matrices(files, len(first)):
        if (rows[:, : len(header)] != np.frombuffer(header, np.uint8)).any():
            return [npy_loads(bytes(file)) for file in files]
        target[done : done + len(rows)] = rows[:, len(header) : len(header) + size]
        done += len(rows)
    return stacked


def _matrices(files: Sequence[bytes] | np.ndarray[Any, Any], size: int) -> Iterator[np.ndarray[Any, Any]]:
    """The files as rows of bytes, several at a time: a view for each file would cost more than its copy."""
    if isinstance(files, np.ndarray):
        yield files
        return
    step = max(1, _AT_ONCE // size)
    for first in range(0, len(files), step):
        yield np.frombuffer(b"".join(files[first : first + step]), np.uint8).reshape(-1, size)


def as_array(data: Any) -> np.ndarray[Any, Any]:
    """The value as an array of numbers, dates or strings; anything else is an error.

    >>> as_array([1, 2])
    array([1, 2])
    """
    try:
        array = np.asarray(data.detach().cpu() if hasattr(data, "detach") else data)
    except (TypeError, ValueError, RuntimeError) as error:
        raise EncodingError(f"{type(data).__name__} cannot be converted to an array: {error}") from error
    if array.dtype.hasobject:
        raise EncodingError(
            f"{type(data).__name__} makes an array of Python objects, which would be a pickle",
            hint="write it under the field 'pkl', or convert it to numbers",
        )
    return array


def npz_loads(data: bytes) -> dict[str, np.ndarray[Any, Any]]:
    """All arrays of an npz file by name.

    >>> npz_loads(numpy_npz_dumps({"x": np.arange(3)}))
    {'x': array([0, 1, 2])}
    """
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        check_zip(archive)
        return {
            info.filename.removesuffix(".npy"): npy_loads(read_member(archive, info)) for info in archive.infolist()
        }


def numpy_npz_dumps(data: dict[str, Any], *, compressed: bool = True) -> bytes:
    """The npz file of a dict of arrays.

    >>> numpy_npz_dumps({"x": np.arange(3)})[:2]
    b'PK'
    """
    if not isinstance(data, dict):
        raise EncodingError(f"expected a dict of arrays, got {type(data).__name__}", hint="use 'npy' for one array")
    if (wrong := next((name for name in data if not isinstance(name, str)), "")) != "":
        raise EncodingError(f"expected a str as the name of each array, got {wrong!r:.60}", hint="write str(name)")
    stream = io.BytesIO()
    packing = zipfile.ZIP_DEFLATED if compressed else zipfile.ZIP_STORED
    with zipfile.ZipFile(stream, "w", packing) as archive:
        for name, value in data.items():
            # A fixed date, so that the same arrays give the same bytes.
            archive.writestr(zipfile.ZipInfo(f"{name}.npy"), numpy_dumps(value), packing)
    return stream.getvalue()
