"""Datasets of Hugging Face's `datasets` → samples."""

from __future__ import annotations

import copy
import logging
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any, ClassVar

from webdataset import world
from webdataset.errors import SpecError
from webdataset.flow import Json, Pass, Progress, Recall, Resumable
from webdataset.optional import require
from webdataset.pipeline import CheckEmpty

from ._field_mapping import FieldMapping
from ._guess_mapping import guess_mapping
from ._parquet import rows_of
from ._record_dataset import TypedPipeline
from ._record_format import Record
from ._sample_of_record import LOOK_AT, counter_key, with_known_key

logger = logging.getLogger(__name__)

_ROWS = 32  # rows that are taken from Arrow at once


def require_datasets() -> Any:
    """The package `datasets`."""
    return require("datasets", extra="datasets", why="to use Hugging Face datasets")


@dataclass(frozen=True)
class ReadHuggingFace(Resumable):
    """A source stage that yields the rows of a Hugging Face dataset as samples.

    A `Dataset` is split by rows among ranks and workers. An `IterableDataset` is split by its own shards among ranks,
    as `split_dataset_by_node` does, and by rows among the workers of a rank.

    Attributes:
        dataset: a `Dataset` or an `IterableDataset`, in Arrow format: nothing is decoded, no bit is lost.
        mapping: the fields of the samples; None yields rows as they are.
    """

    splits: ClassVar[bool] = True
    dataset: Any
    mapping: FieldMapping | None = None

    def __repr__(self) -> str:
        name = type(self.dataset).__name__
        return f"ReadHuggingFace({name}, {getattr(self.dataset, '_fingerprint', '')!r}, {str(self.mapping)!r})"

    def start(self, during: Pass) -> _InRows:
        """The progress before the first row of this process's part."""
        return _InRows(during)

    def run(self, items: Iterator[Any], at: _InRows, /) -> Iterator[Record]:
        """Yield the samples from the next row on."""
        numbered = self._rows(at) if hasattr(self.dataset, "__len__") else self._stream(at)
        return (self.sample(number, row) for number, row in numbered)

    def sample(self, number: int, row: Record) -> Record:
        """The sample of a row."""
        key = counter_key(0, number, 1)
        return {"__key__": key, **row} if self.mapping is None else self.mapping.sample(row, key)

    def _rows(self, at: _InRows) -> Iterator[tuple[int, Record]]:
        part, parts = at.world.part
        count = len(self.dataset)
        first, last = count * part // parts, count * (part + 1) // parts
        at.next = max(at.next, first)
        while at.next < last:
            begin = at.next
            table = self.dataset[begin : min(begin + _ROWS, last)]
            for number, row in enumerate(_table_rows(table), begin):
                at.next = number + 1
                yield number, row

    def _stream(self, at: _InRows) -> Iterator[tuple[int, Record]]:
        reader = at.world
        dataset = copy.deepcopy(self.dataset)  # a state that is loaded would stay for later passes
        if reader.ranks > 1:
            from datasets.distributed import split_dataset_by_node

            dataset = split_dataset_by_node(dataset, reader.rank, reader.ranks)
        if at.before is not None:
            dataset.load_state_dict(copy.deepcopy(at.before))
        skip = at.taken
        for table in dataset.iter(_ROWS):
            for row in islice(_table_rows(table), skip, None):
                at.taken += 1
                at.next += 1
                if (at.next - 1) % reader.workers == reader.worker:
                    yield (at.next - 1) * reader.ranks + reader.rank, row
            at.before = copy.deepcopy(dataset.state_dict())  # the dataset changes this dict later
            at.taken = skip = 0


class _InRows(Progress):
    """The number of the next row; for a stream, its state before the current table, and how many rows were taken."""

    def __init__(self, during: Pass) -> None:
        self.world = during.world
        self.next = self.taken = 0
        self.before: Json = None

    def save(self) -> Json:
        return {"next": self.next, "taken": self.taken, "before": self.before}

    def load(self, saved: Json, recall: Recall) -> None:
        if saved is not None:
            self.next, self.taken, self.before = saved["next"], saved["taken"], saved["before"]


class HuggingFaceDataset(TypedPipeline):
    """A Hugging Face dataset as a pipeline; `len` and `dataset[i]` work where the dataset has them."""

    def __init__(self, stage: ReadHuggingFace) -> None:
        super().__init__(stage, CheckEmpty())
        self.rows = stage

    def _source_items(self) -> int | None:
        """The number of rows, if one rank reads them all."""
        known = world.current().ranks == 1 and hasattr(self.rows.dataset, "__len__")
        return len(self.rows.dataset) if known else None

    @property
    def mapping(self) -> FieldMapping | None:
        """Which field comes from which column."""
        return self.rows.mapping

    def __getitem__(self, number: int) -> Record:
        """The sample of one row, before any stage that was added."""
        row = next(_table_rows(self.rows.dataset[number : number + 1]), None)
        if row is None:
            raise IndexError(f"row {number} of {len(self.rows.dataset)}")
        return self.rows.sample(number, row)


def from_hf(
    dataset: Any,
    *,
    split: str = "train",
    mapping: Any = None,
    key: str | None = None,
    streaming: bool = True,
    **options: Any,
) -> HuggingFaceDataset:
    """A Hugging Face dataset as a pipeline of samples.

    >>> datasets = require_datasets()
    >>> rows = datasets.Dataset.from_dict({"text": ["a cat", "a dog"], "label": [0, 1]})
    >>> dataset = from_hf(rows)
    >>> list(dataset.to_tuple("text.txt", "cls")), len(dataset), str(dataset.mapping)
    ([('a cat', 0), ('a dog', 1)], 2, 'text:text.txt,label:cls')

    Images and sounds stay compressed, as in a tar shard; `decode("rgb8")` decodes them. A checkpoint of a streaming
    dataset resumes on the same number of ranks and workers.

    Args:
        dataset: the name of a dataset (`"ns/name"`), or a `Dataset` or `IterableDataset` that was loaded.
        split: which split of a named dataset.
        mapping: `"image:jpg,label:cls"`; None guesses from the first rows, False yields rows as they are.
        key: the column that the key of a sample is taken from; by default a counter.
        streaming: read a named dataset without downloading it first.
        options: more arguments for `datasets.load_dataset`.
    """
    datasets = require_datasets()
    if isinstance(dataset, str):
        dataset = datasets.load_dataset(dataset, split=split, streaming=streaming, **options)
    if not isinstance(dataset, datasets.Dataset | datasets.IterableDataset):
        raise SpecError(f"{type(dataset).__name__} is not a dataset", hint="choose one split of a DatasetDict")
    rows = dataset.with_format("arrow")
    if mapping is False:
        return HuggingFaceDataset(ReadHuggingFace(rows))
    if mapping is None:
        tables = iter([rows[:LOOK_AT]]) if hasattr(rows, "__len__") else iter(rows.iter(LOOK_AT))
        fields = guess_mapping([row for table in islice(tables, 1) for row in _table_rows(table)])
        logger.info("no mapping was given, this one is used: %s", fields)
    else:
        fields = FieldMapping.of(mapping)
    fields = with_known_key(fields, key, rows.column_names, type(dataset).__name__)
    return HuggingFaceDataset(ReadHuggingFace(rows, fields))


def _table_rows(table: Any) -> Iterator[Record]:
    for batch in table.to_batches():
        yield from rows_of(batch, 0)
