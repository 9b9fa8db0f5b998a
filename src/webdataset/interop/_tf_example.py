r"""`tf.train.Example` and `tf.train.SequenceExample` as bytes: the protobuf wire format of these two messages.

    Example          {1: Features}
    SequenceExample  {1: Features (context), 2: FeatureLists}
    Features         {1: repeated {1: name, 2: Feature}}
    FeatureLists     {1: repeated {1: name, 2: {1: repeated Feature}}}
    Feature          one of {1: {1: repeated bytes}}, {2: {1: repeated float}}, {3: {1: repeated int64}}

Numbers may be packed or not, and fields that are not in this list are skipped, as protobuf demands. A feature becomes a
list of bytes, an array of float32 or an array of int64; a feature without a kind is left out, as TensorFlow does.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from typing import Any, Final

import numpy as np

from webdataset.errors import EncodingError, FormatError, Where

from ._record_format import Record

Feature = Any  # list[bytes], or an array of float32 or int64

_VARINT, _FIXED64, _LENGTH, _FIXED32 = 0, 1, 2, 5
_FIRST, _SECOND = 1 << 3 | _LENGTH, 2 << 3 | _LENGTH  # tags of the first and the second field, with a length
# From here on varints are decoded by NumPy: below, its calls cost more than a loop.
_MANY = 64


class Steps(list[Feature]):
    """A feature list of a `SequenceExample`: one feature per step.

    >>> Steps([[b"a"], [b"b", b"c"]])
    Steps([[b'a'], [b'b', b'c']])
    """

    def __repr__(self) -> str:
        return f"Steps({super().__repr__()})"


def parse_example(data: bytes) -> Record:
    r"""The features of an `Example` or a `SequenceExample`; the latter's feature lists are `Steps`.

    >>> parse_example(b"\n\x0e\n\x0c\n\x03img\x12\x05\n\x03\n\x01a")
    {'img': [b'a']}
    """
    record: Record = {}
    try:
        for field, start, stop in _messages(data, 0, len(data)):
            if field in {1, 2}:
                _read_entries(data, start, stop, record, _feature if field == 1 else _steps)
    except (IndexError, struct.error, UnicodeDecodeError) as error:
        raise FormatError(f"the message is truncated or damaged: {error}", hint="is it a tf.train.Example?") from error
    return record


def write_example(record: Record) -> bytes:
    r"""The features as a message: a `SequenceExample` if one of them is `Steps`, else an `Example`.

    >>> write_example({"label": np.array([7])}).hex()
    '0a100a0e0a056c6162656c12051a030a0107'

    Names are written in sorted order, so that the same record gives the same bytes.
    """
    lists = {name: value for name, value in record.items() if isinstance(value, Steps)}
    context = b"".join(
        _field(1, _entry(name, write_feature(value)))
        for name, value in sorted(record.items())
        if not isinstance(value, Steps)
    )
    if not lists:
        return _field(1, context)
    entries = (
        _field(1, _entry(name, b"".join(_field(1, write_feature(step)) for step in steps)))
        for name, steps in sorted(lists.items())
    )
    return (_field(1, context) if context else b"") + _field(2, b"".join(entries))


def write_feature(value: Feature) -> bytes:
    """One feature: a list of bytes, or an array of float32 or int64."""
    if isinstance(value, np.ndarray):
        if value.dtype == np.float32:
            return _field(2, _field(1, value.astype("<f4", copy=False).tobytes()) if value.size else b"")
        if value.dtype == np.int64:
            return _field(3, _field(1, b"".join(map(_varint, value.tolist()))) if value.size else b"")
        raise EncodingError(f"a feature has int64 or float32 numbers, not {value.dtype}")
    return _field(1, b"".join(_field(1, item) for item in value))


# --- reading ---------------------------------------------------------------------------------------------------------
# Loops where generators would be shorter: for records of 2 kB they save a third of the time of a conversion.


def _read_varint(data: bytes, offset: int) -> tuple[int, int]:
    """(value, position after it)."""
    value = data[offset]
    offset += 1
    if value < 0x80:
        return value, offset
    value &= 0x7F
    for shift in range(7, 70, 7):
        byte = data[offset]
        offset += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, offset
    raise FormatError("a number has more than ten bytes", Where(offset=offset))


def _content(data: bytes, offset: int, stop: int) -> tuple[int, int]:
    """(start, end) of what follows a tag at `offset - 1`, whose length is at `offset`."""
    size = data[offset]
    start = offset + 1
    if size >= 0x80:
        size, start = _read_varint(data, offset)
    if start + size > stop:
        raise FormatError(f"a field needs {start + size - stop} bytes more than there are", Where(offset=start))
    return start, start + size


def _fields(data: bytes, offset: int, stop: int) -> Iterator[tuple[int, int, int, int]]:
    """(field, wire type, start, end) of everything in a message; for numbers, start and end of the number itself."""
    while offset < stop:
        tag, start = _read_varint(data, offset)
        wire = tag & 7
        if tag < 8:
            raise FormatError("a field has the number 0", Where(offset=offset))
        if wire == _LENGTH:
            start, offset = _content(data, start, stop)
        elif wire == _VARINT:
            _, offset = _read_varint(data, start)
        elif wire in {_FIXED32, _FIXED64}:
            offset = start + (4 if wire == _FIXED32 else 8)
        else:
            raise FormatError(f"the wire type {wire} is not known", Where(offset=start))
        if offset > stop:
            raise FormatError(f"a field needs {offset - stop} bytes more than there are", Where(offset=start))
        yield tag >> 3, wire, start, offset


def _messages(data: bytes, start: int, stop: int) -> Iterator[tuple[int, int, int]]:
    """(field, start, end) of everything in a message that has a length; the rest is unknown to us and skipped."""
    return ((field, offset, end) for field, wire, offset, end in _fields(data, start, stop) if wire == _LENGTH)


def _read_entries(
    data: bytes, offset: int, stop: int, record: Record, read: Callable[[bytes, int, int], Feature | None]
) -> None:
    """Put every value of a map into the record."""
    while offset < stop:
        if data[offset] != _FIRST:  # unknown to us
            offset = next(_fields(data, offset, stop))[3]
            continue
        start, offset = _content(data, offset + 1, stop)
        name, value = _entry_of(data, start, offset)
        feature = read(data, *value)
        if feature is not None:
            record[name] = feature


def _entry_of(data: bytes, start: int, stop: int) -> tuple[str, tuple[int, int]]:
    """(name, (start, end) of the value) of one entry of a map."""
    size = data[start + 1]
    if data[start] == _FIRST and size < 0x80 and start + size + 2 < stop and data[start + size + 2] == _SECOND:
        value = _content(data, start + size + 3, stop)
        if value[1] == stop:  # a short name, then the value, and nothing else: the usual form
            return str(data[start + 2 : start + size + 2], "utf-8"), value
    name, value, offset = "", (stop, stop), start
    while offset < stop:
        tag = data[offset]
        if tag == _FIRST:
            start, offset = _content(data, offset + 1, stop)
            name = str(data[start:offset], "utf-8")
        elif tag == _SECOND:
            value = _content(data, offset + 1, stop)
            offset = value[1]
        else:
            offset = next(_fields(data, offset, stop))[3]
    return name, value


def _steps(data: bytes, start: int, stop: int) -> Steps:
    features = (_feature(data, offset, end) for field, offset, end in _messages(data, start, stop) if field == 1)
    return Steps([] if feature is None else feature for feature in features)


def _feature(data: bytes, offset: int, stop: int) -> Feature | None:
    """A list of bytes, an array, or None for a feature without a kind. The last kind wins, as in protobuf."""
    found: Feature = None
    while offset < stop:
        read = _KINDS.get(data[offset])
        if read is None:
            tag, _ = _read_varint(data, offset)
            raise FormatError(
                f"the feature kind {tag >> 3} is not known", Where(offset=offset), hint="1 to 3 are known"
            )
        start, offset = _content(data, offset + 1, stop)
        found = read(data, start, offset)
    return found


def _bytes_list(data: bytes, start: int, stop: int) -> list[bytes]:
    values = []
    offset = start
    while offset < stop:
        if data[offset] == _FIRST:
            start, offset = _content(data, offset + 1, stop)
            values.append(data[start:offset])
        else:
            offset = next(_fields(data, offset, stop))[3]
    return values


def _numbers(data: bytes, start: int, stop: int) -> bytes:
    """The bytes of all numbers of a list, which are in one piece or have a tag each."""
    if start < stop and data[start] == _FIRST:
        first, end = _content(data, start + 1, stop)
        if end == stop:
            return data[first:end]
    return b"".join(data[offset:end] for field, _, offset, end in _fields(data, start, stop) if field == 1)


def _float_list(data: bytes, start: int, stop: int) -> np.ndarray[Any, Any]:
    raw = _numbers(data, start, stop)
    if len(raw) % 4:
        raise FormatError(f"a list of floats has {len(raw)} bytes, not a multiple of 4", Where(offset=start))
    return np.frombuffer(raw, "<f4")


def _int_list(data: bytes, start: int, stop: int) -> np.ndarray[Any, Any]:
    raw = _numbers(data, start, stop)
    return _many_varints(raw) if len(raw) >= _MANY else np.array(_few_varints(raw), np.uint64).view(np.int64)


def _few_varints(raw: bytes) -> list[int]:
    if len(raw) == 1 and raw[0] < 0x80:
        return [raw[0]]
    values, offset = [], 0
    while offset < len(raw):
        value, offset = (raw[offset], offset + 1) if raw[offset] < 0x80 else _read_varint(raw, offset)
        values.append(value & 0xFFFFFFFFFFFFFFFF)
    return values


def _many_varints(raw: bytes) -> np.ndarray[Any, Any]:
    """All varints at once: a byte below 128 ends one, and each byte has 7 bits."""
    bytes_ = np.frombuffer(raw, np.uint8)
    ends = np.flatnonzero(bytes_ < 0x80)
    if not len(ends) or ends[-1] != len(bytes_) - 1:
        raise FormatError("the last number of a list is truncated")
    starts = np.concatenate([[0], ends[:-1] + 1])
    lengths = ends - starts + 1
    if lengths.max() > 10:
        raise FormatError("a number has more than ten bytes")
    places = np.arange(len(bytes_)) - np.repeat(starts, lengths)
    parts = (bytes_ & 0x7F).astype(np.uint64) << (7 * places).astype(np.uint64)
    return np.bitwise_or.reduceat(parts, starts).view(np.int64)


_KINDS: Final[dict[int, Callable[[bytes, int, int], Feature]]] = {0x0A: _bytes_list, 0x12: _float_list, 0x1A: _int_list}


# --- writing ---------------------------------------------------------------------------------------------------------


def _varint(value: int) -> bytes:
    """A number as a varint; negative ones take ten bytes, as protobuf has it."""
    value &= 0xFFFFFFFFFFFFFFFF
    if value < 0x80:
        return bytes((value,))
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _field(number: int, content: bytes) -> bytes:
    return b"".join((bytes((number << 3 | _LENGTH,)), _varint(len(content)), content))


def _entry(name: str, value: bytes) -> bytes:
    return _field(1, name.encode()) + _field(2, value)
