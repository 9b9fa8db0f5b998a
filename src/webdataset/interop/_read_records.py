"""Files of any format → samples: a stage for pipelines, and a dataset with the fluid interface."""

from __future__ import annotations

import logging
from collections.abc import Generator, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain, islice
from typing import Any, Self

from webdataset import shards
from webdataset.errors import FormatError, SpecError, Where, add_where
from webdataset.flow import EndOfStreamError, Json, Origin, Pass, Progress, Recall, Source, url_as_json, url_from_json
from webdataset.handlers import Handler, reraise_exception
from webdataset.pipeline import CheckEmpty, DataPipeline, FluidInterface

from ._field_mapping import FieldMapping
from ._format_table import find_format
from ._guess_mapping import guess_mapping
from ._record_format import Format, Part, Record, RecordFile, Schema

logger = logging.getLogger(__name__)

LOOK_AT = 100  # records that a guess is made from
_LOOK_AT_BYTES = 16 << 20


@dataclass(frozen=True)
class ReadRecords(Source):
    """Files in, samples out: the likes of `{"url": "a.tfrecord"}` come in.

    Attributes:
        format: how the files are read.
        parts: the files of the dataset, for what its index says about them and for their numbers in keys.
        mapping: the fields of the samples; None hands on records as the format has them.
        handler: asked when a file cannot be read; the rest of the file is lost then.
    """

    format: Format
    parts: tuple[Part, ...]
    mapping: FieldMapping | None = None
    handler: Handler = field(default=reraise_exception)
    schema: Schema | None = None  # of the first file, which the others must have too

    def start(self, during: Pass) -> InFile:
        """No file is open."""
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
                at.close()
        except EndOfStreamError:
            return

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
            if not self.handler(error):
                raise EndOfStreamError from error

    def open(self, url: str) -> RecordFile:
        """Open one file of the dataset."""
        number = self._numbers.get(url)
        file = self.format.open(Part(url) if number is None else self.parts[number])
        try:
            check_schema(file.schema, self.schema, url, self.parts[0].url)
        except BaseException:
            file.close()
            raise
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

    def close(self) -> None:
        """Nothing of this file is left."""
        self.shard, self.taken = None, 0

    @property
    def origin(self) -> Origin | None:
        """Where the sample that was handed on last came from."""
        if self.shard is None or not self.taken:
            return None
        return Origin(url_as_json(self.shard["url"]), self.taken - 1, -1)

    def save(self) -> Json:
        """The file and a number."""
        if self.shard is None:
            return None
        shard = {name: value for name, value in self.shard.items() if isinstance(value, str | int | float | None)}
        return {"shard": {**shard, "url": url_as_json(self.shard["url"])}, "taken": self.taken}

    def load(self, saved: Json, recall: Recall) -> None:
        """Become what was saved."""
        if saved is not None:
            self.open({**saved["shard"], "url": url_from_json(saved["shard"]["url"])})
            self.taken = saved["taken"]


class TypedPipeline(DataPipeline, FluidInterface):
    """A pipeline whose samples have some values already: numbers, text and arrays need no decoding."""

    def decode(self, *args: Any, partial: bool = True, **options: Any) -> Self:
        """Decode the fields that are bytes."""
        return super().decode(*args, partial=partial, **options)


class RecordDataset(TypedPipeline):
    """The samples of a dataset in another format, as a pipeline: `wds.interop.read("train-*.parquet").decode("rgb8")`.

    `len` is exact, and `dataset[i]` reads one sample; both look at the files the first time. Ranks and workers share
    the files, and take turns inside a file where there are more of them than files.
    """

    def __init__(self, stage: ReadRecords, *, shardshuffle: bool) -> None:
        super().__init__()
        self.stage_of_records = stage
        self._last = _LastOpened()
        for each in (
            shards.SimpleShardList([part.url for part in stage.parts]),
            shards.ShareShards("rank"),
            shards.ShuffleShards() if shardshuffle else None,
            shards.ShareShards("worker"),
            stage,
            CheckEmpty(),
        ):
            if each is not None:
                self.append(each)

    @property
    def mapping(self) -> FieldMapping | None:
        """Which field comes from which."""
        return self.stage_of_records.mapping

    def __len__(self) -> int:
        return self.size if self.size is not None else sum(self._lengths())

    def __getitem__(self, number: int) -> Record:
        """The sample with this number, before any stage that was added."""
        wanted = number
        for part, length in zip(self.stage_of_records.parts, self._lengths(), strict=True):
            if 0 <= wanted < length:
                file = self._last.open(self.stage_of_records, part.url)
                return self.stage_of_records.sample(part.url, wanted, file[wanted])
            wanted -= length
        raise IndexError(f"sample {number} of {len(self)}")

    def close(self) -> None:
        """Close what is open."""
        self._last.close()
        super().close()

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "_last": _LastOpened()}

    def _lengths(self) -> list[int]:
        known: list[int] | None = getattr(self, "_known_lengths", None)
        if known is None:
            known = []
            for part in self.stage_of_records.parts:
                with self.stage_of_records.format.open(part) as file:
                    known.append(len(file))
            self._known_lengths = known
        return known


class _LastOpened:
    """The file that was read last: neighbours are often asked for together, and some formats look at it when opened."""

    def __init__(self) -> None:
        self._url: str | None = None
        self._file: RecordFile | None = None

    def open(self, stage: ReadRecords, url: str) -> RecordFile:
        if self._file is None or self._url != url:
            self.close()
            self._file, self._url = stage.open(url), url
        return self._file

    def close(self) -> None:
        file, self._file = self._file, None
        if file is not None:
            file.close()

    def __del__(self) -> None:
        self.close()


def read(
    source: Any,
    format: Any = None,  # noqa: A002 - the natural word
    *,
    mapping: Any = None,
    key: str | None = None,
    handler: Handler = reraise_exception,
    shardshuffle: bool = False,
) -> RecordDataset:
    """A dataset in another format as a pipeline of samples.

    >>> from webdataset.interop import write
    >>> write([{"__key__": "a", "label": 7, "text": "seven"}], "memory://docs/read.tfrecord")
    1
    >>> dataset = read("memory://docs/read.tfrecord", mapping="label:cls,text:txt,__key__:__key__")
    >>> list(dataset.to_tuple("__key__", "cls", "txt")), len(dataset)
    ([('a', 7, b'seven')], 1)

    Args:
        source: paths or URLs as `WebDataset` takes them, or the directory of a dataset.
        format: its name (`"tfrecord"`), or an object with options (`TFRecord(check=False)`); None goes by the suffix.
        mapping: `"image/encoded:jpg,label:cls"`. None guesses one from the first records (`dataset.mapping` tells it);
            False hands on records as they are.
        key: the field that the key of a sample is taken from; by default a counter.
        handler: asked when a file cannot be read.
        shardshuffle: read the files in a new order each epoch.
    """
    kind = find_format(format, source)
    parts = listed_parts(kind, source)
    fields = None if mapping is False else find_mapping(kind, parts, mapping, key, by_extension=True)
    schema = schema_of(kind, parts[0]) if len(parts) > 1 else None
    return RecordDataset(ReadRecords(kind, tuple(parts), fields, handler, schema), shardshuffle=bool(shardshuffle))


def listed_parts(kind: Format, source: Any) -> list[Part]:
    """The parts of a dataset; none is an error."""
    if not kind.reads:
        raise SpecError(f"{kind.name} cannot be read", hint="choose another format")
    parts = kind.parts(source)
    if not parts:
        raise SpecError(f"{source!r} names no files", hint="check the path")
    return parts


def find_mapping(kind: Format, parts: list[Part], mapping: Any, key: str | None, *, by_extension: bool) -> FieldMapping:
    """The mapping that was asked for, or a guess from the first records."""
    if mapping is None:
        with kind.open(parts[0]) as file, closing(file.records()) as records:  # type: ignore[type-var]  # generators
            guess = guess_mapping(
                _first(records),
                by_extension=by_extension and not kind.by_extension,
                repeated=kind.repeated,
            )
        logger.info("no mapping was given, this one is used: %s", guess)
        return guess.with_key(key)
    return FieldMapping.of(mapping).with_key(key)


def _first(records: Iterator[Record]) -> list[Record]:
    """Some records, few if they are large."""
    found: list[Record] = []
    size = 0
    for record in islice(records, LOOK_AT):
        found.append(record)
        size += sum(
            len(value) if isinstance(value, bytes) else getattr(value, "nbytes", 0) for value in record.values()
        )
        if size > _LOOK_AT_BYTES:
            break
    return found


def counter_key(part: int, number: int, parts: int) -> str:
    """The key of a record that brings none; the same however many processes convert.

    >>> counter_key(0, 17, 1), counter_key(2, 17, 8)
    ('000000017', '000002-000000017')
    """
    return f"{number:09d}" if parts == 1 else f"{part:06d}-{number:09d}"


def sample_of(
    mapping: FieldMapping, record: Record, key: str, kind: Format, url: str, number: int, *, decode: bool = False
) -> Record:
    """The sample of a record; errors name the file and the record."""
    try:
        return mapping.sample(record, key, repeated=kind.repeated, decode=decode)
    except FormatError as error:
        error.what = f"record {number}: {error.what}"
        add_where(error, shard=url)
        raise


def schema_of(kind: Format, part: Part) -> Schema | None:
    """The fields and types of one file, where it states them."""
    with kind.open(part) as file:
        return file.schema


def check_schema(schema: Schema | None, first: Schema | None, url: str, first_url: str) -> None:
    """Refuse a file whose fields differ from those of the first one.

    >>> check_schema({"a": "int32"}, {"a": "int64"}, "2.parquet", "1.parquet")
    Traceback (most recent call last):
    webdataset.errors.FormatError: the field a is int32, and int64 in 1.parquet – 2.parquet – ...
    """
    if schema is None or first is None or schema == first:
        return
    name = next(name for name in (*first, *schema) if first.get(name) != schema.get(name))
    raise FormatError(
        f"the field {name} is {schema.get(name, 'missing')}, and {first.get(name, 'missing')} in {first_url}",
        Where(shard=url),
        hint="convert files of one schema at a time",
    )
