"""Indexed shards, read by plan: every process computes for itself which samples are its own, and in which order.

See docs/decisions/0005-planned-reading.md.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from webdataset.describe import call
from webdataset.errors import SpecError
from webdataset.flow import EndOfStreamError, Json, Pass, Source, digest
from webdataset.handlers import Handler, reraise_exception
from webdataset.index import IndexedShards
from webdataset.order import Order, numbers_of, starts_of
from webdataset.samples import ReadSamples

from ._plan_progress import COUNTED, PADDING, PlanProgress

# Samples that are looked up together when batches are small: enough to join requests, few enough to come soon.
_AT_A_TIME = 64
# Positions that are located together: a permutation has a price per call, about that of 200 positions.
_LOCATED = 2048

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
        handler: asked about samples that cannot be read.
        strict: a shard without its end-of-archive marker is an error.
        empty_check: shards without any sample are an error.
    """

    dataset: IndexedShards
    window: int | None = 0
    chunk: int | None = None
    batch: int = 1
    last: str | None = None
    fields: Sequence[str] | None = None
    handler: Handler = field(default=reraise_exception)
    strict: bool = True
    empty_check: bool = True

    def __post_init__(self) -> None:
        if not callable(self.handler):
            raise SpecError(
                f"ReadPlanned(handler={self.handler!r}) is not a function", hint="for example wds.warn_and_continue"
            )

    def __repr__(self) -> str:
        shards = len(self.dataset.urls)
        what = f"{len(self.dataset)} samples in {shards} shard{'s' * (shards != 1)} #{self._digest:08x}"
        options = {
            name: getattr(self, name)
            for name, default in (("window", 0), ("chunk", None), ("batch", 1), ("last", None), ("fields", None))
            if getattr(self, name) != default
        }
        return call("ReadPlanned", _Text(what), **options)

    @cached_property
    def _digest(self) -> int:
        return digest(*self.dataset.urls, *self.dataset.counts) & 0xFFFFFFFF

    def order(self, during: Pass) -> Order:
        """The order of an epoch."""
        window = self.window if self.chunk is None else 2 * self.batch
        return Order(self.dataset.counts, during.seed, during.epoch, window, self.chunk)

    def start(self, during: Pass) -> PlanProgress:
        """Nothing taken, everything left."""
        return PlanProgress(during, self.order(during), self.batch, self.last)

    def run(self, items: Iterator[Any], at: PlanProgress, /) -> Iterator[Sample]:
        """My positions, behind those that were taken."""
        if self.empty_check and not len(at.order):
            raise SpecError("No samples found in dataset", hint="check the shard spec; empty_check=False allows this")
        alone = at.during.world.part[1] == 1
        if alone and self.window == 0 and self.chunk is None and not at.remaining.also and self.fields is None:
            return self._in_storage_order(at)
        return self._by_lookup(at)

    def recall(self, origin: Json) -> Sample:
        """Read one sample again."""
        mark, number, _ = origin
        sample: Sample = self.dataset[number]
        return sample | {"__pad__": mark == PADDING} if mark else sample

    def close(self) -> None:
        """Let go of open shards."""
        self.dataset.close()

    def _in_storage_order(self, at: PlanProgress) -> Iterator[Sample]:
        """The whole rest from one place on: streaming beats looking up."""
        at.mark = "" if self.last is None else COUNTED
        first = at.remaining.position + at.taken
        starts = starts_of(self.dataset.counts).tolist()
        reader = ReadSamples(handler=self.handler, strict=self.strict)
        for shard, url in enumerate(self.dataset.urls):
            begin, end = starts[shard : shard + 2]
            if end <= first:
                continue
            inside = max(0, first - begin)
            with closing(reader.batches_from(url, inside, self.dataset.offset(shard, inside))) as batches:
                for batch in batches:
                    if at.remaining.position + at.taken + len(batch) > end:
                        raise self.dataset.stale(shard)
                    if at.mark:
                        for sample in batch:
                            sample["__pad__"] = False
                    for at.taken, sample in enumerate(batch, at.taken + 1):  # noqa: B020 - the start is read once
                        yield sample
            if at.remaining.position + at.taken != end:
                # Lost samples have been reported to the handler; the next shard begins where the index says.
                if self.handler is reraise_exception:
                    raise self.dataset.stale(shard)
                at.taken = end - at.remaining.position

    def _by_lookup(self, at: PlanProgress) -> Iterator[Sample]:
        marked = self.last is not None or at.during.world.ranks > 1
        try:
            for numbers, padding in self._groups(at):
                for number, pad, sample in zip(numbers, padding, self._read(numbers), strict=True):
                    at.taken += 1
                    at.number = number
                    if sample is None:  # could not be read, and the handler said to go on
                        continue
                    if marked:
                        at.mark = PADDING if pad else COUNTED
                        sample["__pad__"] = pad
                    yield sample
        except EndOfStreamError:
            return

    def _groups(self, at: PlanProgress) -> Iterator[tuple[list[int], list[bool]]]:
        """The numbers, in the order of storage, of my samples behind those that were taken: some steps at a time."""
        starts = starts_of(self.dataset.counts)
        group = self.batch * max(1, _AT_A_TIME // self.batch)
        block = group * max(1, _LOCATED // group)
        first, turns = at.taken, at.turns()
        while first < turns:
            stop = min(turns, (first // block + 1) * block)
            wanted = numbers_of(at.reader(), np.arange(first, stop))
            if at.during.world.ranks == 1:  # nobody to be equal to: the end is simply short
                wanted = wanted[wanted < len(at.remaining)]
            shards, numbers = at.order.locate(at.remaining.positions(wanted % max(1, len(at.remaining))))
            stored, padding = (starts[shards] + numbers).tolist(), (wanted >= len(at.remaining)).tolist()
            for some in range(0, len(stored), group):
                yield stored[some : some + group], padding[some : some + group]
            first = stop

    def _read(self, numbers: list[int]) -> list[Sample | None]:
        try:
            return list(self.dataset.__getitems__(numbers))
        except Exception:
            if self.handler is reraise_exception:
                raise
        return [self._read_one(number) for number in numbers]  # find the one that is bad

    def _read_one(self, number: int) -> Sample | None:
        try:
            sample: Sample = self.dataset[number]
        except Exception as error:
            if self.handler(error):
                return None
            raise EndOfStreamError from error
        return sample


class _Text(str):
    """A text that stands in a `repr` without quotes."""

    __slots__ = ()
    __repr__ = str.__str__
