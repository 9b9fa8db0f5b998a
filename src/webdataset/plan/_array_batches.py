"""Arrays of one shape out of indexed shards, a batch at a time: no Python step per sample."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from webdataset.arguments import require_count
from webdataset.errors import WebDatasetError, located
from webdataset.flow import Json, Origin, Pass, Source
from webdataset.index import IndexedShards
from webdataset.order import Order, Steps, starts_of
from webdataset.redact import hides_secrets
from webdataset.shards import expand, kept
from webdataset.stages import combine_values

from ._plan_progress import PlanProgress

Array = np.ndarray[Any, Any]

# Batches whose samples are located together. Of 256 mixed samples that takes 50 µs, alone 240, and reading them 500.
_LOCATED = 16


@hides_secrets
@dataclass(frozen=True, eq=False)
class ArrayBatches(Source):
    """Batches of the npy arrays under one field: tokens, embeddings, anything of one shape.

    >>> import numpy as np
    >>> from webdataset.writers import TarWriter
    >>> with TarWriter("memory://doc-arrays/a.tar") as sink:
    ...     for number in range(5):
    ...         _ = sink.write({"__key__": str(number), "tokens.npy": np.full(3, number, "u2")})
    >>> batches = ArrayBatches("memory://doc-arrays/a.tar", "tokens.npy", batchsize=2)
    >>> len(batches), batches[1].tolist(), batches[-1].tolist()
    (3, [[2, 2, 2], [3, 3, 3]], [[4, 4, 4]])

    It is a sequence of batches, so torch's samplers and loaders can take it (`batch_size=None`). In a `DataPipeline` or
    `WebLoader` it is read as an indexed `WebDataset` is: every rank and worker process has its part, an epoch has
    an order of its own, which is the same for any number of them, and a checkpoint goes on with any other number.
    Several ranks have equally many full batches: the last ones are filled up with samples from the beginning of the
    epoch, as by torch's `DistributedSampler`.

    Args:
        shards: the shards, as a string with braces or a list.
        field: the field that holds the arrays.
        batchsize: how many arrays make a batch; the last batch may be short.
        seed: mixes all samples of all shards; None keeps the order of storage.
        epoch: which of the seed's orders the sequence has; in a pipeline that of the first epoch.
        index: where indexes are kept; by default beside the shards. A shard without one is read once.
    """

    planned = "batches"

    shards: str | Sequence[str]
    field: str = "npy"
    batchsize: int = 256
    seed: int | None = None
    epoch: int = 0
    index: str | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "shards", kept(self.shards))
        for name, least in (("batchsize", 1), ("epoch", 0), ("seed", None)):
            if (value := getattr(self, name)) is not None:
                object.__setattr__(self, name, require_count("ArrayBatches", name, value, least=least))

    @cached_property
    def _dataset(self) -> IndexedShards:
        return IndexedShards(expand(self.shards), index=self.index)

    @cached_property
    def _starts(self) -> Array:
        return starts_of(self._dataset.counts)

    @cached_property
    def _own_order(self) -> Order:
        return self._order(0)

    def _order(self, epoch: int) -> Order:
        window = 0 if self.seed is None else None
        return Order(self._dataset.counts, self.seed or 0, self.epoch + epoch, window)

    def __len__(self) -> int:
        return self.steps(1)

    def steps(self, ranks: int) -> int:
        """How many batches each of so many ranks has in an epoch."""
        return len(Steps(len(self._dataset), self.batchsize, ranks))

    def __getitem__(self, number: int) -> Array:
        """One batch."""
        try:
            first = range(0, len(self._dataset), self.batchsize)[number]
        except IndexError:
            raise IndexError(f"there is no batch {number}: there are {len(self)}") from None
        positions = np.arange(first, min(first + self.batchsize, len(self._dataset)))
        return self._batch(self._numbers(self._own_order, positions))

    def _numbers(self, order: Order, positions: Array) -> Array:
        """The samples at these positions of an epoch, by their numbers in the order of storage."""
        shards, inside = order.locate(positions)
        numbers: Array = self._starts[shards] + inside
        return numbers

    def _batch(self, numbers: Array) -> Array:
        from webdataset.codecs import stack_npy

        column = self._dataset.column(numbers, self.field)
        try:
            found = stack_npy(column)
        except WebDatasetError:
            for number, row in zip(numbers.tolist(), column, strict=True):  # find the sample that is damaged
                location = self._dataset.where(number)
                with located(shard=location.url, key=location.key, field=self.field):
                    stack_npy(row[None])
            raise
        return found if isinstance(found, np.ndarray) else combine_values(found)

    def __iter__(self) -> Iterator[Array]:
        order, block = self._own_order, _LOCATED * self.batchsize
        for first in range(0, len(order), block):
            numbers = self._numbers(order, np.arange(first, min(first + block, len(order))))
            for start in range(0, len(numbers), self.batchsize):
                yield self._batch(numbers[start : start + self.batchsize])

    def start(self, during: Pass) -> _InBatches:
        """Return the progress of a pass: no batch was taken."""
        return _InBatches(during, self._order(during.epoch), self.batchsize)

    def run(self, items: Iterator[Any], at: _InBatches, /) -> Iterator[Array]:
        """Yield the batches of this process."""
        block, turns = _LOCATED * self.batchsize, at.turns()
        for first in range(at.taken, turns, block):
            positions = at.positions(first, min(first + block, turns))
            numbers = self._numbers(at.order, positions)
            for start in range(0, len(positions), self.batchsize):
                stop = start + self.batchsize
                batch = self._batch(numbers[start:stop])
                at.handed, at.taken = positions[start:stop], first + stop
                yield batch

    def recall(self, origin: Json) -> Array:
        """The batch of these positions of an epoch."""
        spans, epoch, _ = origin
        order = self._order(epoch)
        if not all(0 <= start <= stop <= len(order) for start, stop in spans):
            raise ValueError(f"{spans!r:.60} are not spans of {len(order)} positions")
        positions = np.concatenate([np.arange(*span) for span in spans])
        return self._batch(self._numbers(order, positions))

    def close(self) -> None:
        """Close the open shards."""
        if "_dataset" in self.__dict__:
            self._dataset.close()


class _InBatches(PlanProgress):
    """How many positions this process took, in whole batches."""

    handed: Any = None  # the positions of the batch that was yielded last

    @property
    def origin(self) -> Json:
        """The positions of the batch that was yielded last, their epoch, and the turn of this reader at the first."""
        if self.handed is None:
            return None
        runs = np.split(self.handed, np.flatnonzero(np.diff(self.handed) != 1) + 1)
        spans = [[int(run[0]), int(run[-1]) + 1] for run in runs]
        return Origin(spans, self.during.epoch, self.taken - self._batch + 1)
