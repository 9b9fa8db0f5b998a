"""A dataset read in the background: functions of one item on a pool, everything else in one thread that works ahead."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from webdataset.errors import StateError
from webdataset.flow import Json, Pass, Resumable
from webdataset.pipeline import DataPipeline, Stream

from ._device import Device
from ._item_sizes import size_of
from ._item_state import Batching, Place, Tagged, batched, described, tagged
from ._meter import Meter, timed
from ._part_stats import thread_stats
from ._pin_memory import pinned
from ._prefetch import Ahead
from ._stage_timer import Watch
from ._stats import Stats
from ._thread_pool import Pool


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
        pin_memory: hand on tensors that a device can copy by itself.
        device: hand on tensors that lie there.
        meter: told who is busy and who waits.
        watched: time every single stage too.
    """

    dataset: DataPipeline
    threads: int = 0
    batching: Batching | None = None
    prefetch: int = 2
    memory: int = 1 << 28
    pin_memory: bool = False
    device: Device | None = None
    meter: Meter = field(default_factory=Meter)
    watched: bool = False

    def __repr__(self) -> str:
        return described(self.dataset, self.batching, "threads")

    def __len__(self) -> int:
        samples = len(self.dataset)
        if self.batching is None:
            return samples
        return samples // self.batching.size if self.batching.drop_last else -(-samples // self.batching.size)

    def check_saved(self, saved: Json) -> None:
        """Refuse what `run` could not go on from."""
        if not isinstance(saved, dict) or "pass" not in saved:
            raise StateError(
                "the checkpoint was made with worker processes, here are threads",
                hint="a stream without an index resumes as it was saved; index the shards to resume anywhere",
            )

    def start(self, during: Pass) -> Place:
        """At the beginning."""
        return Place()

    def run(self, items: Iterator[Any], at: Place, /) -> Iterator[Any]:
        """Hand on the items of one epoch of the dataset."""
        self.meter.clear()
        stream = self.dataset.open(at.loaded, **self._how())
        at.begin(stream)
        complete = False
        try:
            for tag in self._handed_over(stream):
                at.before, at.tag = at.tag, Tagged(None, tag.state, tag.since)
                self.meter.counts["items"] += 1
                yield tag.item
            complete = True
        finally:
            if not complete:
                self._leave(at)

    def stats(self) -> Stats:
        """Where the time went since the epoch began."""
        return thread_stats(self.meter, self.threads)

    def with_watch(self) -> Threads:
        """A copy that times every stage, of a copy of the dataset."""
        return replace(self, dataset=self.dataset.compose(), meter=Meter(), watched=True)

    def _how(self) -> dict[str, Any]:
        how: dict[str, Any] = {"watch": Watch(self.meter)} if self.watched else {}
        if self.threads:
            how["fused"] = Pool(self.threads, memory=self.memory // 2, meter=self.meter).stage
        return how

    def _handed_over(self, stream: Stream) -> Iterator[Tagged]:
        tags = self._ahead(stream)
        return tags if self.device is None else self.device.copied(tags, self.meter, _item, _with_item)

    def _ahead(self, stream: Stream) -> Generator[Tagged, None, None]:
        if not self.threads:
            yield from timed(self._tags(stream), self.meter, "wait")
            return
        with Ahead(
            lambda: self._tags(stream),
            items=self.prefetch,
            memory=self.memory // 2,
            measure=_size_of_item,
            meter=self.meter,
        ) as ahead:
            yield from ahead

    def _tags(self, stream: Stream) -> Iterator[Tagged]:
        """The items of the epoch; a stream that is left early is closed by the thread that runs it."""
        tags = batched(tagged(stream, self.dataset.nsamples), self.batching)
        try:
            yield from (tag._replace(item=pinned(tag.item)) for tag in tags) if self._pins else tags
        except BaseException:
            stream.close()
            raise

    @property
    def _pins(self) -> bool:
        return self.pin_memory or (self.device is not None and self.device.has_streams)

    def _leave(self, at: Place) -> None:
        """What the thread had made ahead is not lost: the next epoch of a dataset whose epochs go on has it."""
        try:
            self.dataset.leave(at.save())
        except StateError:
            self.dataset.leave(None)


def _item(tag: Tagged) -> Any:
    return tag.item


def _with_item(tag: Tagged, item: Any) -> Tagged:
    return tag._replace(item=item)


def _size_of_item(tag: Tagged) -> int:
    return size_of(tag.item)
