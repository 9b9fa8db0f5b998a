"""LitData: a directory with `index.json` and chunks.

A chunk is the number of items (4 bytes), their offsets and the end of the last (4 bytes each), and the items. An item
is the sizes of its leaves (4 bytes each), then the leaves; the index has their types and the tree that they form.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, Final

import numpy as np

from webdataset.codecs import unpickle_loads, unzstd
from webdataset.errors import FormatError, Where

from ._byte_ranges import ByteRanges, RangeFile, read_offsets
from ._mds import inner_url, read_index
from ._mds_values import decode_pixels
from ._record_format import Format, Part, Record, RecordFile, Schema, bad_record, damage_of, raise_undecodable, reason

_ARRAYS = (
    *("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("float16", "float32", "float64", "complex64", "complex128", "bool"),
)
_TENSORS = {
    1: "float32", 3: "float64", 5: "complex64", 7: "complex128", 9: "float16", 11: "uint8", 12: "int8",
    14: "int16", 16: "int32", 18: "int64", 19: "bool", 20: "uint16",
}  # fmt: skip
_LISTS = {2: "<i8", 3: "<f8", 4: "?"}  # 1 is text, 6 are dicts
_BLOCKS = b"LDFZ01\0\0"


@dataclass(frozen=True)
class LitData(Format):
    """Datasets that `litdata.optimize` wrote. The source is their directory.

    The items must be dicts, lists or single values; chunks may be compressed with zstd.
    """

    name: ClassVar[str] = "litdata"

    def parts(self, source: Any) -> list[Part]:
        """The chunks that `index.json` lists."""
        root, index = read_index(source)
        with damage_of("the index", f"{root}/index.json"):
            config = index["config"]
            if config.get("encryption") is not None:
                raise FormatError("the chunks are encrypted", Where(shard=root), hint="write them without encryption")
            if config.get("item_loader") not in {None, "PyTreeLoader"}:
                raise FormatError(f"expected chunks for PyTreeLoader, got {config['item_loader']}", Where(shard=root))
            return [Part(inner_url(root, chunk["filename"]), (chunk, config)) for chunk in index["chunks"]]

    def open(self, part: Part) -> RecordFile:
        """Open one chunk."""
        return _Chunk(part)


class _Chunk(RangeFile):
    def __init__(self, part: Part) -> None:
        self._chunk, config = part.details
        with damage_of("the index of types", part.url):
            self._formats: list[str] = list(config["data_format"])
            self._spec = json.loads(config["data_spec"])[1]
        packed = config.get("compression") is not None and config.get("compression_level") != "batch"
        super().__init__(part.url, config["compression"] if packed else None)

    def _read_header(self) -> None:
        with damage_of("the chunk or its index", self._url):
            self._blocks = _Blocks(self._data, self._url) if self._data.read(0, 8) == _BLOCKS else None
            self._offsets = self._find_offsets()

    def _find_offsets(self) -> list[int]:
        offsets = read_offsets(self._data) if self._blocks is None else self._blocks.offsets
        expected = self._chunk["chunk_size"]
        if len(offsets) - 1 != expected:
            raise bad_record(f"expected {expected} items as in the index, got {len(offsets) - 1}", self._url)
        return offsets

    @property
    def schema(self) -> Schema:
        return {name: str(kinds) for name, kinds in self._record(self._formats, None).items()}

    def __len__(self) -> int:
        return len(self._offsets) - 1

    def record(self, number: int) -> Record:
        begin, end = self._offsets[number : number + 2]
        try:
            data = self._data.read(begin, end - begin) if self._blocks is None else self._blocks.read(number)
        except Exception as error:
            raise bad_record(reason(error), self._url, number, None if self._blocks else begin) from error
        offset = 4 * len(self._formats)
        if len(data) < offset:
            raise bad_record("it is truncated", self._url, number, None if self._blocks else begin)
        sizes = np.frombuffer(data[:offset], "<u4").tolist()
        leaves = []
        for kind, size in zip(self._formats, sizes, strict=True):
            try:
                if offset + size > len(data):
                    raise FormatError("it ends after the item")
                leaves.append(_decode(kind, data[offset : offset + size]))
            except Exception as error:  # any decoder, on any bytes
                raise_undecodable(error, f"a leaf of type {kind}", self._url, number, begin + offset)
            offset += size
        return self._record(leaves, number)

    def _record(self, leaves: list[Any], number: int | None) -> Record:
        """The leaves, arranged as the tree that the index describes; the items of a list are the fields `0`, `1`, …"""
        with damage_of("the tree of the item in the index", self._url, number):
            try:
                tree = _tree(self._spec, iter(leaves))
            except StopIteration:
                raise bad_record("the index has more leaves than the item", self._url, number) from None
        if isinstance(tree, list | tuple):
            return {str(index): value for index, value in enumerate(tree)}
        return tree if isinstance(tree, dict) else {"item": tree}


class _Blocks:
    """A chunk whose items are compressed in blocks: a table of items, a table of blocks, the blocks."""

    def __init__(self, data: ByteRanges, url: str) -> None:
        self._data, self._url = data, url
        version, items, _, blocks = struct.unpack("<4I", data.read(8, 16))
        if version != 1:
            raise bad_record(f"expected version 1 of the chunk, got {version}", url, offset=8)
        self.offsets: list[int] = np.frombuffer(data.read(24, 4 * (items + 1)), "<u4").tolist()
        table = 24 + 4 * (items + 1)
        self._table = [struct.unpack("<IIQII", data.read(table + 24 * n, 24)) for n in range(blocks)]
        self._open: tuple[int, bytes] | None = None

    def read(self, number: int) -> bytes:
        """The bytes of one item."""
        index, (first, _, start, size, _) = next(
            (n, row) for n, row in enumerate(self._table) if row[0] <= number < row[0] + row[1]
        )
        if self._open is None or self._open[0] != index:
            self._open = index, unzstd(self._data.read(start, size))
        before = self.offsets[first]
        return self._open[1][self.offsets[number] - before : self.offsets[number + 1] - before]


def _tree(spec: dict[str, Any], leaves: Iterator[Any]) -> Any:
    kind, children = spec["type"], spec["children_spec"]
    if kind is None:
        return next(leaves)
    values = [_tree(child, leaves) for child in children]
    if kind in {"builtins.dict", "collections.OrderedDict"}:
        return dict(zip(json.loads(spec["context"]), values, strict=True))
    if kind in {"builtins.list", "builtins.tuple"}:
        return values if kind == "builtins.list" else tuple(values)
    raise FormatError(f"items of type {kind} are not known", hint="dicts, lists and tuples are")


def _decode(kind: str, data: bytes) -> Any:
    name, _, option = kind.partition(":")
    if name == "no_header_numpy":
        return np.frombuffer(data, _ARRAYS[int(option)])
    if name == "no_header_tensor":
        return np.frombuffer(data, _TENSORS[int(option)])
    decode = _DECODERS.get(name)
    if decode is None:
        raise FormatError(f"the type {kind!r} is not known", hint=f"known: {', '.join(sorted(_DECODERS))}")
    return decode(data)


def _array(data: bytes) -> np.ndarray[Any, Any]:
    code, dimensions = struct.unpack_from("<2I", data)
    shape = struct.unpack_from(f"<{dimensions}I", data, 8)
    return np.frombuffer(data, _ARRAYS[code], offset=8 + 4 * dimensions).reshape(shape)


def _tensor(data: bytes) -> np.ndarray[Any, Any]:
    code, dimensions = struct.unpack_from(">2I", data)
    shape = struct.unpack_from(f">{dimensions}I", data, 8)
    return np.frombuffer(data, _TENSORS[code], offset=8 + 4 * dimensions).reshape(shape)


def _json(data: bytes) -> Any:
    """JSON, or a list of values of one type: a tag, the number of bytes or values, and these."""
    tag, size = struct.unpack_from("<BI", data)
    if tag == 0:
        return json.loads(data[5 : 5 + size])
    values, end = _list_of(tag, data, 5, size)
    if end != len(data):
        raise FormatError(f"expected {end} bytes, got {len(data)}")
    return values


def _list_of(tag: int, data: bytes, offset: int, count: int) -> tuple[list[Any], int]:
    """(values, where they end)."""
    if tag == 1:
        values = []
        for _ in range(count):
            (size,) = struct.unpack_from("<I", data, offset)
            values.append(str(data[offset + 4 : offset + 4 + size], "utf-8"))
            offset += 4 + size
        return values, offset
    if tag == 6:
        return _rows_of(data, offset, count)
    if tag not in _LISTS:
        raise FormatError(f"a list with the tag {tag} is not known")
    array = np.frombuffer(data, _LISTS[tag], count, offset)
    return array.tolist(), offset + array.nbytes


def _rows_of(data: bytes, offset: int, count: int) -> tuple[list[Any], int]:
    """(dicts, where they end): the keys that all of them have, then value after value with a tag each."""
    keys, offset = _list_of(1, data, offset + 4, *struct.unpack_from("<I", data, offset))
    if count > len(data):  # rows without keys take no bytes
        raise FormatError(f"{count:,} rows are more than {len(data):,} bytes hold")
    rows = []
    for _ in range(count):
        row: Record = {}
        for key in keys:
            tag = data[offset] - 16
            (row[key],), offset = ([None], offset + 1) if tag == 0 else _list_of(tag, data, offset + 1, 1)
        rows.append(row)
    return rows, offset


_DECODERS: Final[dict[str, Callable[[bytes], Any]]] = {
    "int": lambda data: int.from_bytes(data, "little", signed=True),
    "integer": lambda data: int.from_bytes(data, "little", signed=True),
    "float": lambda data: struct.unpack("<d", data)[0],
    "bool": lambda data: bool(data[0]),
    "boolean": lambda data: bool(data[0]),
    "str": lambda data: str(data, "utf-8"),
    "string": lambda data: str(data, "utf-8"),
    "bytes": bytes,
    "numpy": _array,
    "tensor": _tensor,
    "json": _json,
    "pil": decode_pixels,
    "jpeg": bytes,
    "pickle": unpickle_loads,
}
