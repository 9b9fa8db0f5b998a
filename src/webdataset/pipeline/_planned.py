"""Indexed shards, read by plan: every process computes for itself which samples are its own, and in which order.

See docs/decisions/0005-planned-reading.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from itertools import accumulate
from typing import Any, ClassVar

from webdataset.describe import Described
from webdataset.errors import SpecError, StateError
from webdataset.flow import EndOfStreamError, Json, Origin, Pass, Progress, Recall, Source
from webdataset.handlers import Handler, reraise_exception
from webdataset.index import IndexedDataset
from webdataset.samples import ReadSamples
from webdataset.shards import Order, Reader, Rest

# Samples that are looked up together when there are no batches: enough to join requests, few enough to come soon.
_AT_A_TIME = 64

Sample = dict[str, Any]


class InPlan(Progress):
    """What was left of the epoch when this process began, and how many of its own positions it took since."""

    def __init__(self, plan: ReadPlanned, during: Pass) -> None:
        self.plan, self.during = plan, during
        self.order = plan.order(during)
        self.rest = Rest(len(self.order))
        self.taken = 0
        self.number: int | None = None  # of the sample that was handed on last, where that is not plain from the count

    @property
    def origin(self) -> Json:
        """The number, in the order of storage, of the sample that was handed on last."""
        number = self.rest.position + self.taken - 1 if self.number is None else self.number
        return Origin("", number, -1) if self.taken else None

    def save(self) -> Json:
        """The rest, and who took how much of it."""
        return {"rest": self.rest.save(), **self.reader()._asdict()}

    def reader(self) -> Reader:
        """Who this is and how much it took."""
        here = self.during.world
        return Reader(here.rank, here.ranks, here.worker, here.workers, self.plan.batch, self.taken)

    def load(self, saved: Json, recall: Recall) -> None:
        """Go on with a rest, or as the reader that was saved."""
        self.rest = Rest.load(saved["rest"], len(self.order))
        if "taken" in saved:
            me = Reader(**{name: saved[name] for name in Reader._fields})
            if me[:-1] != self.reader()[:-1]:
                raise StateError(
                    f"this was saved by {me}, here is {self.reader()}",
                    hint="join the checkpoints of all ranks with wds.merge_states to resume on another topology",
                )
            self.taken = me.taken


@dataclass(frozen=True, repr=False)
class ReadPlanned(Described, Source):
    """The samples of indexed shards in the order of the epoch, this process's part of them.

    Attributes:
        dataset: the shards and their indexes.
        window: how many shards are mixed at a time; 0 keeps the order of storage, None mixes all.
        chunk: mix runs of so many samples instead of shards (quasi-random order).
        batch: how many consecutive positions make a step of one rank.
        last: what several ranks do with an uneven end: "pad" or "drop".
        fields: read only these fields.
        handler: asked about samples that cannot be read.
    """

    verb: ClassVar[str] = "ReadPlanned"
    dataset: IndexedDataset = field(compare=False)
    window: int | None = 0
    chunk: int | None = None
    batch: int = 1
    last: str = "pad"
    fields: Sequence[str] | None = None
    handler: Handler = reraise_exception

    def order(self, during: Pass) -> Order:
        """The order of an epoch."""
        return Order(self.dataset.counts, during.seed, during.epoch, self.window, self.chunk)

    def start(self, during: Pass) -> InPlan:
        """Nothing taken, everything left."""
        return InPlan(self, during)

    def run(self, items: Iterator[Any], at: InPlan, /) -> Iterator[Sample]:
        """My positions, behind those that were taken."""
        alone = at.during.world.part[1] == 1
        if alone and self.window == 0 and not at.rest.also and self.fields is None:
            return self._in_storage_order(at)
        return self._by_lookup(at)

    def recall(self, origin: Json) -> Sample:
        """Read one sample again."""
        sample: Sample = self.dataset[origin[1]]
        return sample

    def _in_storage_order(self, at: InPlan) -> Iterator[Sample]:
        """The whole rest from one place on: streaming beats looking up."""
        first = at.rest.position + at.taken
        starts = [0, *accumulate(self.dataset.counts)]
        reader = ReadSamples(handler=self.handler)
        for shard, url in enumerate(self.dataset.urls):
            begin, end = starts[shard : shard + 2]
            if end <= first:
                continue
            inside = max(0, first - begin)
            with closing(reader.batches_from(url, inside, self.dataset.offset(shard, inside))) as batches:
                for batch in batches:
                    if at.rest.position + at.taken + len(batch) > end:
                        raise self.dataset.stale(shard)
                    for at.taken, sample in enumerate(batch, at.taken + 1):  # noqa: B020 - the start is read once
                        yield sample
            if at.rest.position + at.taken != end:
                # Lost samples have been reported to the handler; the next shard begins where the index says.
                if self.handler is reraise_exception:
                    raise self.dataset.stale(shard)
                at.taken = end - at.rest.position

    def _by_lookup(self, at: InPlan) -> Iterator[Sample]:
        try:
            yield from self._looked_up(at)
        except EndOfStreamError:
            return

    def _looked_up(self, at: InPlan) -> Iterator[Sample]:
        for numbers, padding, skip in self._groups(at):
            samples = self._read(numbers)
            for place in range(skip, len(numbers)):
                at.taken += 1
                sample = samples[place]
                if sample is None:  # could not be read, and the handler said to go on
                    continue
                at.number = numbers[place]
                if padding is not None:
                    sample["__pad__"] = padding[place]
                yield sample

    def _groups(self, at: InPlan) -> Iterator[tuple[list[int], list[bool] | None, int]]:
        """The numbers of my samples, a step at a time (or several short ones), and how many of the first are done."""
        here = at.during.world
        steps = at.rest.steps(self.batch, here.ranks, self.last)
        starts = [0, *accumulate(self.dataset.counts)]
        mine = steps.of_worker(here.worker, here.workers)
        per_group = max(1, _AT_A_TIME // self.batch)
        done, skip = divmod(at.taken, self.batch * per_group)
        for group in range(done * per_group, len(mine), per_group):
            parts = [steps.part(step, here.rank) for step in mine[group : group + per_group]]
            wanted = [number for part in parts for number in part.positions.tolist()]
            padding = [bool(pad) for part in parts for pad in part.padding.tolist()]
            if here.ranks == 1:  # nobody to be equal to: the end is simply short
                wanted = [number for number, pad in zip(wanted, padding, strict=True) if not pad]
            shards, numbers = at.order.locate(at.rest.positions(wanted))
            stored = [starts[shard] + inside for shard, inside in zip(shards.tolist(), numbers.tolist(), strict=True)]
            yield stored, padding if here.ranks > 1 else None, skip
            skip = 0

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


def merge_plans(saved: Sequence[Json]) -> Json:
    """What is left when each of these readers has taken what it says.

    >>> common = {"rest": {"samples": 10, "position": 0, "also": []}, "ranks": 2, "worker": 0, "workers": 1, "batch": 2}
    >>> merge_plans([{**common, "rank": 0, "taken": 4}, {**common, "rank": 1, "taken": 2}])
    {'rest': {'samples': 10, 'position': 6, 'also': []}}
    """
    rest = Rest.load(saved[0]["rest"], saved[0]["rest"]["samples"])
    if any(each["rest"] != saved[0]["rest"] for each in saved):
        raise StateError("the checkpoints do not belong together", hint="give those that all ranks saved at one time")
    readers = [Reader(**{name: each[name] for name in Reader._fields}) for each in saved]
    expected = {(rank, worker) for rank in range(readers[0].ranks) for worker in range(readers[0].workers)}
    if {(reader.rank, reader.worker) for reader in readers} != expected or len({r[1::2] for r in readers}) > len(
        expected
    ):
        missing = sorted(expected - {(reader.rank, reader.worker) for reader in readers})
        raise StateError(f"checkpoints of (rank, worker) {missing} are missing", hint="give those of all ranks")
    return {"rest": rest.after(readers).save()}


def spread_over_ranks(saved: Sequence[Json]) -> list[Json]:
    """The same counts for every rank: for readers that go in step, one rank speaks for all."""
    return [{**each, "rank": rank} for each in saved for rank in range(each["ranks"])]


def batch_behind(stages: Iterable[Any]) -> int:
    """How many samples the first `batched` puts together, if only functions of one sample stand before it."""
    from webdataset.flow import PerItem
    from webdataset.stages import Batched, Listed

    from ._webdataset import CheckEmpty

    for stage in stages:
        if isinstance(stage, (Batched, Listed)):
            return stage.batchsize
        if not isinstance(stage, (PerItem, CheckEmpty)):
            return 1
    return 1


def with_batch(plan: ReadPlanned, stages: Iterable[Any]) -> ReadPlanned:
    """The plan with the batch size that the stages behind it call for."""
    return replace(plan, batch=batch_behind(stages))


def check_last(last: str) -> str:
    """Refuse what `last` cannot be."""
    if last not in {"pad", "drop"}:
        raise SpecError(f"last={last!r}", hint='an uneven end is filled up ("pad") or left out ("drop")')
    return last
