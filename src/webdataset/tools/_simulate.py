"""`wds simulate`: which rank and worker reads what, whether all take equal steps, and how well samples are mixed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from webdataset import world
from webdataset.index import load_count
from webdataset.order import Order, Steps
from webdataset.plan import ShuffleReport, shuffle_report
from webdataset.shards import ShareShards
from webdataset.world import World

from ._list_samples import list_samples
from ._output_target import is_stream
from ._read_inputs import Inputs, expand_inputs


@dataclass(frozen=True, slots=True)
class ReaderShare:
    """The share of one worker of one rank in an epoch without an index.

    Attributes:
        rank: the rank.
        worker: the worker.
        shards: how many shards it reads, shared ones included.
        samples: how many samples it yields.
        batches: how many batches it makes of them, the last of which may be smaller.
    """

    rank: int
    worker: int
    shards: int
    samples: int
    batches: int


@dataclass(frozen=True, slots=True)
class Simulation:
    """An epoch on several ranks and workers.

    Attributes:
        ranks: how many ranks.
        workers: how many workers each rank has.
        batch: samples per batch.
        shards: how many shards.
        samples: how many samples.
        readers: without an index: what each worker of each rank gets.
        steps_per_rank: without an index: how many batches each rank gets.
        indexed_steps: with an index: how many steps every rank takes.
        padding: with an index: how many positions of the last step are padding.
        shuffle: how well an order with an index mixes, beside a shuffle buffer.
    """

    ranks: int
    workers: int
    batch: int
    shards: int
    samples: int
    readers: tuple[ReaderShare, ...]
    steps_per_rank: tuple[int, ...]
    indexed_steps: int
    padding: int
    shuffle: ShuffleReport

    @property
    def equal(self) -> bool:
        """Whether all ranks take equally many steps without an index."""
        return len(set(self.steps_per_rank)) < 2

    @property
    def idle(self) -> int:
        """How many workers get no sample without an index."""
        return sum(reader.samples == 0 for reader in self.readers)

    @property
    def shared(self) -> bool:
        """Whether readers have to share shards, because there are fewer shards than readers."""
        return self.shards < self.ranks * self.workers


def simulate(
    inputs: Inputs | None = None,
    *,
    counts: Sequence[int] | None = None,
    ranks: int = 1,
    workers: int = 1,
    batch: int = 32,
    window: int | None = None,
    buffer: int = 1000,
    seed: int = 0,
    epoch: int = 0,
) -> Simulation:
    """Compute what an epoch looks like, without reading data.

    >>> simulation = simulate(counts=[100] * 10, ranks=4, workers=2, batch=10)
    >>> simulation.steps_per_rank, simulation.equal, simulation.indexed_steps
    ((30, 30, 20, 20), False, 25)

    Args:
        inputs: shards, to take the numbers of samples from.
        counts: the numbers of samples of shards, instead.
        ranks: how many ranks.
        workers: how many workers each rank has.
        batch: samples per batch.
        window: how many shards are mixed at a time; None mixes all.
        buffer: the size of the shuffle buffer to compare with.
        seed: the seed of the order.
        epoch: the number of the epoch.
    """
    numbers = list(counts) if counts is not None else _counts(inputs or [])
    readers = tuple(
        _share(numbers, World(rank, ranks, worker, workers), batch)
        for rank in range(ranks)
        for worker in range(workers)
    )
    per_rank = tuple(sum(reader.batches for reader in readers if reader.rank == rank) for rank in range(ranks))
    steps = Steps(sum(numbers), batch, ranks)
    order = Order(numbers, seed, epoch, window)
    return Simulation(
        ranks,
        workers,
        batch,
        len(numbers),
        sum(numbers),
        readers,
        per_rank,
        len(steps),
        len(steps) * batch * ranks - sum(numbers),
        shuffle_report(order, buffer=buffer),
    )


def _share(counts: Sequence[int], reader: World, batch: int) -> ReaderShare:
    """The share of one reader, computed by the library's own splitters."""
    items = [{"url": str(number)} for number in range(len(counts))]
    with world.pretend(reader):
        assigned = list(ShareShards("worker")(ShareShards("rank")(items)))
    samples = sum(len(range(item.get("first", 0), counts[int(item["url"])], item.get("step", 1))) for item in assigned)
    return ReaderShare(reader.rank, reader.worker, len(assigned), samples, -(-samples // batch))


def _counts(inputs: Inputs) -> list[int]:
    found = []
    for url in expand_inputs(inputs):
        count = None if is_stream(url) else load_count(url)
        found.append(sum(1 for _ in list_samples([url])) if count is None else count)
    return found
