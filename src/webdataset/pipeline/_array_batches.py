"""Arrays of one shape out of indexed shards, a batch at a time: no Python step per sample."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from webdataset.arguments import require_count
from webdataset.flow import Json, Pass, Progress, Recall, Source
from webdataset.index import IndexedShards
from webdataset.order import Order, starts_of
from webdataset.shards import expand
from webdataset.stages import combine_values
from webdataset.world import World

Array = np.ndarray[Any, Any]


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

    It is a sequence of batches, so torch's samplers and loaders can take it (`batch_size=None`). `WebLoader` reads it
    with threads or processes, and saves where it is; processes share the batches of their rank, and their order stays
    the same. The order of an epoch is arithmetic: `seed` mixes all samples of all shards.

    Args:
        shards: the shards, as a string with braces or a list.
        field: the field that holds the arrays.
        batchsize: how many arrays make a batch; the last batch may be short.
        seed: None keeps the order of storage.
        epoch: which of the seed's orders.
        index: where indexes are kept; by default beside the shards. A shard without one is read once.
    """

    splits: ClassVar[bool] = True  # among worker processes
    shards: str | Sequence[str]
    field: str = "npy"
    batchsize: int = 256
    seed: int | None = None
    epoch: int = 0
    index: str | None = None

    def __post_init__(self) -> None:
        require_count("ArrayBatches", "batchsize", self.batchsize, least=1)

    @cached_property
    def _dataset(self) -> IndexedShards:
        return IndexedShards(expand(self.shards), index=self.index)

    @property
    def _firsts(self) -> range:
        return range(0, len(self._dataset), self.batchsize)

    @cached_property
    def _order(self) -> Order | None:
        return None if self.seed is None else Order(self._dataset.counts, self.seed, self.epoch, None)

    def __len__(self) -> int:
        return len(self._firsts)

    def __getitem__(self, number: int) -> Array:
        """One batch."""
        first = self._firsts[number]
        positions = np.arange(first, min(first + self.batchsize, len(self._dataset)))
        if self._order is not None:
            shards, inside = self._order.locate(positions)
            positions = starts_of(self._dataset.counts)[shards] + inside
        from webdataset.codecs import stack_npy

        found = stack_npy(self._dataset.column(positions, self.field))
        return found if isinstance(found, np.ndarray) else combine_values(found)

    def __iter__(self) -> Iterator[Array]:
        return (self[number] for number in range(len(self)))

    def start(self, during: Pass) -> _InBatches:
        """At the first batch of this worker process."""
        return _InBatches(during.world)

    def run(self, items: Iterator[Any], at: _InBatches, /) -> Iterator[Array]:
        """The batches of this worker process: where there are two, every second one."""
        for number in range(at.next, len(self), at.workers):
            batch = self[number]
            at.next = number + at.workers
            yield batch

    def recall(self, origin: Json) -> Array:
        """The batch of this number."""
        return self[origin]


class _InBatches(Progress):
    """The number of the next batch of a worker process."""

    def __init__(self, world: World) -> None:
        self.next, self.workers = world.worker, world.workers

    @property
    def origin(self) -> Json:
        """The number of the batch that was handed on last."""
        return self.next - self.workers

    def save(self) -> Json:
        return self.next

    def load(self, saved: Json, recall: Recall) -> None:
        if saved is not None:
            self.next = saved
