"""TFRecord files: frames with checksums, each around one `tf.train.Example`.

A frame is the length of the payload (8 bytes), the masked CRC-32C of these 8 bytes (4), the payload, and its masked
CRC-32C (4), all little-endian. A whole file may be compressed with gzip or zlib.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from webdataset import stores
from webdataset.errors import FormatError
from webdataset.redact import hides_secrets

from ._record_format import Format, Part, Record, RecordFile, RecordSink, bad_record
from ._tf_example import parse_example
from ._tfrecord_frames import FRAMING, HEADER, compression_of, crc32c_function, open_frames, read_frames, scan_tfrecord
from ._tfrecord_index import load_tfrecord_index


@hides_secrets
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

    def __len__(self) -> int:
        return len(self._extents)

    def records(self, start: int = 0) -> Iterator[Record]:
        first = int(self._extents[start][0]) if 0 < start < len(self) and not self._compressed else 0
        skip = 0 if first else start
        for number, (offset, payload) in enumerate(self.frames(first, start - skip), start - skip):
            if number >= start:
                yield self._parsed(payload, number, offset)

    def __getitem__(self, number: int) -> Record:
        count = len(self)
        if not -count <= number < count:
            raise IndexError(f"record {number} of {count} in {self._url}")
        return next(self.records(number % count))

    def frames(self, start: int = 0, number: int = 0) -> Iterator[tuple[int, bytes]]:
        """(offset, payload) of every record, checked, from frame `number` at byte `start` on."""
        check = self._crc if self._options.check else None
        with open_frames(self._url, start, self._crc) as stream:
            yield from read_frames(stream, self._url, start, number, self._crc, check)

    def _parsed(self, payload: bytes, number: int, offset: int) -> Record:
        try:
            return parse_example(payload)
        except FormatError as error:
            inside = error.where.offset or 0
            raise bad_record(error.what, self._url, number, offset + 12 + inside, hint=error.hint) from error

    @cached_property
    def _compressed(self) -> bool:
        with closing(stores.open_read(self._url)) as stream:
            return compression_of(stream.read(HEADER.size), self._crc) is not None

    @cached_property
    def _extents(self) -> np.ndarray[Any, Any]:
        """(offset, length with framing) of every record: from an index, else from the file."""
        if self._compressed:
            extents = [(offset, len(payload) + FRAMING) for offset, payload in self.frames()]
            return np.array(extents, np.int64).reshape(-1, 2)
        found = load_tfrecord_index(self._url, self._options.index)
        return scan_tfrecord(self._url) if found is None else found
