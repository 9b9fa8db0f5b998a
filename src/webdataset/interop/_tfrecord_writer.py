"""Samples → TFRecord files."""

from __future__ import annotations

import struct
import zlib
from typing import Any

import numpy as np

from webdataset import stores
from webdataset.arguments import require_choice
from webdataset.codecs import encode_field
from webdataset.errors import EncodingError, Where, located

from ._field_mapping import extension_of
from ._record_format import Record, RecordSink
from ._tf_example import Feature, Steps, write_example
from ._tfrecord_frames import crc32c_function, masked

_WINDOW = {"gzip": 16 + zlib.MAX_WBITS, "zlib": zlib.MAX_WBITS}


class TFRecordSink(RecordSink):
    """One TFRecord file, published when it is closed."""

    def __init__(self, url: str, compression: str | None = None) -> None:
        require_choice("compression", compression, (None, *_WINDOW))
        self._url = url
        self._crc = crc32c_function()
        self._packer = zlib.compressobj(6, zlib.DEFLATED, _WINDOW[compression]) if compression else None
        self._stream = stores.open_write(url)

    def write(self, sample: Record) -> int:
        """Write one sample as an `Example`, or as a `SequenceExample` if one of its values is `Steps`."""
        with located(key=sample.get("__key__"), shard=self._url):
            payload = write_example({name: as_feature(name, value) for name, value in sample.items()})
        length = struct.pack("<Q", len(payload))
        frame = (
            length,
            struct.pack("<I", masked(self._crc(length))),
            payload,
            struct.pack("<I", masked(self._crc(payload))),
        )
        data = b"".join(frame)
        self._stream.write(data if self._packer is None else self._packer.compress(data))
        return len(data)

    def close(self) -> None:
        """Publish the file."""
        if self._packer is not None:
            self._stream.write(self._packer.flush())
        self._stream.close()

    def abort(self) -> None:
        """Discard the file."""
        self._stream.abort()


def as_feature(name: str, value: Any) -> Feature:
    r"""A value as a list of bytes, an array of int64 or an array of float32, if nothing of it is lost.

    >>> as_feature("label", 7), as_feature("text", "héllo"), as_feature("x", [1.5, 2.5])
    (array([7]), [b'h\xc3\xa9llo'], array([1.5, 2.5], dtype=float32))
    >>> as_feature("x", 0.1)
    Traceback (most recent call last):
    webdataset.errors.EncodingError: 0.1 is not a float32, and a feature has no other floats – field x – ...
    """
    if isinstance(value, bytes | bytearray | memoryview):
        return [bytes(value)]
    if isinstance(value, str):
        return [value.encode()]
    if isinstance(value, Steps):
        return Steps(as_feature(name, step) for step in value)
    if isinstance(value, dict):
        return _from_dict(name, value)
    if isinstance(value, list | tuple):
        return _from_list(name, value)
    if isinstance(value, np.ndarray | np.generic | int | float):
        return _numbers(name, np.asarray(value))
    raise EncodingError(
        f"a feature has bytes, integers or floats, not {type(value).__name__}", Where(field=name), hint=_hint(name)
    )


def _from_dict(name: str, value: dict[Any, Any]) -> Feature:
    """A dict of numbered arrays is a feature list that was stored as `.npz`; other dicts must be named `.json`."""
    if list(value) == [f"{number:06d}" for number in range(len(value))] and extension_of(name) != "json":
        return Steps(as_feature(name, step) for step in value.values())
    return [encode_field(_required(name, "json"), value)]


def _from_list(name: str, value: list[Any] | tuple[Any, ...]) -> Feature:
    if all(isinstance(item, bytes | str) for item in value):
        return [item if isinstance(item, bytes) else item.encode() for item in value]
    if all(isinstance(item, bool | int | float | np.generic) for item in value):
        return _numbers(name, np.asarray(value))
    if all(isinstance(item, list | np.ndarray) for item in value):
        return Steps(as_feature(name, step) for step in value)
    return [encode_field(_required(name, "json"), value)]


def _numbers(name: str, array: np.ndarray[Any, Any]) -> Feature:
    if extension_of(name) == "npy":
        return [encode_field("npy", array)]
    if array.ndim > 1:
        raise EncodingError(f"a feature has one dimension, not {array.ndim}", Where(field=name), hint=_hint(name))
    flat = array.reshape(-1)
    if array.dtype.kind in "iub":
        whole = flat.astype(np.int64)
        if array.dtype == np.uint64 and (whole < 0).any():
            raise EncodingError("a number is larger than 2**63 - 1", Where(field=name), hint=_hint(name))
        return whole
    if array.dtype.kind == "f":
        with np.errstate(over="ignore"):  # a number that is too large is refused below
            single = flat.astype(np.float32)
        if array.dtype != np.float32 and not np.array_equal(single.astype(array.dtype), flat, equal_nan=True):
            shown = flat[0] if len(flat) == 1 else "a number"
            raise EncodingError(
                f"{shown} is not a float32, and a feature has no other floats", Where(field=name), hint=_hint(name)
            )
        return single
    raise EncodingError(f"a feature cannot hold {array.dtype}", Where(field=name), hint=_hint(name))


def _required(name: str, extension: str) -> str:
    if extension_of(name) != extension:
        raise EncodingError("a feature cannot hold nested values", Where(field=name), hint=_hint(name, extension))
    return name


def _hint(name: str, extension: str = "npy") -> str:
    return f"map it to {name}.{extension}, so that it is stored as the bytes of a {extension} file"
