"""A dataset read in the background: functions of one item on a pool, everything else in one thread that works ahead."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from webdataset.errors import StateError
from webdataset.flow import Json, Pass, Resumable
from webdataset.pipeline import DataPipeline, Stream

from ._ahead import Ahead
from ._meter import Meter
from ._place import Batching, Place, Tagged, batched, described, tagged
from ._pool import Pool
from ._sizes import size_of


@dataclass(frozen=True, eq=False, repr=False)
class Threads(Resumable):
    """The source of a loader that uses threads.

    >>> from webdataset.pipeline import DataPipeline
    >>> list(Threads(DataPipeline(range(4)), threads=2)())
    [0, 1, 2, 3]

    Args:
        dataset: what is read.
        threads: how many run the functions; with none everything happens where the items are taken.
        batching: how to make batches, if the dataset does not.
        prefetch: how many items may wait for whoever takes them.
        memory: how many bytes may wait, half of them before and half of them after batching.
    """

    dataset: DataPipeline
    threads: int = 0
    batching: Batching | None = None
    prefetch: int = 2
    memory: int = 1 << 28
    meter: Meter = field(default_factory=Meter)

    def __repr__(self) -> str:
        return described(self.dataset, self.batching, "threads")

    def __len__(self) -> int:
        samples = len(self.dataset)
        if self.batching is None:
            return samples
        return samples // self.batching.size if self.batching.drop_last else -(-samples // self.batching.size)

    def check_saved(self, saved: Json) -> None:
        """Refuse what `run` could not go on from."""
        if "pass" not in saved:
            raise StateError(
                "the checkpoint was made with worker processes, here are threads",
                hint="a stream without an index resumes as it was saved; index the shards to resume anywhere",
            )

    def start(self, during: Pass) -> Place:
        """At the beginning."""
        return Place()

    def run(self, items: Iterator[Any], at: Place, /) -> Iterator[Any]:
        """Hand on the items of one epoch of the dataset."""
        stream = self.dataset.open(at.loaded, **self._how())
        complete = False
        try:
            for at.tag in self._ahead(stream):
                yield at.tag.item
            complete = True
        finally:
            if not complete:
                stream.close()
                self._leave(at)

    def _how(self) -> dict[str, Any]:
        if not self.threads:
            return {}
        return {"fused": Pool(self.threads, memory=self.memory // 2, meter=self.meter).stage}

    def _ahead(self, stream: Stream) -> Iterator[Tagged]:
        def items() -> Iterator[Tagged]:
            return batched(tagged(stream, self.dataset.nsamples), self.batching)

        if not self.threads:
            yield from items()
            return
        with Ahead(items, items=self.prefetch, memory=self.memory // 2, measure=_size_of_item) as ahead:
            yield from ahead

    def _leave(self, at: Place) -> None:
        """What the thread had made ahead is not lost: the next epoch of a dataset whose epochs go on has it."""
        try:
            self.dataset.leave(at.save())
        except StateError:
            self.dataset.leave(None)


def _size_of_item(tag: Tagged) -> int:
    return size_of(tag.item)
