"""MessagePack, and values → CBOR."""

from __future__ import annotations

from typing import Any

from webdataset.errors import EncodingError
from webdataset.optional import require


def msgpack_loads(data: bytes) -> Any:
    """The value in a MessagePack field.

    >>> msgpack_loads(mp_dumps({"a": [1, b"raw"]}))
    {'a': [1, b'raw']}
    """
    return require("msgpack", extra="formats", why="to decode 'msgpack'").unpackb(data)


def mp_dumps(x: Any) -> bytes:
    r"""The value as MessagePack.

    >>> mp_dumps([1, 2])
    b'\x92\x01\x02'
    """
    try:
        return bytes(require("msgpack", extra="formats", why="to encode 'msgpack'").packb(x))
    except (TypeError, ValueError, OverflowError) as error:
        raise EncodingError(f"has no MessagePack form: {error}") from error


def cbor_dumps(x: Any) -> bytes:
    r"""The value as CBOR.

    >>> cbor_dumps([1, 2])
    b'\x82\x01\x02'
    """
    cbor2 = require("cbor2", extra="formats", why="to encode 'cbor'")
    try:
        return bytes(cbor2.dumps(x))
    except (cbor2.CBOREncodeError, TypeError, ValueError) as error:
        raise EncodingError(f"has no CBOR form: {error}") from error
