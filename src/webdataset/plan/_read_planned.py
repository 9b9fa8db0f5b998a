"""Indexed shards, read by plan: every process computes which samples it reads, and in which order.

See docs/decisions/0005-planned-reading.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from webdataset import stores
from webdataset.arguments import require_callable
from webdataset.describe import call
from webdataset.flow import DROP, EndOfStreamError, Json, Pass, Source, ask_handler, digest
from webdataset.handlers import Handler, reraise_exception
from webdataset.index import IndexedShards
from webdataset.order import Order, starts_of
from webdataset.samples import ReadSamples
from webdataset.shards import no_samples

from ._fetch_ahead import Block, FetchAhead
from ._plan_progress import COUNTED, PADDING, PlanProgress
from ._read_adjacent import read_adjacent
from ._replace_failed import Slot

# Samples that are looked up together when batches are small: enough to join requests, few enough to come soon.
_AT_A_TIME = 64
# Positions that are located together: a call of a permutation takes as long as 200 positions.
_LOCATED = 2048

# What decides which samples come, and in which order: part of a checkpoint.
_OPTIONS = (("window", 0), ("chunk", None), ("batch", 1), ("last", None), ("fields", None), ("failed", None))

Sample = dict[str, Any]


@dataclass(frozen=True, repr=False, eq=False)
class ReadPlanned(Source):
    """The samples of indexed shards in the order of the epoch, this process's part of them.

    >>> from webdataset.testing import make_shard
    >>> shard = make_shard("memory://doc-planned/a.tar", [{"__key__": str(n), "txt": str(n)} for n in range(5)])
    >>> plan = ReadPlanned(IndexedShards([shard]), window=None)
    >>> plan
    ReadPlanned(5 samples in 1 shard #e769e8cd, window=None)
    >>> [sample["__key__"] for sample in plan()]
    ['2', '1', '3', '0', '4']

    Attributes:
        dataset: the shards and their indexes.
        window: how many shards are mixed at a time; 0 keeps the order of storage, None mixes all.
        chunk: mix runs of so many samples instead of shards, twice as many as a batch has samples at a time.
        batch: how many consecutive positions make a step of one rank.
        last: what several ranks do with an uneven end: "pad" or "drop"; None pads, and marks samples with `__pad__`
            only where there are several ranks.
        fields: the dataset reads only these fields.
        handler: called for samples that cannot be read.
        strict: a shard without its end-of-archive marker is an error.
        empty_check: shards without any sample are an error.
        opener: opens a shard that is read from some sample to its end.
        failed: "replace" yields a `Slot` for every sample, also for one that cannot be read.
    """

    planned = "samples"

    dataset: IndexedShards
    window: int | None = 0
    chunk: int | None = None
    batch: int = 1
    last: str | None = None
    fields: Sequence[str] | None = None
    handler: Handler = field(default=reraise_exception)
    strict: bool = True
    empty_check: bool = True
    opener: Any = stores.open_read
    failed: str | None = None

    def __post_init__(self) -> None:
        require_callable("ReadPlanned", handler=self.handler)

    def __repr__(self) -> str:
        shards = len(self.dataset.urls)
        what = f"{len(self.dataset)} samples in {shards} shard{'s' * (shards != 1)} #{self._digest:08x}"
        options = {name: getattr(self, name) for name, default in _OPTIONS if getattr(self, name) != default}
        return call("ReadPlanned", _Text(what), **options)

    @cached_property
    def _digest(self) -> int:
        return digest(*self.dataset.urls, *self.dataset.counts) & 0xFFFFFFFF

    def order(self, during: Pass) -> Order:
        """Return the order of an epoch."""
        window = self.window if self.chunk is None else 2 * self.batch
        return Order(self.dataset.counts, during.seed, during.epoch, window, self.chunk)

    def start(self, during: Pass) -> PlanProgress:
        """Return the progress of a pass: nothing was taken."""
        return PlanProgress(during, self.order(during), self.batch, self.last)

    def run(self, items: Iterator[Any], at: PlanProgress, /) -> Iterator[Any]:
        """Yield the samples of this process, after those that were taken."""
        if self.empty_check and not len(at.order):
            raise no_samples(self.dataset.urls)
        alone = at.during.world.part[1] == 1
        stored = self.window == 0 and self.chunk is None and not at.remaining.also
        try:
            if stored:
                self._check_before(at.remaining.position + (at.taken if alone else 0))
        except EndOfStreamError:
            at.stopped = True
            return iter(())
        if alone and stored and self.fields is None and not self.replaces:
            return self._in_storage_order(at)
        return self._by_lookup(at)

    def _check_before(self, position: int) -> None:
        """Check the index of the sample before a position at which reading goes on in the order of storage."""
        if not 0 < position <= len(self.dataset):
            return
        try:
            self.dataset.check(position - 1)
        except Exception as error:
            where = self.dataset.where(position - 1)
            ask_handler(self.handler, error, where.key, where.url)

    @property
    def replaces(self) -> bool:
        """Whether samples that are left out are replaced."""
        return self.failed == "replace"

    def recall(self, origin: Json) -> Any:
        """Read one sample again."""
        mark, number, _ = origin
        sample = self._read_one(number) if self.replaces else self.dataset[number]
        if sample is not None and mark:
            sample = sample | {"__pad__": mark == PADDING}
        return sample if not self.replaces else Slot(number, DROP if sample is None else sample)

    def close(self) -> None:
        """Close the open shards."""
        self.dataset.close()

    def _in_storage_order(self, at: PlanProgress) -> Iterator[Sample]:
        """Yield all samples from one on by streaming the shards, which is faster than looking samples up."""
        at.mark = "" if self.last is None else COUNTED
        first = at.remaining.position + at.taken
        starts = starts_of(self.dataset.counts).tolist()
        reader = ReadSamples(handler=self.handler, strict=self.strict, opener=self.opener, copy=self.dataset.copy)
        for shard, url in enumerate(self.dataset.urls):
            begin, end = starts[shard : shard + 2]
            if end <= first:
                continue
            inside = max(0, first - begin)
            try:
                with closing(reader.batches_from(url, inside, self.dataset.offset(shard, inside))) as batches:
                    for batch in batches:
                        if at.remaining.position + at.taken + len(batch) > end:
                            raise self.dataset.stale(shard)
                        if at.mark:
                            _mark_as_counted(batch)
                        for at.taken, sample in enumerate(batch, at.taken + 1):  # noqa: B020 - the start is read once
                            yield sample
            except EndOfStreamError:
                at.stopped = True
                return
            if at.remaining.position + at.taken != end:
                # The handler was called for the samples that were lost; the next shard begins where the index says.
                if self.handler is reraise_exception:
                    raise self.dataset.stale(shard)
                at.taken = end - at.remaining.position

    def _by_lookup(self, at: PlanProgress) -> Iterator[Any]:
        open_soon = getattr(self.opener, "open_soon", None)
        if open_soon is None:
            yield from self._samples(self._blocks(at), at)
            return
        with FetchAhead(open_soon, self.dataset.urls) as ahead:
            yield from self._samples(ahead.over(self._blocks(at)), at)

    def _samples(self, blocks: Iterator[Block], at: PlanProgress) -> Iterator[Any]:
        replaces = self.replaces
        marked = self.last is not None or at.during.world.ranks > 1 or replaces
        try:
            for numbers, padding in self._groups(blocks):
                for number, pad, sample in zip(numbers, padding, self._read(numbers), strict=True):
                    if marked and sample is not None:
                        sample["__pad__"] = pad
                    item = Slot(number, DROP if sample is None else sample) if replaces else sample
                    # No call from here to the `yield`: Ctrl-C comes when a call ends, and would lose the sample.
                    at.taken += 1
                    at.number = number
                    if marked:
                        at.mark = PADDING if pad else COUNTED
                    if item is not None:  # None: it could not be read, and the handler returned True
                        yield item
        except EndOfStreamError:
            at.stopped = True

    @property
    def _group(self) -> int:
        """How many samples are looked up together: those of whole steps."""
        return self.batch * max(1, _AT_A_TIME // self.batch)

    def _groups(self, blocks: Iterator[Block]) -> Iterator[tuple[list[int], list[bool]]]:
        """Yield the numbers of the samples of this process, some steps at a time, and whether each is padding."""
        for _, numbers, padding in blocks:
            for first in range(0, len(numbers), self._group):
                yield numbers[first : first + self._group], padding[first : first + self._group]

    def _blocks(self, at: PlanProgress) -> Iterator[Block]:
        """Yield the samples of this process after those that were taken, many at a time."""
        starts = starts_of(self.dataset.counts)
        block = self._group * max(1, _LOCATED // self._group)
        first, turns = at.taken, at.turns()
        while first < turns:
            stop = min(turns, (first // block + 1) * block)
            shards, numbers = at.order.locate(at.positions(first, stop))
            padding = at.numbers(first, stop) >= len(at.remaining)
            yield Block(shards, (starts[shards] + numbers).tolist(), padding.tolist())
            first = stop

    def _read(self, numbers: list[int]) -> Iterable[Sample | None]:
        try:
            return read_adjacent(self.dataset, numbers) or list(self.dataset.__getitems__(numbers))
        except Exception:
            if self.handler is reraise_exception:
                raise
        return map(self._read_one, numbers)  # one by one: the bad sample is an error after those before it were yielded

    def _read_one(self, number: int) -> Sample | None:
        try:
            sample: Sample = self.dataset[number]
        except Exception as error:
            where = self.dataset.where(number)
            ask_handler(self.handler, error, where.key, where.url)
            return None
        return sample


def _mark_as_counted(samples: list[Sample]) -> None:
    for sample in samples:
        sample["__pad__"] = False


class _Text(str):
    """A text that `repr` shows without quotes."""

    __slots__ = ()
    __repr__ = str.__str__
