"""CBOR from untrusted sources: no keys that can be made to collide, and no values that take long to build.

Python seeds the hashes of text and bytes, and few numbers of 64 bits share a hash. Anything else that is a key, such as
a big integer or an array, may be chosen so that all keys of a map have one hash, and each is compared with all others.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any

from webdataset.errors import FormatError, UnsafeContent
from webdataset.optional import require

from ._field_limit import check_size

_HINT = 'if you trust the data: decode(wds.handle_extension("cbor", cbor2.loads))'
_MOST_BITS = 10_000  # of the integers in a decimal or fraction: these take quadratic time
_MOST_LEVELS = 1000  # cbor2 allows 400
_PIECE = 1 << 20
_ENDLESS, _BREAK = 31, 0xFF
# Major types, and tags.
_BYTES, _TEXT, _ARRAY, _MAP, _TAG = 2, 3, 4, 5, 6
_SCALARS = {0, 1, _BYTES, _TEXT, 7}
_STRING_REFERENCE, _SET = 25, 258
_TRANSPARENT = {28, 256}  # may be between the tag of a set and its array: they allow references


def cbor_loads(data: bytes) -> Any:
    r"""The value in a CBOR field; an error if its keys or values cost too much.

    >>> cbor_loads(b"\xa1\x01\x61x")
    {1: 'x'}
    >>> cbor_loads(b"\xa1\x80\x61x")
    Traceback (most recent call last):
    webdataset.errors.UnsafeContent: the CBOR has a key other than text, bytes and small numbers – if you trust the ...
    """
    cbor2 = require("cbor2", extra="formats", why="to decode 'cbor'")
    try:
        try:
            return cbor2.loads(data, semantic_decoders=_DECODERS, strict_hashable_types=True)
        except cbor2.CBORDecodeError:  # it may have keys that are numbers, which takes a second pass to check
            read_cbor_item(io.BytesIO(data).read)
            return cbor2.loads(data, semantic_decoders=_DECODERS)
    except cbor2.CBORDecodeError as error:
        if isinstance(error.__cause__, UnsafeContent):
            raise error.__cause__ from None
        raise


def read_cbor_item(read: Callable[[int], bytes]) -> bytes:
    r"""The bytes of the next item, whose keys have been checked.

    >>> read_cbor_item(io.BytesIO(b"\x82\x01\x02 and more").read)
    b'\x82\x01\x02'

    Args:
        read: a function of a number of bytes that returns so many, or fewer at the end.
    """
    item = _Item(read)
    while item.path:
        if len(item.path) > _MOST_LEVELS:
            raise FormatError(f"the CBOR has more than {_MOST_LEVELS} levels")
        item.step()
    return bytes(item.data)


@dataclass(slots=True)
class _Open:
    """A container, tag or long string that is being read."""

    left: int  # items to come
    step: int = 0  # each so many items is a key
    is_set: bool = False  # the item is the array of a set


class _Item:
    """An item that is being read: its bytes so far, and the containers that are not complete."""

    def __init__(self, read: Callable[[int], bytes]) -> None:
        self.data = bytearray()
        self.path = [_Open(1)]
        self._read = read

    def step(self) -> None:
        """Read the next head and its content."""
        container = self.path[-1]
        if not container.left:
            self.path.pop()
            return
        is_key = container.step and not container.left % container.step
        container.left -= 1
        head = self._number(1)
        if head == _BREAK:
            container.left = 0
            return
        kind, size = head >> 5, self._size(head)
        is_endless = head & 31 == _ENDLESS
        is_still_set = container.is_set and kind == _TAG and size in _TRANSPARENT
        is_plain = kind in _SCALARS or (kind, size) == (_TAG, _STRING_REFERENCE)
        if (is_key and not is_plain) or (container.is_set and kind != _ARRAY and not is_still_set):
            raise UnsafeContent("the CBOR has a key other than text, bytes and small numbers", hint=_HINT)
        if kind == _ARRAY:
            self.path.append(_Open(size, step=int(container.is_set)))
        elif kind == _MAP:
            self.path.append(_Open(2 * size, step=2))
        elif kind == _TAG:
            self.path.append(_Open(1, is_set=is_still_set or size == _SET))
        elif kind in {_BYTES, _TEXT} and is_endless:
            self.path.append(_Open(size))
        elif kind in {_BYTES, _TEXT}:
            self._take(size)

    def _size(self, head: int) -> int:
        """The number in a head, or in the bytes after it."""
        size = head & 31
        if size < 24:
            return size
        if size < 28:
            return self._number(1 << size - 24)
        if size == _ENDLESS:
            return 1 << 64
        raise FormatError(f"the CBOR has an unknown item {head:#04x}")

    def _number(self, size: int) -> int:
        self._take(size)
        return int.from_bytes(self.data[-size:], "big")

    def _take(self, size: int) -> None:
        end = len(self.data) + size
        check_size(end)
        while missing := end - len(self.data):
            piece = self._read(min(missing, _PIECE))
            if not piece:
                raise EOFError("the CBOR ends in the middle of an item")
            self.data.extend(piece)


def _decimal(parts: Any, _: bool) -> Decimal:
    match parts:
        case (int(exponent), int(digits)) if digits.bit_length() <= _MOST_BITS:
            return Decimal(f"{digits}e{exponent}")
    raise UnsafeContent("the CBOR has a decimal number of unusual parts", hint=_HINT)


def _fraction(parts: Any, _: bool) -> Fraction:
    match parts:
        case (int(upper), int(lower)) if max(upper.bit_length(), lower.bit_length()) <= _MOST_BITS:
            return Fraction(upper, lower)
    raise UnsafeContent("the CBOR has a fraction of unusual parts", hint=_HINT)


def _refuse(what: str) -> Callable[[Any, bool], Any]:
    def refuse(value: Any, _: bool) -> Any:
        raise UnsafeContent(f"the CBOR has {what}, which may take any time to build", hint=_HINT)

    return refuse


# By the number of the tag.
_DECODERS = {
    4: _decimal,
    5: _refuse("a big float"),
    30: _fraction,
    35: _refuse("a regular expression"),
    36: _refuse("a MIME message"),
}
