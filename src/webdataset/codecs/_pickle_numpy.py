"""Pickles that hold NumPy arrays.

A pickled dtype brings its internal flags along, and NumPy believes them: with forged flags eight bytes of the data
become a pointer to an object, and the process crashes or worse. So a dtype is never given a state here; it is made anew
through NumPy's public constructor, which checks. That takes an unpickler whose BUILD step can be replaced, the
standard library's Python one (a dict of three small arrays takes 80 µs, 6 µs with the unguarded C unpickler).
"""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from webdataset.errors import FormatError, UnsafeContent

from ._pickle_globals import Maker, find_allowed

if TYPE_CHECKING:
    import io
    from collections.abc import Callable

_ALIGNED = 0x80  # NumPy's NPY_ALIGNED_STRUCT


class _ArrayClass:
    """Stands for `numpy.ndarray`, which a pickle only names and never needs to call."""

    __slots__ = ()


_ARRAY = _ArrayClass()


def _new_array(kind: Any, shape: Any, typecode: Any) -> np.ndarray[Any, Any]:
    if kind is not _ARRAY or shape != (0,):
        raise UnsafeContent("the pickle makes an array in an unusual way")
    return np.empty(0, "b")


def _array_from_buffer(buffer: Any, dtype: Any, shape: Any, order: Any) -> np.ndarray[Any, Any]:
    return np.frombuffer(buffer, _real(dtype)).reshape(shape, order=order)


def _new_scalar(dtype: Any, data: Any = b"") -> Any:
    if _real(dtype).hasobject or not isinstance(data, bytes | str):
        raise UnsafeContent("the pickle makes a NumPy scalar out of an object")
    raw = data.encode("latin-1") if isinstance(data, str) else data
    if len(raw) != dtype.itemsize:
        raise FormatError(f"a NumPy scalar of {dtype} has {len(raw)} bytes")
    return np.frombuffer(raw, dtype)[0] if dtype.itemsize else np.zeros((), dtype)[()]


def _new_dtype(spec: Any, align: Any = False, copy: Any = False) -> np.dtype[Any]:
    if not isinstance(spec, str | bytes):
        raise UnsafeContent("the pickle makes a dtype out of something else than its code")
    return np.dtype(str(spec, "ascii") if isinstance(spec, bytes) else spec, copy=True)


def _real(dtype: Any) -> np.dtype[Any]:
    if not isinstance(dtype, np.dtype):
        raise UnsafeContent("the pickle passes something else off as a dtype")
    return dtype


def _scalar_type(name: str) -> Any:
    return getattr(np, name)


_SCALARS = "bool bool_ int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 float32 float64 complex64 complex128"
_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "multiarray._reconstruct": _new_array,
    "multiarray.scalar": _new_scalar,
    "numeric._frombuffer": _array_from_buffer,
}
_NUMPY: dict[str, Any] = {
    "numpy.ndarray": _ARRAY,
    "numpy.dtype": Maker(_new_dtype),
    **{f"numpy.{name}": Maker(_scalar_type(name)) for name in _SCALARS.split()},
    **{f"numpy.{core}.{name}": Maker(make) for core in ("core", "_core") for name, make in _FUNCTIONS.items()},
}


# The only unpickler whose BUILD step can be replaced; it has no types.
_PythonUnpickler: Any = pickle._Unpickler


class NumpyUnpickler(_PythonUnpickler):  # type: ignore[misc]  # see above
    """Builds what is allowed, and NumPy arrays through NumPy's public constructors."""

    def __init__(self, stream: io.BytesIO, allowed: dict[str, Any], encoding: str = "ASCII") -> None:
        super().__init__(stream, encoding=encoding)
        self._allowed = {**_NUMPY, **allowed}

    def find_class(self, module: str, name: str, /) -> Any:
        """What the name stands for, if it is on the list."""
        return find_allowed(self._allowed, module, name)

    def load_build(self) -> None:
        """Give the object below its state; dtypes are replaced by a new one, on the stack and in the memo."""
        target = self.stack[-2]
        if isinstance(target, np.dtype):
            state = self.stack.pop()
            made = _dtype_of(target, state)
            self.stack[-1] = made
            for number, known in self.memo.items():
                if known is target:
                    self.memo[number] = made
        elif isinstance(target, np.ndarray):
            target.__setstate__(_checked_array_state(self.stack.pop()))
        else:
            super().load_build()

    dispatch: ClassVar[dict[int, Any]] = {**_PythonUnpickler.dispatch, pickle.BUILD[0]: load_build}


def _checked_array_state(state: Any) -> Any:
    match state:
        case (_, tuple(), np.dtype() as dtype, _, raw) if isinstance(raw, list if dtype.hasobject else bytes | str):
            return state
    raise UnsafeContent("the pickle gives an array a state that is not an array's")


def _dtype_of(dtype: np.dtype[Any], state: Any) -> np.dtype[Any]:
    if not isinstance(state, tuple) or len(state) not in {8, 9}:
        raise FormatError("the pickled dtype has an unknown state")
    _, order, subarray, names, fields, itemsize, _, flags, *metadata = state
    if subarray is not None:
        base, shape = subarray
        return np.dtype((_real(base), shape))
    if names is not None:
        parts = [fields[name] for name in names]
        return np.dtype(
            {
                "names": list(names),
                "formats": [_real(part[0]) for part in parts],
                "offsets": [part[1] for part in parts],
                "itemsize": itemsize,
            },
            align=bool(flags & _ALIGNED),
        )
    if dtype.kind in "mM" and metadata:
        unit, count, *_ = metadata[0][1]
        dtype = np.dtype(f"{dtype.kind}8[{count}{str(unit, 'ascii') if isinstance(unit, bytes) else unit}]")
    return dtype.newbyteorder(order) if order in {"<", ">"} else dtype
