"""The frames of TFRecord files.

A frame is the length of the payload (8 bytes), the masked CRC-32C of these 8 bytes (4), the payload, and its masked
CRC-32C (4), all little-endian. A whole file may be compressed with gzip or zlib.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any, Final

import numpy as np

from webdataset import config, stores
from webdataset.codecs import check_size
from webdataset.decompress import ZLIB, Compression, Unpacked, find_compression
from webdataset.errors import TruncatedShard, Where, located
from webdataset.optional import require

from ._record_format import bad_record

HEADER: Final = struct.Struct("<QI")
FRAMING: Final = 16  # bytes around a payload
_PIECE = 1 << 20


def scan_tfrecord(url: str) -> np.ndarray[Any, Any]:
    """(offset, length with framing) of every record of an uncompressed file.

    Only the headers of a local file are read; any other file is read once as a whole.
    """
    crc = crc32c_function()
    extents: list[tuple[int, int]] = []
    offset = 0
    with closing(stores.open_read(url)) as stream:
        seek = stream.seek if stores.is_local(url) is not None else None
        while header := stores.read_fully(stream, HEADER.size):
            length = _checked_length(header, url, len(extents), offset, crc)
            if seek is not None:
                seek(offset + length + FRAMING - 1)
                whole = len(stream.read(1)) == 1
            else:
                whole = _skip(stream, length + 4) == length + 4
            if not whole:
                raise _truncated(url, len(extents), offset)
            extents.append((offset, length + FRAMING))
            offset += length + FRAMING
    return np.array(extents, np.int64).reshape(-1, 2)


def compression_of(head: bytes, crc: Any) -> Compression | None:
    """The compression of a file with this beginning; None if the checksum of its first length is right."""
    if len(head) == HEADER.size and masked(crc(head[:8])) == HEADER.unpack(head)[1]:
        return None
    return find_compression(head) or (ZLIB if head.startswith(ZLIB.magic) else None)


def read_frames(stream: Any, url: str, offset: int, number: int, crc: Any, check: Any) -> Iterator[tuple[int, bytes]]:
    """(offset, payload) of every frame of a stream that begins with frame `number` at byte `at`.

    `check` is the CRC function for payloads, or None.
    """
    while header := stores.read_fully(stream, 12):
        length = _checked_length(header, url, number, offset, crc)
        payload = stores.read_fully(stream, length)
        stored = stores.read_fully(stream, 4)
        if len(payload) != length or len(stored) != 4:
            raise _truncated(url, number, offset)
        if check is not None and masked(check(payload)) != int.from_bytes(stored, "little"):
            raise bad_record("the checksum does not match the data", url, number, offset, hint="copy the file again")
        yield offset, payload
        offset += length + FRAMING
        number += 1


def _checked_length(header: bytes, url: str, number: int, offset: int, crc: Any) -> int:
    if len(header) != HEADER.size:
        raise _truncated(url, number, offset)
    length, stored = HEADER.unpack(header)
    if masked(crc(header[:8])) != stored:
        raise bad_record(
            "the checksum of its length does not match",
            url,
            number,
            offset,
            hint="the file is damaged, or is not a TFRecord file",
        )
    with located(shard=url, offset=offset):
        check_size(length)  # before memory is allocated
    return int(length)


def _truncated(url: str, number: int, offset: int) -> TruncatedShard:
    return TruncatedShard(
        f"record {number}: the file ends inside this record",
        Where(shard=url, offset=offset),
        hint="copy the file again",
    )


@contextmanager
def open_frames(url: str, start: int, crc: Any) -> Iterator[Any]:
    """A stream of frames, unpacked if the file is compressed; `start` is for files that are not."""
    with located(shard=url), closing(stores.open_read(url, start=start) if start else stores.open_read(url)) as stream:
        if start:
            yield stream
            return
        head = stores.read_fully(stream, HEADER.size)
        kind = compression_of(head, crc)
        rewound = _Rewound(stream, head)
        yield rewound if kind is None else Unpacked(rewound, kind, limit=config.read("WDS_DECOMPRESS_LIMIT"))


class _Rewound:
    """A stream with its first bytes put back."""

    def __init__(self, stream: Any, head: bytes) -> None:
        self._stream, self._head = stream, head

    def read(self, size: int) -> bytes:
        if self._head:
            piece, self._head = self._head[:size], self._head[size:]
            return piece
        data: bytes = self._stream.read(size)
        return data


def _skip(stream: Any, size: int) -> int:
    """Read and discard `size` bytes; returns how many there were."""
    missing = size
    while missing and (piece := stream.read(min(missing, _PIECE))):
        missing -= len(piece)
    return size - missing


def crc32c_function() -> Any:
    """CRC-32C of bytes, by the package that computes it in hardware."""
    return require("google_crc32c", extra="tfrecord", why="to check and write TFRecord files").value


def masked(crc: int) -> int:
    """A CRC as it is stored: rotated and shifted, so that a CRC of CRCs is no weak one.

    >>> hex(masked(0xE3069283))
    '0xc78ab0e5'
    """
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF
