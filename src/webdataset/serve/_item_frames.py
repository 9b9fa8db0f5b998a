"""Items as frames: a small tree that msgpack writes, and the bytes of arrays beside it. No pickle.

    tree = None, bool, int, float, str, bytes, or [tag, …]
    tags   list [trees]   tuple [trees]   dict [[key, tree], …]   bytes n   int "digits"
           array n   tensor n   scalar n      frames n and n + 1 are tenbin's header and data
           raw dtype shape n                  a NumPy type without a tenbin code: text, dates, complex numbers

Other types cannot be sent. Received trees are checked: their tags, and the sizes of their frames.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from webdataset.address import Address
from webdataset.codecs import tenbin
from webdataset.decompress import load_zstd
from webdataset.errors import EncodingError, FormatError, WebDatasetError
from webdataset.redact import redacted

Buffer = Any
Tree = Any

# Bytes up to this size are sent in the tree.
_INLINE = 4096
# Items are nested this deep at most.
_DEPTH = 32
# Frames that are shorter are not compressed.
_COMPRESSED_FROM = 1024
_RAW_TYPE = re.compile(r"[<>|=][SUcMm]\d+(\[\d*\w+\])?")
_LARGEST = 2**63


@dataclass(frozen=True, slots=True)
class WireOptions:
    """How arrays are sent.

    Attributes:
        float16: float32 arrays are sent as float16, and converted back: their values are rounded.
        zstd: compress frames at this level; 0 does not compress.
    """

    float16: bool = False
    zstd: int = 0


def encode_item(item: Any, options: WireOptions | None = None) -> tuple[Tree, list[Buffer]]:
    """An item as a tree and frames; the frames are the memory of its arrays, not copies.

    >>> tree, frames = encode_item({"cls": [1, 2], "jpg": np.zeros(3, "u1")})
    >>> tree, len(frames)
    (['dict', [['cls', ['list', [1, 2]]], ['jpg', ['array', 0]]]], 2)

    Raises:
        EncodingError: a value is of a type that cannot be sent.
    """
    writer = _Writer(options or WireOptions())
    tree = writer.tree(item, "item", 0)
    return tree, writer.frames


def decode_item(tree: Tree, frames: Sequence[Buffer], options: WireOptions | None = None) -> Any:
    """Decode an item. Arrays use the memory of the frames.

    >>> decode_item(*encode_item(("a", b"b", np.arange(3, dtype="u4"))))
    ('a', b'b', array([0, 1, 2], dtype=uint32))

    Raises:
        FormatError: the data are not an item.
    """
    try:
        return _Reader(frames, options or WireOptions()).item(tree, 0)
    except WebDatasetError:
        raise
    except Exception as error:  # of NumPy, torch and zstd, which have kinds of their own
        raise FormatError(f"not an item: {error}") from error


class _Writer:
    def __init__(self, options: WireOptions) -> None:
        self.frames: list[Buffer] = []
        self._options = options

    def tree(self, value: Any, where: str, depth: int) -> Tree:
        if depth > _DEPTH:
            raise EncodingError(f"{where} is nested more than {_DEPTH} deep", hint="send a flatter item")
        if value is None or isinstance(value, (bool, int, float, str, bytes, bytearray, memoryview)):
            return self._plain(value)
        if isinstance(value, Mapping):
            return [
                "dict",
                [[self._key(k, where), self.tree(v, f"{where}[{k!r}]", depth + 1)] for k, v in value.items()],
            ]
        if isinstance(value, (list, tuple)):
            parts = [self.tree(part, f"{where}[{number}]", depth + 1) for number, part in enumerate(value)]
            return ["tuple" if isinstance(value, tuple) else "list", parts]
        return self._array(value, where)

    def _plain(self, value: Any) -> Tree:
        if value is None or isinstance(value, bool):
            return value
        if isinstance(value, float):
            return float(value)
        if isinstance(value, str):
            return redacted(value) if isinstance(value, Address) else str.__str__(value)
        if isinstance(value, int):
            return int(value) if -_LARGEST <= value < _LARGEST else ["int", str(int(value))]
        return bytes(value) if len(value) <= _INLINE else ["bytes", self._add(value)]

    @staticmethod
    def _key(key: Any, where: str) -> Tree:
        if key is None or isinstance(key, (str, int, float, bool)):
            return str.__str__(key) if isinstance(key, str) else key
        raise EncodingError(f"a key of {where} is a {type(key).__name__}, which cannot be sent", hint="use str keys")

    def _array(self, value: Any, where: str) -> Tree:
        is_tensor = type(value).__module__.partition(".")[0] == "torch" and hasattr(value, "detach")
        if not is_tensor and not isinstance(value, (np.ndarray, np.generic)):
            raise EncodingError(
                f"{where} is a {type(value).__qualname__}, which cannot be sent",
                hint="send arrays, tensors, numbers, text, bytes, and lists, tuples and dicts of them",
            )
        if not is_tensor and value.dtype.kind in "SUcMm":
            array = np.ascontiguousarray(value)
            shape = list(np.shape(value))
            return [
                "raw",
                value.dtype.str,
                shape,
                self._add(array.reshape(-1).view(np.uint8).data if array.size else b""),
            ]
        if self._options.float16 and str(value.dtype) in {"float32", "torch.float32"}:
            half = value.half() if is_tensor else value.astype(np.float16)
            return ["half", self._tree_of_array(half, is_tensor=is_tensor)]
        try:
            return self._tree_of_array(value, is_tensor=is_tensor)
        except EncodingError as error:
            raise EncodingError(f"{where} cannot be sent: {error.what}", hint=error.hint) from error

    def _tree_of_array(self, value: Any, *, is_tensor: bool) -> Tree:
        tag = "tensor" if is_tensor else "scalar" if isinstance(value, np.generic) else "array"
        header, data = tenbin.encode_list([value])
        self.frames.append(header)
        return [tag, self._add(data) - 1]

    def _add(self, data: Buffer) -> int:
        if self._options.zstd:
            data = _compress(data, self._options.zstd)
        self.frames.append(data)
        return len(self.frames) - 1


class _Reader:
    def __init__(self, frames: Sequence[Buffer], options: WireOptions) -> None:
        self._frames, self._options = frames, options

    def item(self, tree: Tree, depth: int) -> Any:
        if not isinstance(tree, list):
            return tree
        if depth > _DEPTH or not tree or not isinstance(tree[0], str):
            raise FormatError("not an item: nested too deep, or without a tag")
        tag, *rest = tree
        if tag in {"list", "tuple"}:
            parts = [self.item(part, depth + 1) for part in rest[0]]
            return tuple(parts) if tag == "tuple" else parts
        if tag == "dict":
            return {_check_key(key): self.item(value, depth + 1) for key, value in rest[0]}
        if tag == "half":
            half = self.item(rest[0], depth + 1)
            return half.float() if hasattr(half, "float") else half.astype(np.float32)
        return self._leaf(tag, rest)

    def _leaf(self, tag: str, rest: list[Any]) -> Any:
        if tag == "int":
            return int(rest[0][:4300])
        if tag == "bytes":
            return bytes(self._data(rest[0]))
        if tag == "raw":
            return self._raw(*rest)
        if tag in {"array", "tensor", "scalar"}:
            return self._array(tag, rest[0])
        raise FormatError(f"not an item: the tag {tag!r:.20} is not known")

    def _array(self, tag: str, number: int) -> Any:
        shape, dtype, _ = tenbin.decode_header(self._frame(number))
        array = _from_memory(self._data(number + 1), dtype, shape)
        is_bfloat16 = tenbin.unstr64(int.from_bytes(memoryview(self._frame(number))[:8], "little")) == "bf16"
        if tag == "tensor" or is_bfloat16:
            import torch

            tensor = torch.from_numpy(array)
            return tensor.view(torch.bfloat16) if is_bfloat16 else tensor
        return array[()] if tag == "scalar" else array

    def _raw(self, code: str, shape: list[int], number: int) -> Any:
        if _RAW_TYPE.fullmatch(code) is None or not all(isinstance(size, int) and size >= 0 for size in shape):
            raise FormatError(f"not an item: an array of type {code!r:.20} and shape {shape!r:.40}")
        return _from_memory(self._data(number), np.dtype(code), tuple(shape))

    def _frame(self, number: int) -> Buffer:
        if not isinstance(number, int) or not 0 <= number < len(self._frames):
            raise FormatError(f"not an item: there is no frame {number!r:.20}")
        return self._frames[number]

    def _data(self, number: int) -> Buffer:
        data = self._frame(number)
        return _decompress(data) if self._options.zstd else data


def _from_memory(data: Buffer, dtype: np.dtype[Any], shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
    """An array in the memory of a frame; a copy if that memory is read-only or not aligned."""
    view = memoryview(data).cast("B")
    if math.prod(shape) * dtype.itemsize != view.nbytes:
        raise FormatError(f"not an item: an array of shape {shape} and type {dtype} has {view.nbytes:,} bytes")
    if not view.nbytes:
        return np.empty(shape, dtype)
    array = np.frombuffer(view, dtype).reshape(shape)
    return array if array.flags.writeable and array.flags.aligned else array.copy()


def _check_key(key: Tree) -> Any:
    if isinstance(key, list):
        raise FormatError("not an item: a key is a list")
    return key


def _compress(data: Buffer, level: int) -> bytes:
    """Encode data as one byte, 1 if the rest is compressed, and the rest."""
    view = memoryview(data).cast("B")
    if view.nbytes >= _COMPRESSED_FROM:
        packed: bytes = load_zstd("to compress what is sent").compress(view, level)
        if len(packed) < view.nbytes:
            return b"\1" + view.nbytes.to_bytes(8, "little") + packed
    return b"\0" + bytes(view)


def _decompress(data: Buffer) -> Buffer:
    view = memoryview(data).cast("B")
    if not view.nbytes or view[0] not in (0, 1):
        raise FormatError("not an item: a compressed frame has no beginning")
    if not view[0]:
        return bytearray(view[1:])
    size = int.from_bytes(view[1:9], "little")
    zstd = load_zstd("to decompress what was sent")
    decompressor = zstd.ZstdDecompressor()
    result = bytearray(decompressor.decompress(view[9:], max_length=size + 1))
    if len(result) != size or not decompressor.eof:
        raise FormatError(f"not an item: a compressed frame has other than the {size:,} bytes that it announces")
    return result
