"""Who reads which shard.

Worker w of W on rank r of R reads the shards r + R·(w + W·k): every R-th item for the rank, every W-th of those for the
worker. That is `split_by_node` followed by `split_by_worker`; both are stages that count, so they resume.

Where there are fewer shards than readers some would get nothing. `share` is the answer: readers of the same shard take
turns inside it (`first`, `step`), so nobody idles and every sample is read exactly once. `SplitShards` and
`StrideSamples` are the two stages that apply it, before and after the reader.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

from webdataset import world
from webdataset.errors import SpecError
from webdataset.flow import Json, Pass, Progress, Recall, Resumable
from webdataset.world import World

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


class _Passed(Progress):
    """How many items came by, and which of them are mine: every `of`-th, beginning with number `which`."""

    def __init__(self, which: int, of: int) -> None:
        self.which, self.of, self.passed = which, of, 0

    def save(self) -> Json:
        return self.passed

    def load(self, saved: Json, recall: Recall) -> None:
        self.passed = saved


def _every(items: Iterator[Any], at: _Passed) -> Iterator[Any]:
    for item in items:
        mine = at.passed % at.of == at.which
        at.passed += 1
        if mine:
            yield item


@dataclass(frozen=True)
class SplitByNode(Resumable):
    """Every R-th item, beginning with this rank's number.

    >>> with world.pretend(World(rank=1, ranks=2)):
    ...     list(split_by_node(iter("abcde")))
    ['b', 'd']
    """

    group: Any = None

    def __call__(self, items: Iterable[Any] = (), group: Any = None) -> Iterator[Any]:
        """Split once, outside a pipeline; `group` is a torch.distributed process group."""
        here = world.current(self.group if group is None else group)
        return islice(iter(items), here.rank, None, here.ranks)

    def start(self, during: Pass) -> _Passed:
        """Nothing seen yet."""
        here = during.world if self.group is None else world.current(self.group)
        return _Passed(here.rank, here.ranks)

    def run(self, items: Iterator[Any], at: _Passed, /) -> Iterator[Any]:
        """My part of what comes."""
        return _every(items, at)


@dataclass(frozen=True)
class SplitByWorker(Resumable):
    """Every W-th item, beginning with this worker's number.

    >>> with world.pretend(World(worker=2, workers=3)):
    ...     list(split_by_worker(iter("abcde")))
    ['c']
    """

    def __call__(self, items: Iterable[Any] = (), /) -> Iterator[Any]:
        """Split once, outside a pipeline."""
        here = world.current()
        return islice(iter(items), here.worker, None, here.workers)

    def start(self, during: Pass) -> _Passed:
        """Nothing seen yet."""
        return _Passed(during.world.worker, during.world.workers)

    def run(self, items: Iterator[Any], at: _Passed, /) -> Iterator[Any]:
        """My part of what comes."""
        return _every(items, at)


@dataclass(frozen=True)
class SingleNodeOnly(Resumable):
    """Everything, on one rank; an error that names the choices on several.

    >>> list(single_node_only(iter("ab")))
    ['a', 'b']
    """

    group: Any = None

    def __call__(self, items: Iterable[Any] = (), group: Any = None) -> Iterator[Any]:
        """Check once, outside a pipeline."""
        return _alone(iter(items), world.current(self.group if group is None else group))

    def start(self, during: Pass) -> _Passed:
        """Nothing is held."""
        here = during.world if self.group is None else world.current(self.group)
        return _Passed(here.rank, here.ranks)

    def run(self, items: Iterator[Any], at: _Passed, /) -> Iterator[Any]:
        """Everything, or the error."""
        return _alone(items, World(at.which, at.of))


def _alone(items: Iterator[Any], here: World) -> Iterator[Any]:
    if here.ranks > 1:
        raise SpecError(
            f"you need to add an explicit nodesplitter to your input pipeline for multi-node training: "
            f"this is rank {here.rank} of {here.ranks}",
            hint="nodesplitter=wds.split_by_node gives each rank its own shards, nodesplitter=None all of them",
        )
    yield from items


split_by_node = SplitByNode()
split_by_worker = SplitByWorker()
single_node_only = SingleNodeOnly()


class Share(NamedTuple):
    """Which shards of an epoch's order a reader opens, and which of their samples it hands on.

    >>> share(10, World(rank=1, ranks=2, worker=0, workers=2))
    Share(shards=range(1, 10, 4), first=0, step=1)
    """

    shards: range
    first: int
    step: int


def share(shards: int, here: World) -> Share:
    """The part of one reader. With fewer shards than readers, those of one shard take turns inside it.

    >>> for worker in (0, 2, 4):
    ...     share(2, World(worker=worker, workers=5))
    Share(shards=range(0, 2, 2), first=0, step=3)
    Share(shards=range(0, 2, 2), first=1, step=3)
    Share(shards=range(0, 2, 2), first=2, step=3)
    """
    reader, readers = here.worker * here.ranks + here.rank, here.ranks * here.workers
    if shards >= readers or shards == 0:
        return Share(range(reader, shards, readers), 0, 1)
    shard = reader % shards
    return Share(range(shard, shards, shards), reader // shards, -(-(readers - shard) // shards))


@dataclass(frozen=True)
class SplitShards(Resumable):
    """This reader's shards out of `shards` by the rule of `share`; nobody gets nothing.

    >>> with world.pretend(World(worker=4, workers=5)):
    ...     list(SplitShards(2)(iter("ab"))), list(StrideSamples(2)(iter("pqrstuvw")))
    (['a'], ['r', 'u'])
    """

    shards: int

    def __post_init__(self) -> None:
        _check_count(self.shards)

    def start(self, during: Pass) -> _Passed:
        """Nothing seen yet."""
        mine = share(self.shards, during.world).shards
        return _Passed(mine.start, mine.step)

    def run(self, items: Iterator[Any], at: _Passed, /) -> Iterator[Any]:
        """My part of what comes."""
        return _every(items, at)

    def __call__(self, items: Iterable[Any] = (), /) -> Iterator[Any]:
        """Split once, outside a pipeline."""
        return self.run(iter(items), self.start(replace(Pass(), world=world.current())))


@dataclass(frozen=True)
class StrideSamples(Resumable):
    """This reader's samples of the shards that `SplitShards` gave it: all of them, or its turns where shards are few.

    >>> with world.pretend(World(worker=1, workers=3)):
    ...     list(StrideSamples(1)(iter(range(10))))
    [1, 4, 7]
    """

    shards: int

    def __post_init__(self) -> None:
        _check_count(self.shards)

    def start(self, during: Pass) -> _Passed:
        """Nothing seen yet."""
        mine = share(self.shards, during.world)
        return _Passed(mine.first, mine.step)

    def run(self, items: Iterator[Any], at: _Passed, /) -> Iterator[Any]:
        """My part of what comes."""
        return items if at.of == 1 else _every(items, at)

    def __call__(self, items: Iterable[Any] = (), /) -> Iterator[Any]:
        """Split once, outside a pipeline."""
        return self.run(iter(items), self.start(replace(Pass(), world=world.current())))


def _check_count(shards: int) -> None:
    if not isinstance(shards, int) or shards < 0:
        raise SpecError(f"{shards!r} is not a number of shards", hint="give how many shards an epoch has")
