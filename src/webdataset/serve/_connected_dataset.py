"""`connect`: the pipeline that workers serve, as a dataset of this process.

Its first stage is a plan like that of the pipeline itself, but the items come from workers. So a checkpoint is the
pipeline's own: saved here it resumes where the pipeline runs locally, and the other way round.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

from webdataset import world
from webdataset.errors import SpecError
from webdataset.flow import Json, Origin, Pass, Progress, Recall, Resumable
from webdataset.order import Order, Steps
from webdataset.pipeline import DataPipeline, FluidInterface, Identity, Plannable
from webdataset.plan import PlanProgress, ReadPlanned, is_even_chain, step_size
from webdataset.stages import Batched, Listed

from ._curve_keys import Keys
from ._fleet import Fleet
from ._item_frames import WireOptions
from ._messages import Request
from ._served_pipeline import Offer
from ._worker_roster import FleetOptions, options_from

# As many samples are requested together as a plan looks up together.
_SAMPLES_AT_A_TIME = 64
# But not more bytes than this, if they are more than one step.
_BYTES_AT_A_TIME = 8 << 20

Addresses = str | Sequence[str] | Callable[[], Sequence[str]]


def connect(
    addresses: Addresses,
    *,
    keys: str | Path | Keys | None = None,
    insecure: bool = False,
    patience: float = 10.0,
    timeout: float | None = 300.0,
    buffer: int = 1 << 30,
    float16: bool = False,
    zstd: int = 0,
) -> ConnectedDataset:
    """The pipeline that the workers at these addresses serve, as a dataset.

    Items come in the order in which the pipeline itself would yield them on this rank, whichever workers make them.

    >>> import webdataset as wds
    >>> from webdataset.serve import Worker
    >>> from webdataset.testing import make_shard
    >>> shard = make_shard("memory://doc-connect/a.tar", [{"__key__": str(n), "cls": n} for n in range(4)])
    >>> def make():
    ...     return wds.WebDataset(shard, index=True).decode().to_tuple("cls").batched(2)
    >>> with Worker(make) as worker:
    ...     [labels.tolist() for (labels,) in connect(worker.address)]
    [[0, 1], [2, 3]]

    Args:
        addresses: `tcp://host:port` of workers, some of which may not run yet; or a function that returns them, which
            is called again and again.
        keys: the file `trainer.key`, or its keys; needed for addresses that are not loopback.
        insecure: connect without keys.
        patience: a worker that does not answer for so many seconds gets no requests until it does.
        timeout: an error is raised after so many seconds without any answer; None for no limit.
        buffer: how many bytes of items may be in flight.
        float16: send float32 arrays with half the bytes; they arrive rounded, as float32.
        zstd: compress at this level, for slow networks.

    Raises:
        StoreTimeout: no worker answers.
        StateError: two workers serve different things.
    """
    found: Any = [addresses] if isinstance(addresses, str) else addresses if callable(addresses) else list(addresses)
    if not callable(found) and not found:
        raise SpecError("connect needs the address of a worker", hint="for example tcp://127.0.0.1:7880")
    options = options_from(keys, insecure=insecure, patience=patience, timeout=timeout, buffer=buffer)
    with Fleet(found, options) as fleet:
        offer, digest = fleet.agree()
    link = Link(found, options, WireOptions(float16, zstd), offer, digest)
    return ConnectedDataset(RemotePlan(link))


@dataclass(frozen=True)
class Link:
    """Addresses of workers, options, and what they serve. It has no connection, so it can be copied."""

    addresses: Any
    options: FleetOptions
    wire: WireOptions
    offer: Offer
    digest: str

    def open(self) -> Fleet:
        """Connect."""
        return Fleet(self.addresses, self.options, self.offer, self.digest)

    def identity(self, batch: int) -> Identity:
        """The identity of the pipeline, with batches of so many samples made after it."""
        if self.offer.batch or batch == 1:
            return self.offer.identity
        with Fleet(self.addresses, self.options) as fleet:
            return fleet.agree(batch)[0].identity


class _Samples:
    """The number of samples of the workers, in place of the samples."""

    def __init__(self, count: int) -> None:
        self.counts = [count]
        self.urls: list[str] = []

    def __len__(self) -> int:
        return self.counts[0]

    def close(self) -> None:
        """Do nothing: nothing is open."""

    def where(self, number: int) -> Any:
        """Raise an error: the workers have the index."""
        raise SpecError("where() needs the index, which the workers have", hint="ask the local pipeline")


class RemotePlan(ReadPlanned):
    """A plan whose items are made by workers."""

    link: Link

    def __init__(self, link: Link, batch: int = 1) -> None:
        offer = link.offer
        super().__init__(_Samples(offer.samples), batch=offer.batch or batch, last=offer.last)  # type: ignore[arg-type]
        object.__setattr__(self, "link", link)

    def __repr__(self) -> str:
        return f"connect({self.link.offer.identity.stages[0]})"

    def order(self, during: Pass) -> Order:
        """An order of the right length; only the workers have the rest."""
        return Order(self.dataset.counts, during.seed, during.epoch, 0)

    def start(self, during: Pass) -> PlanProgress:
        """The progress before the first item."""
        return _RemoteProgress(during, self.order(during), self.batch, self.last)

    def run(self, items: Iterator[Any], at: PlanProgress, /) -> Iterator[Any]:
        """The items of this reader's steps, after those that were taken."""
        assert isinstance(at, _RemoteProgress)
        if not len(at.order):
            raise SpecError("No samples found in dataset", hint="check the shards that the workers serve")
        return self._receive(at)

    def _receive(self, at: _RemoteProgress) -> Iterator[Any]:
        per_item = self.batch if self.link.offer.batch else 1
        reader = at.during.world
        last_turn = at.turns()
        if reader.ranks == 1:
            last_turn = min(last_turn, _turns_of_one_rank(at, reader.worker, reader.workers, self.batch))
        with self.link.open() as fleet:
            for items in self._answers(fleet, at):
                skipped, at.inside = at.inside, 0
                for item in items[skipped:]:
                    at.note(min(per_item, last_turn - at.taken))
                    yield item

    def _answers(self, fleet: Fleet, at: _RemoteProgress) -> Iterator[list[Any]]:
        """The answers to all requests. The size of the first step decides how many are requested together."""
        reader, last = at.during.world, "pad" if at.during.world.ranks == 1 else self.last or "pad"
        steps = at.remaining.steps(self.batch, reader.ranks, last).of_worker(reader.worker, reader.workers)
        done, inside = divmod(at.taken, self.batch)
        at.inside = 0 if self.link.offer.batch else inside
        together = max(1, _SAMPLES_AT_A_TIME // self.batch) if reader.workers == 1 else 1
        if together > 1:
            yield from fleet.ordered(self._requests(at, steps[done : done + 1], 1))
            done += 1
            most = min(_BYTES_AT_A_TIME, self.link.options.buffer // 4)
            together = max(1, min(together, most // max(1, fleet.last_size)))
        yield from fleet.ordered(self._requests(at, steps[done:], together))

    def _requests(self, at: _RemoteProgress, steps: range, together: int) -> Iterator[Request]:
        """Requests of so many steps each; more than one step only if they are consecutive."""
        reader, link = at.during.world, self.link
        for first in range(0, len(steps), together):
            some = steps[first : first + together]
            yield Request(
                expects=link.digest,
                epoch=at.during.epoch,
                remaining=at.remaining,
                rank=reader.rank,
                ranks=reader.ranks,
                batch=self.batch,
                start=some[0],
                stop=some[-1] + 1,
                wire=link.wire,
            )

    def recall(self, origin: Json) -> Any:
        """Never called: a stage that holds items counts them instead."""
        raise NotImplementedError

    def with_batch(self, batch: int) -> RemotePlan:
        """The same plan with steps of so many samples."""
        return RemotePlan(self.link, batch)


class _RemoteProgress(PlanProgress):
    """Counts the samples in the items that were received."""

    inside = 0  # how many items of the next answer were taken already
    _item = 1  # how many samples the last item has

    def note(self, samples: int) -> None:
        """Count one more item."""
        self._item = samples
        self.taken += samples

    @property
    def origin(self) -> Json:
        """The first sample of the item that was yielded last."""
        return Origin("", 0, self.taken - self._item + 1) if self.taken else None


class _CountedProgress(_RemoteProgress):
    """For pipelines with stages that hold items: a single item cannot be requested again, so items are counted."""

    @property
    def origin(self) -> Json:
        """None: a single item cannot be requested again."""
        return None


@dataclass(frozen=True)
class _Stream(Resumable):
    """A remote plan before stages that hold items."""

    plan: RemotePlan

    def __repr__(self) -> str:
        return repr(self.plan)

    def start(self, during: Pass) -> Progress:
        """The progress before the first item."""
        return _CountedProgress(during, self.plan.order(during), self.plan.batch, self.plan.last)

    def run(self, items: Iterator[Any], at: Any, /) -> Iterator[Any]:
        """The items."""
        return self.plan.run(items, at)

    def again(self, origin: Json, recall: Recall) -> Any:
        """Never called: items have no origin."""
        raise NotImplementedError


class ConnectedDataset(Plannable, DataPipeline, FluidInterface):
    """A pipeline that workers run. `connect` makes it; stages added to it run in this process."""

    def __init__(self, plan: RemotePlan) -> None:
        super().__init__(plan)
        self.seed = plan.link.offer.identity.seed

    @property
    def _remote(self) -> RemotePlan:
        first = self.pipeline[0]
        assert isinstance(first, RemotePlan)
        return first

    @property
    def _is_even(self) -> bool:
        """Whether the whole pipeline, with the part that workers run, is functions and at most one `batched`."""
        batches = any(isinstance(stage, (Batched, Listed)) for stage in self.pipeline[1:])
        return is_even_chain(self.pipeline) and not (batches and self._remote.link.offer.batch)

    def append(self, stage: Any) -> None:
        """Add a stage, which runs in this process."""
        DataPipeline.append(self, stage)
        if len(self.pipeline) > 1 and not self._remote.link.offer.batch:
            self.pipeline[0] = self._remote.with_batch(step_size(self.pipeline[1:]))

    def shuffle(self, size: int, *, buffer: bool = False, **kw: Any) -> Self:
        """Shuffle the received items in a buffer; the order of the plan is that of the workers."""
        return FluidInterface.shuffle(self, size, **kw)

    def _definition(self) -> Any:
        definition = super()._definition()
        if self._is_even:
            return definition
        return replace(definition, stages=[_Stream(self._remote), *definition.stages[1:]])

    def _identity(self) -> Identity:
        """The identity of the pipeline as if all of it ran in this process."""
        reader = super()._identity()
        served = self._remote.link.identity(self._remote.batch)
        seeds = (*(served.inner_seeds or ()), *(reader.inner_seeds or ()))
        return Identity(self.seed, (*served.stages, *reader.stages[1:]), seeds)

    def _source_items(self) -> int | None:
        offer, ranks = self._remote.link.offer, world.current().ranks
        steps = len(Steps(offer.samples, self._remote.batch, ranks, last="pad" if ranks == 1 else offer.last or "pad"))
        if offer.batch:
            short = ranks == 1 and not offer.partial and offer.samples % offer.batch
            return steps - 1 if short else steps
        return offer.samples if ranks == 1 else steps * self._remote.batch


def _turns_of_one_rank(at: PlanProgress, worker: int, workers: int, batch: int) -> int:
    """How many samples one of the workers of the only rank has: the last step may be short."""
    steps = at.remaining.steps(batch, 1, "pad").of_worker(worker, workers)
    if not len(steps):
        return 0
    return (len(steps) - 1) * batch + min(batch, len(at.remaining) - steps[-1] * batch)
