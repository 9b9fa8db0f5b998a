"""Text, and integers written as text."""

from __future__ import annotations

import operator
from numbers import Number
from typing import Any

from webdataset.errors import EncodingError


def decode_text(data: bytes) -> str:
    """UTF-8 text.

    >>> decode_text("größer".encode())
    'größer'
    """
    return str(data, "utf-8")


def encode_text(value: Any) -> bytes:
    """UTF-8 bytes of a text, or of a number as Python writes it.

    >>> encode_text("größer") == "größer".encode(), encode_text(3)
    (True, b'3')
    """
    if isinstance(value, str | Number) or (hasattr(value, "item") and not getattr(value, "ndim", 0)):
        return str(value).encode()
    raise EncodingError(f"expected text, got {type(value).__name__}", hint="convert it with str(), or use 'json'")


def decode_int(data: bytes) -> int:
    r"""An integer; blanks around it are ignored.

    >>> decode_int(b" 17\n")
    17
    """
    return int(bytes(data))


def encode_int(value: Any) -> bytes:
    """An integer as ASCII digits: Python's, NumPy's and torch's integers, no other numbers.

    >>> encode_int(17), encode_int(True)
    (b'17', b'1')
    >>> encode_int(0.5)
    Traceback (most recent call last):
    webdataset.errors.EncodingError: expected an integer, got 0.5 (float) – ...
    """
    try:
        if getattr(value, "ndim", 0):
            raise TypeError("has dimensions")
        return b"%d" % operator.index(value)
    except TypeError as error:
        raise EncodingError(
            f"expected an integer, got {value!r:.60} ({type(value).__name__})",
            hint="use 'json' or 'npy' for anything else",
        ) from error


def bytestr(data: Any) -> bytes:
    """Bytes as they are, text and anything else as ASCII.

    >>> bytestr(b"a"), bytestr("a"), bytestr(3)
    (b'a', b'a', b'3')
    """
    return data if isinstance(data, bytes) else str(data).encode("ascii")
