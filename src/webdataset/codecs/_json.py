"""JSON and JSON lines: read with orjson where it is installed and agrees with the standard library."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

from webdataset.errors import EncodingError
from webdataset.optional import find_package

# orjson silently turns integers beyond 64 bits into floats. Such a number has at least 19 digits in a row;
# translating and searching takes 1 µs per kB, a regular expression 8 µs (json.loads itself: 6 µs, orjson: 1 µs).
_DIGITS = bytes(ord("0") if chr(code).isdigit() and code < 128 else ord(" ") for code in range(256))
_LONG_NUMBER = b"0" * 19
_JOINED = 1 << 20  # bytes of a column that are searched together


def decode_json(data: bytes) -> Any:
    """The value that `json.loads` returns, faster when orjson is installed.

    >>> decode_json(b'{"label": 3, "big": 123456789012345678901234567890, "loss": NaN}')
    {'label': 3, 'big': 123456789012345678901234567890, 'loss': nan}
    """
    if type(data) is not bytes:
        data = bytes(data)
    orjson = find_package("orjson")
    if orjson is None or _LONG_NUMBER in data.translate(_DIGITS):
        return json.loads(data)
    try:
        return orjson.loads(data)
    except ValueError:
        # NaN, Infinity, 1e400, lone surrogates, a byte order mark: the standard library decides, and raises the error.
        return json.loads(data)


def decode_json_column(column: Sequence[bytes]) -> list[Any]:
    """The values that `decode_json` returns for a column, with one search for long numbers.

    >>> decode_json_column([b"1", b"[NaN]"])
    [1, [nan]]
    """
    orjson = find_package("orjson")
    if (
        orjson is not None
        and sum(map(len, column)) <= _JOINED
        and _LONG_NUMBER not in b" ".join(column).translate(_DIGITS)
    ):
        loads = orjson.loads
        try:
            return [loads(data) for data in column]
        except ValueError:
            pass
    return [decode_json(data) for data in column]


def _plain(value: Any) -> Any:
    """The JSON values for NumPy's and torch's scalars and arrays."""
    if hasattr(value, "tolist") and hasattr(value, "dtype"):
        return value.tolist()
    raise TypeError(f"{type(value).__name__} has no JSON form")


_encode = json.JSONEncoder(default=_plain).encode


def encode_json(value: Any) -> bytes:
    """The bytes of `json.dumps`; NumPy and torch values become numbers and lists.

    >>> import numpy as np
    >>> encode_json({"label": np.int64(3), "box": np.array([0.5, 1])})
    b'{"label": 3, "box": [0.5, 1.0]}'
    """
    try:
        return _encode(value).encode("utf-8")
    except (TypeError, ValueError, RecursionError) as error:
        raise EncodingError(f"has no JSON form: {error}", hint="use plain dicts, lists, strings and numbers") from error


def decode_jsonl(data: bytes) -> list[Any]:
    r"""One value per line; empty lines do not count.

    >>> decode_jsonl(b'{"a": 1}\n[2]\n')
    [{'a': 1}, [2]]
    """
    return [decode_json(line) for line in bytes(data).split(b"\n") if line.strip()]


def encode_jsonl(values: Iterable[Any]) -> bytes:
    r"""One line per value.

    >>> encode_jsonl([{"a": 1}, [2]])
    b'{"a": 1}\n[2]\n'
    """
    if isinstance(values, str | bytes | dict) or not hasattr(values, "__iter__"):
        raise EncodingError(f"expected a list of values, got {type(values).__name__}", hint="use 'json' for one value")
    return b"".join(encode_json(value) + b"\n" for value in values)
