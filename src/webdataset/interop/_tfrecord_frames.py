"""The frames of TFRecord files.

A frame is the length of the payload (8 bytes), the masked CRC-32C of these 8 bytes (4), the payload, and its masked
CRC-32C (4), all little-endian. A whole file may be compressed with gzip or zlib.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from contextlib import closing
from typing import Any, Final

import numpy as np

from webdataset import stores
from webdataset.codecs import check_size
from webdataset.errors import FormatError, TruncatedShard, Where, add_where, located

from ._crc32c import crc32c_function, masked
from ._record_format import bad_record

HEADER: Final = struct.Struct("<QI")
FRAMING: Final = 16  # bytes around a payload
_PIECE = 1 << 20


def scan_tfrecord(url: str) -> np.ndarray[Any, Any]:
    """(offset, length with framing) of every record of an uncompressed file.

    Only the headers are read where the file is local; elsewhere the whole file passes by once.
    """
    crc = crc32c_function()
    extents: list[tuple[int, int]] = []
    at = 0
    with closing(stores.open_read(url)) as stream:
        seek = stream.seek if stores.is_local(url) is not None else None
        while header := _read(stream, HEADER.size):
            length = _checked_length(header, url, len(extents), at, crc)
            if seek is not None:
                seek(at + length + FRAMING - 1)
                last = len(stream.read(1))
                missing = 0 if last else 1
            else:
                missing = length + 4 - _skip(stream, length + 4)
            if missing:
                raise _cut(url, len(extents), at)
            extents.append((at, length + FRAMING))
            at += length + FRAMING
    return np.array(extents, np.int64).reshape(-1, 2)


def compression_of(head: bytes, crc: Any) -> bool:
    """Whether a file that begins like this is compressed: it is not when its first length has the right checksum."""
    if len(head) == HEADER.size and masked(crc(head[:8])) == HEADER.unpack(head)[1]:
        return False
    return head[:2] == b"\x1f\x8b" or (len(head) > 1 and head[0] == 0x78 and int.from_bytes(head[:2], "big") % 31 == 0)


def read_frames(stream: Any, url: str, at: int, number: int, crc: Any, check: Any) -> Iterator[tuple[int, bytes]]:
    """(offset, payload) of every frame of a stream that begins with frame `number` at byte `at`.

    `check` is the CRC function for payloads, or None.
    """
    while header := _read(stream, 12):
        length = _checked_length(header, url, number, at, crc)
        payload = _read(stream, length)
        stored = _read(stream, 4)
        if len(payload) != length or len(stored) != 4:
            raise _cut(url, number, at)
        if check is not None and masked(check(payload)) != int.from_bytes(stored, "little"):
            raise bad_record("the checksum does not match the data", url, number, at, hint="copy the file again")
        yield at, payload
        at += length + FRAMING
        number += 1


def _checked_length(header: bytes, url: str, number: int, at: int, crc: Any) -> int:
    if len(header) != HEADER.size:
        raise _cut(url, number, at)
    length, stored = HEADER.unpack(header)
    if masked(crc(header[:8])) != stored:
        raise bad_record(
            "the checksum of its length does not match",
            url,
            number,
            at,
            hint="the file is damaged, or is not a TFRecord file",
        )
    with located(shard=url, offset=at):
        check_size(length)  # before memory is asked for
    return int(length)


def _cut(url: str, number: int, at: int) -> TruncatedShard:
    return TruncatedShard(
        f"record {number}: the file ends inside this record", Where(shard=url, offset=at), hint="copy the file again"
    )


def open_frames(url: str, start: int, crc: Any) -> Any:
    """A stream of frames, unpacked if the file is compressed; `start` is for files that are not."""
    stream = stores.open_read(url, start=start) if start else stores.open_read(url)
    if start:
        return stream
    try:
        head = _read(stream, HEADER.size)
    except BaseException:
        stream.close()
        raise
    return _Inflated(stream, head, url) if compression_of(head, crc) else _Rewound(stream, head)


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

    def close(self) -> None:
        self._stream.close()


class _Inflated:
    """A gzip or zlib stream, unpacked; gzip may have several members."""

    def __init__(self, stream: Any, head: bytes, url: str) -> None:
        self._stream, self._url = stream, url
        self._unpacker = zlib.decompressobj(47)  # 32 + 15: gzip or zlib, as its header says
        self._input, self._output = head, bytearray()

    def read(self, size: int) -> bytes:
        while len(self._output) < size:
            if not self._input:
                self._input = self._stream.read(_PIECE)
            if not self._input:
                if not self._unpacker.eof:
                    raise TruncatedShard("the compressed data ends before its end", Where(shard=self._url))
                break
            self._unpack()
        piece = bytes(self._output[:size])
        del self._output[:size]
        return piece

    def _unpack(self) -> None:
        if self._unpacker.eof:
            self._unpacker = zlib.decompressobj(47)
        try:
            self._output += self._unpacker.decompress(self._input, _PIECE)
        except zlib.error as error:
            wrapped = FormatError(f"the compressed data is damaged: {error}", hint="copy the file again")
            add_where(wrapped, shard=self._url)
            raise wrapped from error
        self._input = self._unpacker.unconsumed_tail or self._unpacker.unused_data

    def close(self) -> None:
        self._stream.close()


def _read(stream: Any, size: int) -> bytes:
    """Exactly `size` bytes, fewer only at the end."""
    data: bytes = stream.read(size)
    if not data or len(data) == size:
        return data
    pieces = [data]
    missing = size - len(data)
    while missing and (piece := stream.read(missing)):
        pieces.append(piece)
        missing -= len(piece)
    return b"".join(pieces)


def _skip(stream: Any, size: int) -> int:
    """Read `size` bytes and forget them; how many there were."""
    missing = size
    while missing and (piece := stream.read(min(missing, _PIECE))):
        missing -= len(piece)
    return size - missing
