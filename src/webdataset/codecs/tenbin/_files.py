"""Arrays in streams and files."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any

from webdataset.errors import FormatError, SpecError

from ._array_header import Array, Buffer
from ._chunks import CHUNK_HEAD, append_chunk, chunk_size, decode_list, encode_list, roundup


def write_chunk(stream: IO[bytes], buf: Buffer) -> None:
    """Write one chunk to a stream.

    >>> import io
    >>> stream = io.BytesIO()
    >>> write_chunk(stream, b"abc")
    >>> read_chunk(io.BytesIO(stream.getvalue()))
    b'abc'
    """
    chunk = bytearray()
    append_chunk(chunk, buf)
    stream.write(chunk)


def read_chunk(stream: IO[bytes]) -> bytes | None:
    """The payload of the next chunk of a stream, or None at its end.

    >>> import io
    >>> read_chunk(io.BytesIO(b"")) is None
    True
    """
    head = stream.read(CHUNK_HEAD.size)
    if not head:
        return None
    size = chunk_size(head)
    payload = _read_in_pieces(stream, roundup(size))
    return payload[:size]


def _read_in_pieces(stream: IO[bytes], size: int) -> bytes:
    """Exactly `size` bytes; a forged size costs one piece of memory, not the size that it claims."""
    pieces, missing = [], size
    while missing:
        piece = stream.read(min(missing, 1 << 24))
        if not piece:
            raise FormatError(f"tenbin chunk is truncated by {missing:,} bytes")
        pieces.append(piece)
        missing -= len(piece)
    return b"".join(pieces)


def write(stream: IO[bytes], l: Sequence[Array], infos: Sequence[str] | None = None) -> None:  # noqa: E741 - public name
    """Write arrays to a stream.

    >>> import io
    >>> stream = io.BytesIO()
    >>> import numpy as np
    >>> write(stream, [np.arange(3)])
    >>> read(io.BytesIO(stream.getvalue()))
    [array([0, 1, 2])]
    """
    for part in encode_list(l, infos):
        write_chunk(stream, part)


def read(stream: IO[bytes], n: int = sys.maxsize, infos: Any = False) -> Any:
    """Read up to n arrays from a stream.

    >>> import io
    >>> read(io.BytesIO(b""))
    []
    """
    parts: list[Buffer] = []
    while len(parts) < 2 * n:
        part = read_chunk(stream)
        if part is None:
            break
        parts.append(part)
    return decode_list(parts, infos)


def save(fname: str | Path, *args: Array, infos: Sequence[str] | None = None, nocheck: bool = False) -> None:
    """Write arrays to a `.ten` file.

    >>> save("arrays.txt")
    Traceback (most recent call last):
    webdataset.errors.SpecError: arrays.txt does not end in .ten – pass nocheck=True to use another name
    """
    _check_name(fname, nocheck=nocheck)
    with Path(fname).open("wb") as stream:
        write(stream, args, infos)


def load(fname: str | Path, infos: Any = False, nocheck: bool = False) -> Any:
    """The arrays in a `.ten` file.

    >>> load("arrays.txt")
    Traceback (most recent call last):
    webdataset.errors.SpecError: arrays.txt does not end in .ten – pass nocheck=True to use another name
    """
    _check_name(fname, nocheck=nocheck)
    with Path(fname).open("rb") as stream:
        return read(stream, infos=infos)


def _check_name(fname: str | Path, *, nocheck: bool) -> None:
    if not nocheck and not str(fname).endswith(".ten"):
        raise SpecError(f"{fname} does not end in .ten", hint="pass nocheck=True to use another name")
