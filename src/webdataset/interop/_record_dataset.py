"""Files of any format as a dataset with the fluid interface."""

from __future__ import annotations

from functools import cached_property
from typing import Any, Self

from webdataset import shards, world
from webdataset.handlers import Handler, reraise_exception
from webdataset.pipeline import CheckEmpty, DataPipeline, FluidInterface

from ._field_mapping import FieldMapping
from ._format_table import find_format
from ._read_records import ReadRecords
from ._record_format import Record, RecordFile
from ._sample_of_record import find_mapping, listed_parts, schema_of


class TypedPipeline(DataPipeline, FluidInterface):
    """A pipeline whose samples have some values already: numbers, text and arrays need no decoding."""

    def decode(self, *args: Any, partial: bool = True, **options: Any) -> Self:
        """Decode the fields that are bytes."""
        return super().decode(*args, partial=partial, **options)

    def _counting_stages(self) -> list[Any]:
        """The stages that were added to the source."""
        return self.pipeline[self.pipeline.index(CheckEmpty()) + 1 :]


class RecordDataset(TypedPipeline):
    """The samples of a dataset in another format, as a pipeline: `wds.interop.read("train-*.parquet").decode("rgb8")`.

    `len` is exact where one rank reads, and `dataset[i]` reads one sample; both open all files the first time. Ranks
    and workers share the files, and take turns inside a file where there are more of them than files.
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

    def _source_items(self) -> int | None:
        """The number of records, if one rank reads them all: ranks that share them may get different numbers."""
        known = world.current().ranks == 1 and self.stage_of_records.handler is reraise_exception
        return sum(self._lengths) if known else None

    def __getitem__(self, number: int) -> Record:
        """The sample with this number, before any stage that was added."""
        wanted = number
        for part, length in zip(self.stage_of_records.parts, self._lengths, strict=True):
            if 0 <= wanted < length:
                file = self._last.open(self.stage_of_records, part.url)
                return self.stage_of_records.sample(part.url, wanted, file[wanted])
            wanted -= length
        raise IndexError(f"sample {number} of {sum(self._lengths)}")

    def close(self) -> None:
        """Close what is open."""
        self._last.close()
        super().close()

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "_last": _LastOpened()}

    @cached_property
    def _lengths(self) -> list[int]:
        lengths = []
        for part in self.stage_of_records.parts:
            with self.stage_of_records.format.open(part) as file:
                lengths.append(len(file))
        return lengths


class _LastOpened:
    """Keeps the file open that was read last: the next sample is often in it, and some formats read it to open it."""

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
        mapping: `"image/encoded:jpg,label:cls"`. None guesses one from the first records (it is `dataset.mapping`);
            False yields records as they are.
        key: the field that the key of a sample is taken from; by default a counter.
        handler: called when a file cannot be read.
        shardshuffle: read the files in a new order each epoch.
    """
    kind = find_format(format, source)
    parts = listed_parts(kind, source)
    schema = schema_of(kind, parts[0])
    fields = None if mapping is False else find_mapping(kind, parts, mapping, key, by_extension=True, schema=schema)
    return RecordDataset(ReadRecords(kind, tuple(parts), fields, handler, schema), shardshuffle=bool(shardshuffle))
