"""Files of any format → samples: a stage for pipelines."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain
from typing import Any

from webdataset.flow import (
    EndOfStreamError,
    Json,
    Origin,
    Pass,
    Progress,
    Recall,
    Source,
    ask_handler,
    count_in,
    url_as_json,
    url_from_json,
)
from webdataset.handlers import Handler, reraise_exception

from ._field_mapping import FieldMapping
from ._record_format import Format, Part, Record, RecordFile, Schema, closing_on_error
from ._sample_of_record import check_schema, counter_key, sample_of


@dataclass(frozen=True)
class ReadRecords(Source):
    """A stage that turns dicts such as `{"url": "a.tfrecord"}` into the samples of these files.

    Attributes:
        format: how the files are read.
        parts: the files of the dataset, for the details in its index and for their numbers in keys.
        mapping: the fields of the samples; None yields records as the format has them.
        handler: called when a file cannot be read; the rest of the file is lost then.
    """

    format: Format
    parts: tuple[Part, ...]
    mapping: FieldMapping | None = None
    handler: Handler = field(default=reraise_exception)
    schema: Schema | None = None  # of the first file, which the others must have too

    def start(self, during: Pass) -> InFile:
        """The progress before the first file."""
        return InFile()

    def run(self, items: Iterator[Any], at: InFile, /) -> Iterator[Record]:
        """Finish the file that is open, then read the others."""
        unfinished = [] if at.shard is None else [at.shard]
        try:
            for shard in chain(unfinished, items):
                if shard is not at.shard:
                    at.open(shard)
                first, step = shard.get("first", 0), shard.get("step", 1)
                with closing(self._samples(shard["url"], at.taken)) as samples:
                    for number, sample in samples:
                        at.taken = number + 1
                        if number % step == first:
                            yield sample
                at.finish()
        except EndOfStreamError:
            at.stopped = True

    def recall(self, origin: Json) -> Record:
        """Read one sample again."""
        address, number, _ = origin
        url = url_from_json(address)
        with self.open(url) as file:
            return self.sample(url, number, file[number])

    def _samples(self, url: str, start: int) -> Generator[tuple[int, Record], None, None]:
        try:
            with self.open(url) as file:
                for number, record in enumerate(file.records(start), start):
                    yield number, self.sample(url, number, record)
        except Exception as error:
            ask_handler(self.handler, error, shard=url)

    def open(self, url: str) -> RecordFile:
        """Open one file of the dataset."""
        number = self._numbers.get(url)
        file = self.format.open(Part(url) if number is None else self.parts[number])
        with closing_on_error(file):
            check_schema(file.schema, self.schema, url, self.parts[0].url)
        return file

    @cached_property
    def _numbers(self) -> dict[str, int]:
        return {part.url: number for number, part in enumerate(self.parts)}

    def sample(self, url: str, number: int, record: Record) -> Record:
        """The sample of a record."""
        if self.mapping is None:
            return {**record, "__url__": url}
        key = counter_key(self._numbers.get(url, 0), number, len(self.parts))
        return {**sample_of(self.mapping, record, key, self.format, url, number), "__url__": url}


class InFile(Progress):
    """The file that is open, and how many of its records were taken.

    >>> at = InFile()
    >>> at.open({"url": "a.tfrecord"})
    >>> at.taken = 2
    >>> at.origin, at.save()
    (Origin(shard='a.tfrecord', number=1, offset=-1), {'shard': {'url': 'a.tfrecord'}, 'taken': 2})
    """

    def __init__(self) -> None:
        self.shard: Mapping[str, Any] | None = None
        self.taken = 0

    def open(self, shard: Mapping[str, Any]) -> None:
        """Begin with a file."""
        self.shard, self.taken = shard, 0

    def finish(self) -> None:
        """Note that this file was read completely."""
        self.shard, self.taken = None, 0

    @property
    def origin(self) -> Origin | None:
        """Where the sample that was yielded last came from."""
        if self.shard is None or not self.taken:
            return None
        return Origin(url_as_json(self.shard["url"]), self.taken - 1, -1)

    def save(self) -> Json:
        """The file, and how many of its records were taken."""
        if self.shard is None:
            return None
        shard = {name: value for name, value in self.shard.items() if isinstance(value, str | int | float | None)}
        return {"shard": {**shard, "url": url_as_json(self.shard["url"])}, "taken": self.taken}

    def load(self, saved: Json, recall: Recall) -> None:
        """Restore what was saved."""
        if saved is not None:
            self.open({**saved["shard"], "url": url_from_json(saved["shard"]["url"])})
            self.taken = count_in(saved["taken"])
