"""Make the items of any steps of an indexed pipeline, without state between requests.

An item is determined by the pipeline's seed, the epoch, what remained of it when the rank began, the rank, and the
step. So a worker runs the pipeline itself from that step on. There is no second implementation that could differ.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, fields, replace
from itertools import islice
from typing import Any

import numpy as np

from webdataset import world
from webdataset.errors import FormatError, SpecError, StageError
from webdataset.flow import Pass
from webdataset.handlers import reraise_exception
from webdataset.order import Reader, numbers_of
from webdataset.pipeline import Checkpoint, Cursor, DataPipeline, Identity, InPlan, Plannable
from webdataset.plan import PlanProgress, PlanState, ReadPlanned, is_even_chain, may_drop
from webdataset.stages import Batched, Listed

from ._messages import Request
from ._served_pipeline import Offer, describe_code

_REMEDY = (
    "a stream without an index cannot be asked for a step; wds serve --to zpush://… sends one, without order or resume"
)


class StepMaker:
    """Makes the items of any steps.

    Args:
        dataset: an indexed pipeline: functions of one sample, at most one `batched`, functions of a batch.
        make: the function that made it; its file is part of what is compared.
        threads: how many steps are made at a time.
    """

    def __init__(self, dataset: DataPipeline, make: Callable[..., Any] | None = None, threads: int = 1) -> None:
        self._plan, self._dataset = _check(dataset), dataset
        batched = next((stage for stage in dataset.pipeline if isinstance(stage, (Batched, Listed))), None)
        self.offer = Offer(
            identity=_identity(dataset),
            samples=len(self._plan.dataset),
            batch=self._plan.batch if batched is not None else 0,
            last=self._plan.last,
            partial=batched is None or batched.partial,
            code=describe_code(dataset.pipeline, make),
            threads=threads,
        )

    def identity(self, batch: int) -> Identity:
        """The identity of the pipeline when a trainer makes batches of so many samples after it."""
        return _identity(self._with_plan(replace(self._plan, batch=self.offer.batch or batch)))

    def make(self, request: Request) -> list[Any]:
        """The items of the steps of a request.

        Raises:
            FormatError: there are no such steps.
            StageError: a sample was dropped, so that batches after it are not what steps say.
        """
        self._check_request(request)
        reader = Reader(request.rank, request.ranks, 0, 1, request.batch, request.start * request.batch)
        values = {each.name: getattr(self._plan, each.name) for each in fields(self._plan)}
        plan = _PlanUpTo(**values | {"batch": request.batch}, stop=request.stop * request.batch)
        cursor = Cursor(request.epoch, where=InPlan(PlanState(request.remaining, (reader,))))
        expected = (request.steps) * (1 if self.offer.batch else request.batch)
        per_item = request.batch if self.offer.batch else 1
        items, taken = [], request.start * request.batch
        with world.pretend(world.World(request.rank, request.ranks)):
            run = self._with_plan(plan).run(cursor)
            try:
                for item in islice(run.epoch(), expected):
                    items.append(item)
                    taken += per_item
                    if plan.dropped(taken, len(request.remaining)):
                        raise StageError(
                            f"a sample of the steps {request.start} to {request.stop - 1} was dropped",
                            hint="a served pipeline keeps every sample: filter on the trainer, or write other shards",
                        )
            finally:
                run.close()
        return items

    def positions(self, request: Request) -> bytes:
        """Which samples a request is for: equal requests of different jobs have equal positions."""
        self._check_request(request)
        reader = Reader(request.rank, request.ranks, 0, 1, request.batch, 0)
        turns = np.arange(request.start * request.batch, request.stop * request.batch)
        numbers, rest = numbers_of(reader, turns), len(request.remaining)
        padding = numbers >= rest
        if request.ranks == 1:
            numbers, padding = numbers[~padding], padding[~padding]
        return request.remaining.positions(numbers).tobytes() + padding.tobytes()

    def close(self) -> None:
        """Close open shards."""
        self._dataset.close()

    def _check_request(self, request: Request) -> None:
        if self.offer.batch and request.batch != self.offer.batch:
            raise FormatError(f"the trainer expects batches of {request.batch}, this pipeline makes {self.offer.batch}")
        request.remaining.check_samples(self.offer.samples)
        if request.start * request.batch * request.ranks >= len(request.remaining):
            raise FormatError(f"there is no step {request.start}")

    def _with_plan(self, plan: ReadPlanned) -> DataPipeline:
        """The pipeline with another first stage; it shares everything else."""
        result = copy.copy(self._dataset)
        result.pipeline = [plan, *self._dataset.pipeline[1:]]
        return result


@dataclass(frozen=True, repr=False, eq=False)
class _PlanUpTo(ReadPlanned):
    """A plan whose reader ends before position `stop`.

    A stage reads past that position only if a stage after the plan has dropped a sample.
    """

    stop: int = 0
    _begun: list[_ProgressUpTo] = field(default_factory=list)

    def dropped(self, taken: int, samples: int) -> bool:
        """Whether a stage dropped a sample before it yielded an item that ends at this position.

        In the last step of an epoch that changes nothing else: no batch comes after it.
        """
        at = self._begun[-1]
        steps = -(-samples // (self.batch * at.during.world.ranks))
        is_last = -(-taken // self.batch) >= steps
        return not is_last and (at.taken != taken or at.ended)

    def start(self, during: Pass) -> PlanProgress:
        """The progress before the first item."""
        self._begun.append(_ProgressUpTo(self.stop, during, self.order(during), self.batch, self.last))
        return self._begun[-1]

    def run(self, items: Iterator[Any], at: PlanProgress, /) -> Iterator[Any]:
        """The positions of this reader, up to the last one."""
        assert isinstance(at, _ProgressUpTo)
        for sample in super().run(items, at):
            yield sample
            if at.taken >= self.stop:
                break
        at.ended = True


class _ProgressUpTo(PlanProgress):
    ended = False  # a stage read past the last position

    def __init__(self, stop: int, *args: Any) -> None:
        super().__init__(*args)
        self._stop = stop

    def turns(self) -> int:
        """The number of positions up to `stop`: no sample after them is read."""
        return min(super().turns(), self._stop)


def _identity(dataset: DataPipeline) -> Identity:
    return Checkpoint.from_json(dataset.state_dict()).identity


def _check(dataset: Any) -> ReadPlanned:
    """Refuse a pipeline that cannot make a single step."""
    if not isinstance(dataset, DataPipeline):
        raise SpecError(f"expected a dataset, got {dataset!r:.60}", hint="return it from the function that is served")
    plan = dataset.plan if isinstance(dataset, Plannable) else None
    if plan is None:
        raise SpecError("this pipeline has no index", hint=f"index the shards (wds index create); {_REMEDY}")
    if not is_even_chain(dataset.pipeline):
        raise SpecError(
            "this pipeline has stages that hold samples between two items, so a step alone cannot be made",
            hint="serve the pipeline up to its batched(), and put shuffle, unbatched and others on the trainer",
        )
    handlers = {getattr(stage, "handler", reraise_exception) for stage in dataset.pipeline}
    if may_drop(dataset.pipeline) or handlers != {reraise_exception}:
        raise SpecError(
            "this pipeline may drop samples (select, or a handler that goes on), so a step alone cannot be made",
            hint="select on the trainer, after the batches; or write shards without these samples",
        )
    if dataset.repetitions != 1 or dataset.nsamples > 0:
        raise SpecError("this pipeline repeats", hint="put repeat and with_epoch on wds.connect(...)")
    return plan
