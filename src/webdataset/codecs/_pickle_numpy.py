"""Pickled NumPy arrays, dtypes and scalars: made by NumPy's public constructors from parts that are checked.

A pickle contains the internal state of an array and of its dtype, and NumPy's `__setstate__` does not check it: with
forged flags eight bytes of the data become a pointer. So no state is ever passed to NumPy. An array is made from its
shape, its dtype and as many bytes (or objects) as these two need; a dtype from its code, or from its fields.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any

import numpy as np

from webdataset.errors import FormatError, UnsafeContent

from ._pickle_budget import Budget
from ._pickle_machine import Unbuilt

Array = np.ndarray[Any, Any]
Dtype = np.dtype[Any]

_ALIGNED = 0x80  # NumPy's NPY_ALIGNED_STRUCT
_CODE = re.compile(r"[<>|=]?(?:[?biufcmMOSUV][0-9]{0,9})")
_UNITS = frozenset(["Y", "M", "W", "D", "h", "m", "s", "ms", "us", "ns", "ps", "fs", "as", "generic"])
_MOST_FIELDS = 10_000
_MOST_DIMENSIONS = 32
_CHARACTER = 4
_FIELD = 64  # bytes that take as long to build as a field to visit


class _UnbuiltArray(Unbuilt):
    __slots__ = ()

    def build(self, state: Any, budget: Budget) -> Array:
        match state:
            case (int(), tuple(shape), np.dtype() as dtype, bool() | int() as fortran, raw):
                order = "F" if fortran else "C"
                _check_size(shape, dtype, budget)
                return _object_array(raw, shape, order, budget) if dtype.hasobject else _array(raw, dtype, shape, order)
        raise _unusual("array")


class _UnbuiltDtype(Unbuilt):
    __slots__ = ("_code",)

    def __init__(self, code: str) -> None:
        super().__init__()
        self._code = code

    def build(self, state: Any, budget: Budget) -> Dtype:
        if not isinstance(state, tuple) or len(state) not in {8, 9}:
            raise _unusual("dtype")
        _, order, subarray, names, fields, itemsize, _, flags, *metadata = state
        if subarray is not None:
            return _subarray_dtype(subarray, budget)
        if names is not None:
            return _structured_dtype(names, fields, itemsize, flags, budget)
        dtype = np.dtype(self._code)
        if dtype.kind in "mM" and metadata:
            dtype = _date_dtype(dtype.kind, metadata[0])
        if type(order) is str and order in {"<", ">"}:
            dtype = dtype.newbyteorder(">" if order == ">" else "<")
        return dtype


def _new_array(budget: Budget, kind: Any, shape: Any, typecode: Any) -> Unbuilt:
    if kind is not np.ndarray or type(shape) is not tuple or shape != (0,):
        raise _unusual("array")
    return _UnbuiltArray()


def _array_from_buffer(budget: Budget, buffer: Any, dtype: Any, shape: Any, order: Any) -> Array:
    if type(buffer) not in {bytes, bytearray} or type(order) is not str or order not in {"C", "F"}:
        raise _unusual("array")
    _check_size(shape, dtype, budget)
    # The array shares the memory of the bytes, as with Python's own unpickler.
    return _view(buffer, dtype, shape, order)


def _new_scalar(budget: Budget, dtype: Any, data: Any = b"") -> Any:
    raw = data.encode("latin-1") if type(data) is str else data
    array = _array_from_buffer(budget, raw, dtype, (), "C")
    return array[()]


def _new_dtype(budget: Budget, code: Any, align: Any = False, copy: Any = False) -> Unbuilt:
    code = str(code, "ascii") if type(code) is bytes else code
    if type(code) is not str or not _CODE.fullmatch(code):
        raise _unusual("dtype")
    return _UnbuiltDtype(code)


def _check_size(shape: Any, dtype: Any, budget: Budget) -> None:
    if not isinstance(dtype, np.dtype) or type(shape) is not tuple or len(shape) > _MOST_DIMENSIONS:
        raise _unusual("array")
    if not all(type(each) is int and each >= 0 for each in shape):
        raise _unusual("array")
    # Empty arrays count too: a shape of (10**18, 0) takes no memory, and a loop over it never ends.
    # NumPy makes room for one character in each text without any.
    budget.spend(math.prod(max(each, 1) for each in shape) * (dtype.itemsize or _CHARACTER))


def _array(raw: Any, dtype: Dtype, shape: tuple[int, ...], order: Any) -> Array:
    if type(raw) is str:
        raw = raw.encode("latin-1")
    if type(raw) is not bytes:
        raise _unusual("array")
    native = dtype if dtype.names else dtype.newbyteorder("=")  # as NumPy does
    return _view(raw, dtype, shape, order).astype(native, order="K")


def _view(buffer: Any, dtype: Dtype, shape: tuple[int, ...], order: Any) -> Array:
    if dtype.hasobject:
        raise _unusual("array")
    size = math.prod(shape) * dtype.itemsize
    if size != len(buffer):
        raise FormatError(
            f"a pickled array of shape {shape} and type {dtype} needs {size:,} bytes, got {len(buffer):,}"
        )
    return np.ndarray(shape, dtype, buffer, 0, None, order) if size else np.empty(shape, dtype, order)


def _object_array(items: Any, shape: tuple[int, ...], order: Any, budget: Budget) -> Array:
    if type(items) is not list or len(items) != math.prod(shape):
        raise _unusual("array")
    flat = np.empty(len(items), object)
    for number, item in enumerate(items):
        flat[number] = item
    array = np.asarray(flat.reshape(shape), order=order)
    budget.nest(array, items)
    return array


def _subarray_dtype(subarray: Any, budget: Budget) -> Dtype:
    match subarray:
        case (np.dtype() as base, shape) if base.itemsize and not base.hasobject:
            shape = shape if type(shape) is tuple else (shape,)
            _check_size(shape, base, budget)
            return np.dtype((base, shape))
    raise _unusual("dtype")


def _structured_dtype(names: Any, fields: Any, itemsize: Any, flags: Any, budget: Budget) -> Dtype:
    if type(names) is not tuple or type(fields) is not dict or type(flags) is not int or type(itemsize) is not int:
        raise _unusual("dtype")
    if not all(type(name) is str for name in names):
        raise _unusual("dtype")
    parts: list[Any] = [fields.get(name) for name in names]
    for part in parts:
        match part:
            case (np.dtype() as inner, int(offset), *_) if offset >= 0 and not inner.hasobject:
                continue
        raise _unusual("dtype")
    formats, offsets = [part[0] for part in parts], [part[1] for part in parts]
    # Fields that contain fields count as often as they occur: NumPy visits them all each time it uses the dtype.
    budget.spend(_FIELD * _count_fields(formats))
    layout: Any = {"names": list(names), "formats": formats, "offsets": offsets, "itemsize": itemsize}
    dtype: Dtype = np.dtype(layout, align=bool(flags & _ALIGNED))
    return dtype


def _count_fields(formats: list[Dtype]) -> int:
    count, level = 0, formats
    while level:
        count += len(level)
        if count > _MOST_FIELDS:
            raise UnsafeContent(f"the pickle has a dtype of more than {_MOST_FIELDS:,} fields")
        level = [field[0] for each in level for field in (each.base.fields or {}).values()]
    return count


def _date_dtype(kind: str, metadata: Any) -> Dtype:
    match metadata:
        case (_, (bytes() | str() as unit, int(count), *_)):
            name = str(unit, "ascii") if isinstance(unit, bytes) else unit
            if name in _UNITS and 0 < count < 2**31:
                return np.dtype(f"{kind}8" if name == "generic" else f"{kind}8[{count}{name}]")
    raise _unusual("dtype")


def _unusual(what: str) -> UnsafeContent:
    return UnsafeContent(f"the pickle makes a NumPy {what} in an unusual way")


_SCALARS = "bool bool_ int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 float32 float64 complex64 complex128"
_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "multiarray._reconstruct": _new_array,
    "multiarray.scalar": _new_scalar,
    "numeric._frombuffer": _array_from_buffer,
}
# Functions are called by these names; types are not called, except for dtypes, and may be part of a value.
NUMPY_MAKERS: dict[Any, Callable[..., Any]] = {
    f"numpy.{core}.{name}": make for core in ("core", "_core") for name, make in _FUNCTIONS.items()
}
NUMPY_TYPE_MAKERS: dict[Any, Callable[..., Any]] = {np.dtype: _new_dtype}
NUMPY_NAMES: dict[str, Any] = {
    "numpy.ndarray": np.ndarray,
    **{f"numpy.{name}": getattr(np, name) for name in _SCALARS.split()},
}
