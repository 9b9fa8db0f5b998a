"""The work of a conversion: input files → one output file, or a series."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from webdataset import stores
from webdataset.handlers import Handler
from webdataset.tools import MISSING, CountStage, Options, ShardResult, failure_handler, version_of, warn_of_lacking

from ._field_mapping import KEY, FieldMapping
from ._record_format import Format, Part, Record, Schema
from ._rolling_sink import RollingSink
from ._sample_of_record import check_schema, counter_key, sample_of


@dataclass(frozen=True, slots=True)
class Conversion:
    """The settings of a conversion, which are sent to worker processes.

    Attributes:
        reader: the format of the input files.
        writer: the format of the output files.
        mapping: which field comes from which.
        parts: the number of input files, for the keys of records without one.
        schema: the fields of the first input file, where it states them: the others must have the same.
        first: the address of the first input file.
    """

    reader: Format
    writer: Format
    mapping: FieldMapping
    parts: int
    schema: Schema | None
    first: str

    def counter(self) -> CountStage:
        """A counter of records, which finds the fields of the mapping that none of them has."""
        return CountStage(pair.source for pair in self.mapping.pairs)

    def samples(self, number: int, part: Part, counter: CountStage) -> Iterator[Record]:
        """The samples of the input file with this number."""
        decode = self.reader.by_extension and not self.writer.by_extension
        keyed = self.writer.by_extension or any(pair.field == KEY for pair in self.mapping.pairs)
        with self.reader.open(part) as file:
            check_schema(file.schema, self.schema, part.url, self.first)
            for row, record in enumerate(counter(file.records())):
                key = counter_key(number, row, self.parts)
                sample = sample_of(self.mapping, record, key, self.reader, part.url, row, decode=decode)
                if not keyed:
                    del sample[KEY]
                yield sample


@dataclass(frozen=True, slots=True)
class ConvertTask:
    """One input file, one output file; an input without records gives none."""

    conversion: Conversion
    number: int
    part: Part
    output: str

    @property
    def input(self) -> str:
        """The address of the input file."""
        return self.part.url

    def run(self) -> ShardResult:
        """Do the work. The output appears when it is complete, or not at all."""
        version = version_of(self.input)  # before it is read: a file that is replaced meanwhile will be done again
        counter = self.conversion.counter()
        with RollingSink(self.conversion.writer, self.output) as sink:
            for sample in self.conversion.samples(self.number, self.part, counter):
                sink.write(sample)
        filesize, checksum = stored_checksum(self.output) if sink.total else (MISSING, "")
        total = sink.total
        return ShardResult(
            self.input, self.output, total, total, sink.size, filesize, checksum, version, lacking=counter.lacking
        )


def write_stream(conversion: Conversion, parts: Sequence[Part], sink: RollingSink, options: Options) -> None:
    """Write the samples of all input files, one file after the other.

    The rest of a file that cannot be read is left out, unless `options.errors` is "stop".
    """
    handler, counter = failure_handler(options.errors), conversion.counter()
    with sink:
        for number, part in enumerate(parts):
            for sample in _readable(conversion.samples(number, part, counter), handler):
                sink.write(sample)
            if options.advance is not None:
                options.advance(1)
    warn_of_lacking([(counter.count, counter.lacking)])


def _readable(samples: Iterator[Record], handler: Handler) -> Iterator[Record]:
    try:
        yield from samples
    except Exception as error:
        handler(error)


def stored_checksum(url: str) -> tuple[int, str]:
    """The size and the MD5 of a stored object; no MD5 if it is not local, since it would have to be fetched again.

    >>> stored_checksum("memory://docs/none.tar")
    (0, '')
    """
    path = stores.is_local(url)
    if path is None:
        return max(version_of(url).size or 0, 0), ""
    with Path(path).open("rb") as file:
        checksum = hashlib.file_digest(file, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()
        return os.fstat(file.fileno()).st_size, checksum
