"""Several arrays: as parts for a socket, and as chunks in one buffer."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from typing import Any

from webdataset.errors import EncodingError, FormatError, SpecError

from ._array_header import Array, Buffer, build_array, bytedata, encode_header

magic_str = "~TenBin~"
magic_bytes = magic_str.encode("ascii")
magic = int.from_bytes(magic_bytes, "little")

CHUNK_HEAD = struct.Struct("<8sq")


def roundup(n: int, k: int = 64) -> int:
    """The next multiple of k.

    >>> roundup(65), roundup(64)
    (128, 64)
    """
    return -(-n // k) * k


def check_infos(data: Any, infos: Sequence[str], required_infos: Any = None) -> Any:
    """The data, with the infos when `required_infos` is True, after comparison when it is a list.

    >>> check_infos("data", ["a"], True)
    ('data', ['a'])
    >>> check_infos("data", ["a"], ["b"])
    Traceback (most recent call last):
    webdataset.errors.FormatError: tenbin infos are ['a'], ['b'] are required
    """
    if required_infos is None or required_infos is False:
        return data
    if required_infos is True:
        return data, infos
    if not isinstance(required_infos, list | tuple):
        raise SpecError(f"infos must be True, False or a list of names, not {required_infos!r}")
    if list(infos) != list(required_infos):
        raise FormatError(f"tenbin infos are {list(infos)}, {list(required_infos)} are required")
    return data


def encode_list(l: Sequence[Array], infos: Sequence[str] | None = None) -> list[Buffer]:  # noqa: E741 - public name
    """Header, data, header, data, … without magic: one socket frame each.

    >>> import numpy as np
    >>> [memoryview(part).nbytes for part in encode_list([np.zeros(3, "f4")])]
    [32, 12]
    """
    names = [""] * len(l) if infos is None else list(infos)
    if len(names) != len(l):
        raise EncodingError(f"{len(l)} arrays have {len(names)} infos")
    return [
        part for array, info in zip(l, names, strict=True) for part in (encode_header(array, info), bytedata(array))
    ]


def decode_list(l: Sequence[Buffer], infos: Any = False) -> Any:  # noqa: E741 - public name
    """The arrays of `encode_list`; (arrays, infos) when `infos` is True.

    >>> import numpy as np
    >>> decode_list(encode_list([np.arange(3, dtype="f4")], ["a"]), infos=True)
    ([array([0., 1., 2.], dtype=float32)], ['a'])
    """
    if len(l) % 2:
        raise FormatError(f"tenbin header without data: {len(l)} parts")
    pairs = [build_array(header, data) for header, data in zip(l[::2], l[1::2], strict=True)]
    return check_infos([array for array, _ in pairs], [info for _, info in pairs], infos)


def encode_chunks(l: Sequence[Any]) -> bytearray:  # noqa: E741 - public name
    """Buffers as chunks, one after the other.

    >>> len(encode_chunks([b"abc", b"d"]))
    160
    """
    result = bytearray()
    for part in l:
        append_chunk(result, bytedata(part))
    return result


def append_chunk(result: bytearray, data: Buffer) -> None:
    size = memoryview(data).nbytes
    result += CHUNK_HEAD.pack(magic_bytes, size)
    result += data
    result += bytes(roundup(size) - size)


def decode_chunks(buf: Buffer) -> list[memoryview]:
    """The payloads of all chunks, without copying.

    >>> [bytes(chunk) for chunk in decode_chunks(encode_chunks([b"abc", b"d"]))]
    [b'abc', b'd']
    """
    return list(_iterate_chunks(memoryview(buf).cast("B")))


def _iterate_chunks(view: memoryview) -> Iterator[memoryview]:
    position = 0
    while position < view.nbytes:
        size = chunk_size(view[position : position + CHUNK_HEAD.size])
        position += CHUNK_HEAD.size
        if position + roundup(size) > view.nbytes:
            raise FormatError(f"tenbin chunk of {size:,} bytes is truncated")
        yield view[position : position + size]
        position += roundup(size)


def chunk_size(head: Buffer) -> int:
    if len(head) < CHUNK_HEAD.size:
        raise FormatError("tenbin chunk is truncated")
    found, size = CHUNK_HEAD.unpack(head)
    if found != magic_bytes:
        raise FormatError(f"not tenbin: a chunk starts with {found.hex(' ')}")
    if not 0 <= size < 2**62:
        raise FormatError(f"tenbin chunk claims {size} bytes")
    return int(size)


def encode_buffer(l: Sequence[Array], infos: Sequence[str] | None = None) -> bytearray:  # noqa: E741 - public name
    r"""Arrays as the contents of a `.ten` file.

    >>> import numpy as np
    >>> encode_buffer([np.arange(3, dtype="f4")], ["a"])[:24]
    bytearray(b'~TenBin~ \x00\x00\x00\x00\x00\x00\x00f4\x00\x00\x00\x00\x00\x00')
    """
    if not isinstance(l, list | tuple):
        raise EncodingError(f"expected a list of arrays, got {type(l).__name__}")
    return encode_chunks(encode_list(l, infos))


def decode_buffer(buf: Buffer, infos: Any = False) -> Any:
    """The arrays in a buffer; (arrays, infos) when `infos` is True.

    >>> import numpy as np
    >>> decode_buffer(encode_buffer([np.arange(3, dtype="f4")]))
    [array([0., 1., 2.], dtype=float32)]
    """
    return decode_list(decode_chunks(buf), infos)


def tenbin_loads(data: bytes) -> list[Array]:
    """The arrays of a `.ten` field: always a list.

    >>> import numpy as np
    >>> tenbin_loads(tenbin_dumps(np.arange(3)))
    [array([0, 1, 2])]
    """
    arrays: list[Array] = decode_buffer(data)
    return arrays


def tenbin_dumps(x: Any) -> bytes:
    """One array, or a list of arrays, as a `.ten` field.

    >>> import numpy as np
    >>> len(tenbin_dumps(np.zeros(3, "i2")))
    160
    """
    return bytes(encode_buffer(list(x) if isinstance(x, list | tuple) else [x]))
