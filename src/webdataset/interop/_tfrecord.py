"""TFRecord files: frames with checksums, each around one `tf.train.Example`.

A frame is the length of the payload (8 bytes), the masked CRC-32C of these 8 bytes (4), the payload, and its masked
CRC-32C (4), all little-endian. A whole file may be compressed with gzip or zlib.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from webdataset import stores
from webdataset.errors import FormatError, MissingDependency, TruncatedShard, Where, add_where

from ._record_format import Format, Part, Record, RecordFile, RecordSink, bad_record
from ._tf_example import parse_example
from ._tfrecord_index import load_tfrecord_index

_HEADER = struct.Struct("<QI")
_FRAMING = 16  # bytes around a payload
_PIECE = 1 << 20


def crc32c_function() -> Any:
    """CRC-32C of bytes, by the package that computes it in hardware."""
    try:
        from google_crc32c import value
    except ImportError as error:
        raise MissingDependency("google_crc32c", extra="tfrecord", why="to check and write TFRecord files") from error
    return value


def masked(crc: int) -> int:
    """A CRC as it is stored: rotated and shifted, so that a CRC of CRCs is no weak one.

    >>> hex(masked(0xE3069283))
    '0xc78ab0e5'
    """
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


@dataclass(frozen=True)
class TFRecord(Format):
    """TFRecord files of `tf.train.Example` or `tf.train.SequenceExample`.

    >>> from webdataset.interop import TFRecord, write
    >>> write([{"__key__": "0", "label": 7}], "memory://docs/a.tfrecord")
    1
    >>> with TFRecord().open(Part("memory://docs/a.tfrecord")) as file:
    ...     len(file), file[0]
    (1, {'__key__': [b'0'], 'label': array([7])})

    Attributes:
        check: verify the checksum of every payload. The checksums of lengths are always verified.
        index: the address of an index, `*` standing for the name of the file without its extension; None looks for
            `.tfindex` and `.idx` beside the file.
        compression: what a file is written with: "gzip" or "zlib". Reading finds out by itself.
    """

    check: bool = True
    index: str | None = None
    compression: str | None = None

    name: ClassVar[str] = "tfrecord"
    suffixes: ClassVar[tuple[str, ...]] = (".tfrecord", ".tfrecords", ".tfrecord.gz", ".tfrec")
    writes: ClassVar[bool] = True
    repeated: ClassVar[bool] = True

    def open(self, part: Part) -> RecordFile:
        """Open one file."""
        return _TFRecordFile(part.url, self)

    def create(self, url: str) -> RecordSink:
        """Begin to write one file."""
        from ._tfrecord_writer import TFRecordSink

        compression = self.compression or ("gzip" if url.endswith(".gz") else None)
        return TFRecordSink(url, compression)


class _TFRecordFile(RecordFile):
    def __init__(self, url: str, options: TFRecord) -> None:
        self._url, self._options = url, options
        self._crc = crc32c_function()
        stores.open_read(url).close()

    def __len__(self) -> int:
        return len(self._extents)

    def records(self, start: int = 0) -> Iterator[Record]:
        first = int(self._extents[start][0]) if 0 < start < len(self) and not self._compressed else 0
        skip = 0 if first or not start else start
        for number, (offset, payload) in enumerate(self.frames(first), start - skip):
            if number >= start:
                yield self._parsed(payload, number, offset)

    def __getitem__(self, number: int) -> Record:
        count = len(self)
        if not -count <= number < count:
            raise IndexError(f"record {number} of {count} in {self._url}")
        return next(self.records(number % count))

    def frames(self, start: int = 0) -> Iterator[tuple[int, bytes]]:
        """(offset, payload) of every record, checked, from the frame at byte `start` on."""
        check = self._crc if self._options.check else None
        with closing(_stream(self._url, start, self._crc)) as stream:
            yield from _frames(stream, self._url, start, self._crc, check)

    def _parsed(self, payload: bytes, number: int, offset: int) -> Record:
        try:
            return parse_example(payload)
        except FormatError as error:
            inside = error.where.offset or 0
            raise bad_record(error.what, self._url, number, offset + 12 + inside, hint=error.hint) from error

    @cached_property
    def _compressed(self) -> bool:
        with closing(stores.open_read(self._url)) as stream:
            return compression_of(stream.read(_HEADER.size), self._crc)

    @cached_property
    def _extents(self) -> np.ndarray[Any, Any]:
        """(offset, length with framing) of every record: from an index, else from the file."""
        if self._compressed:
            extents = [(offset, len(payload) + _FRAMING) for offset, payload in self.frames()]
            return np.array(extents, np.int64).reshape(-1, 2)
        found = load_tfrecord_index(self._url, self._options.index)
        return scan_tfrecord(self._url) if found is None else found


def scan_tfrecord(url: str) -> np.ndarray[Any, Any]:
    """(offset, length with framing) of every record of an uncompressed file.

    Only the headers are read where the file is local; elsewhere the whole file passes by once.
    """
    crc = crc32c_function()
    extents: list[tuple[int, int]] = []
    at = 0
    with closing(stores.open_read(url)) as stream:
        seek = stream.seek if stores.is_local(url) is not None else None
        while header := _read(stream, _HEADER.size):
            length = _checked_length(header, url, len(extents), at, crc)
            if seek is not None:
                seek(at + length + _FRAMING - 1)
                last = len(stream.read(1))
                missing = 0 if last else 1
            else:
                missing = length + 4 - _skip(stream, length + 4)
            if missing:
                raise _cut(url, len(extents), at)
            extents.append((at, length + _FRAMING))
            at += length + _FRAMING
    return np.array(extents, np.int64).reshape(-1, 2)


def compression_of(head: bytes, crc: Any) -> bool:
    """Whether a file that begins like this is compressed: it is not when its first length has the right checksum."""
    if len(head) == _HEADER.size and masked(crc(head[:8])) == _HEADER.unpack(head)[1]:
        return False
    return head[:2] == b"\x1f\x8b" or (len(head) > 1 and head[0] == 0x78 and int.from_bytes(head[:2], "big") % 31 == 0)


def _frames(stream: Any, url: str, at: int, crc: Any, check: Any) -> Iterator[tuple[int, bytes]]:
    number = 0
    while header := _read(stream, 12):
        length = _checked_length(header, url, number, at, crc)
        body = _read(stream, length + 4)
        if len(body) != length + 4:
            raise _cut(url, number, at)
        payload = body[:length]
        if check is not None and masked(check(payload)) != int.from_bytes(body[length:], "little"):
            raise bad_record("the checksum does not match the data", url, number, at, hint="copy the file again")
        yield at, payload
        at += length + _FRAMING
        number += 1


def _checked_length(header: bytes, url: str, number: int, at: int, crc: Any) -> int:
    if len(header) != _HEADER.size:
        raise _cut(url, number, at)
    length, stored = _HEADER.unpack(header)
    if masked(crc(header[:8])) != stored:
        raise bad_record(
            "the checksum of its length does not match",
            url,
            number,
            at,
            hint="the file is damaged, or is not a TFRecord file",
        )
    return int(length)


def _cut(url: str, number: int, at: int) -> TruncatedShard:
    return TruncatedShard(
        f"record {number}: the file ends inside this record", Where(shard=url, offset=at), hint="copy the file again"
    )


def _stream(url: str, start: int, crc: Any) -> Any:
    stream = stores.open_read(url, start=start) if start else stores.open_read(url)
    if start:
        return stream
    try:
        head = _read(stream, _HEADER.size)
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
