"""A dataset read in the background: functions of one item on a thread pool, all else in one thread that prefetches."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from webdataset.flow import Json, Pass, Recall, Resumable
from webdataset.pipeline import DataPipeline, NoTimer, Run, RunOptions, must_not_read_ahead

from ._device import Device
from ._item_sizes import size_of
from ._item_state import LoaderProgress, Tagged, loader_text, tagged
from ._meter import Meter, StageTimer, timed
from ._move_batching import as_it_is, converted
from ._pin_memory import pinned
from ._prefetch import Prefetcher
from ._stats import Stats, thread_stats
from ._thread_pool import Pool

_IN_PLACE = "functions run in place: a pass may end early, and the next one begins where it was left"


@dataclass(frozen=True, eq=False, repr=False)
class Threads(Resumable):
    """The source of a loader that uses threads.

    >>> from webdataset.pipeline import DataPipeline
    >>> list(Threads(DataPipeline(range(4)), threads=2)())
    [0, 1, 2, 3]

    Args:
        dataset: the dataset to read.
        threads: how many threads run the functions; with 0 everything runs in the consumer's thread; "auto" chooses.
        prefetch: how many items may wait for the consumer.
        memory: how many bytes may wait, half of them before and half of them after batching.
        pin_memory: yield tensors in pinned memory.
        device: yield tensors on this device.
        convert: applied to every item, before it is pinned or copied to the device.
        meter: counts how long each part is busy and how long it waits.
        watched: time every single stage too.
    """

    dataset: DataPipeline
    threads: int | str = 0
    prefetch: int = 2
    memory: int = 1 << 28
    pin_memory: bool = False
    device: Device | None = None
    convert: Callable[[Any], Any] = as_it_is
    meter: Meter = field(default_factory=Meter)
    watched: bool = False

    def __repr__(self) -> str:
        return loader_text(self.dataset, "threads")

    def __len__(self) -> int:
        return len(self.dataset)

    def start(self, during: Pass) -> LoaderProgress:
        """Return the progress at the beginning of the pass."""
        return LoaderProgress(self.dataset, during)

    def run(self, items: Iterator[Any], at: LoaderProgress, /) -> Iterator[Any]:
        """Yield the items of one epoch of the dataset."""
        if at.complete:  # it was when the state was saved
            return
        if self.convert is converted:
            converted(())  # imports torch, which would be counted as batching
        self.meter.clear()
        try:
            for tag in self._delivered(at.begin(self._options())):
                state = tag._replace(item=None)
                self.meter.counts["items"] += 1
                at.note(state)
                yield tag.item
        except BaseException as error:
            at.interrupted = not isinstance(error, GeneratorExit)
            raise
        at.complete = True

    def again(self, origin: Json, recall: Recall) -> Any:
        """Make the item again from the dataset."""
        item = self.convert(self.dataset.again(origin))
        return pinned(item) if self._pins else item

    def stats(self) -> Stats:
        """Return where the time went since the epoch began."""
        return thread_stats(self.meter, self.threads)

    def with_watch(self) -> Threads:
        """Return a copy with a copy of the dataset, in which every stage is timed."""
        return replace(self, dataset=self.dataset.compose(), meter=Meter(), watched=True)

    def _options(self) -> RunOptions:
        timer: Any = StageTimer(self.meter) if self.watched else NoTimer()
        if not self.threads:
            return RunOptions(timer=timer)
        if must_not_read_ahead(self.dataset):
            self.meter.choice = _IN_PLACE
            return RunOptions(timer=timer)
        return RunOptions(Pool(self.threads, memory=self.memory // 2, meter=self.meter).stage, timer)

    def _delivered(self, run: Run) -> Iterator[Tagged]:
        tags = self._prefetched(run)
        return tags if self.device is None else self.device.copied(tags, self.meter, _item, _with_item)

    def _prefetched(self, run: Run) -> Generator[Tagged, None, None]:
        if not self.threads:
            yield from timed(self._tags(run), self.meter, "wait")
            return
        with Prefetcher(
            lambda: self._tags(run),
            items=self.prefetch,
            memory=self.memory // 2,
            measure=_size_of_item,
            meter=self.meter,
        ) as prefetched:
            yield from prefetched

    def _tags(self, run: Run) -> Iterator[Tagged]:
        """Yield the items of the epoch; a run that is left early is closed here, by the thread that reads it."""
        convert, pins = self.convert, self._pins
        try:
            for tag in tagged(run, origins=True):
                item = convert(tag.item)
                yield tag._replace(item=pinned(item) if pins else item)
        except BaseException:
            run.close()
            raise

    @property
    def _pins(self) -> bool:
        return self.pin_memory or (self.device is not None and self.device.has_streams)


def _item(tag: Tagged) -> Any:
    return tag.item


def _with_item(tag: Tagged, item: Any) -> Tagged:
    return tag._replace(item=item)


def _size_of_item(tag: Tagged) -> int:
    return size_of(tag.item)
