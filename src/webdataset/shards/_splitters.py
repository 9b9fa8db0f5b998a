"""Which process reads which shard.

Worker w of W on rank r of R reads the shards r + R·(w + W·k): every R-th item for the rank, every W-th of those for the
worker. That is `split_by_node` followed by `split_by_worker`; both are stages that count, so they resume.

If there are fewer shards than readers, some readers would have none. `ShareShards` splits the same way, and readers
that share a shard take turns inside it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain, islice
from typing import Any, ClassVar

from webdataset import world
from webdataset.arguments import require_choice
from webdataset.errors import SpecError
from webdataset.flow import Pass, Resumable
from webdataset.world import World

from ._count_progress import CountTaken


class _Part(CountTaken):
    """How many items were taken, and which of them are this reader's: every `of`-th, from number `which` on."""

    def __init__(self, which: int, of: int) -> None:
        self.which, self.of = which, of


class Splitter(Resumable):
    """A stage that yields the part of this process."""

    splits: ClassVar[bool] = True

    def __call__(self, items: Iterable[Any] = (), /) -> Iterator[Any]:
        """Split once, outside a pipeline."""
        return self.run(iter(items), self.start(Pass(world=world.current())))


class _EveryNth(Splitter):
    """A stage that yields every n-th item."""

    def run(self, items: Iterator[Any], at: _Part, /) -> Iterator[Any]:
        """Yield this reader's part of the items."""
        for item in items:
            is_own = at.taken % at.of == at.which
            at.taken += 1
            if is_own:
                yield item


@dataclass(frozen=True)
class SplitByNode(_EveryNth):
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

    def start(self, during: Pass) -> _Part:
        """Nothing seen yet."""
        here = during.world if self.group is None else world.current(self.group)
        return _Part(here.rank, here.ranks)


@dataclass(frozen=True)
class SplitByWorker(_EveryNth):
    """Every W-th item, beginning with this worker's number.

    >>> with world.pretend(World(worker=2, workers=3)):
    ...     list(split_by_worker(iter("abcde")))
    ['c']
    """

    def start(self, during: Pass) -> _Part:
        """Nothing seen yet."""
        return _Part(during.world.worker, during.world.workers)


@dataclass(frozen=True)
class SingleNodeOnly(Resumable):
    """Yield all items on one rank; on several, raise an error that names the choices.

    >>> list(single_node_only(iter("ab")))
    ['a', 'b']
    """

    group: Any = None

    def __call__(self, items: Iterable[Any] = (), group: Any = None) -> Iterator[Any]:
        """Check once, outside a pipeline."""
        return _alone(iter(items), world.current(self.group if group is None else group))

    def start(self, during: Pass) -> _Part:
        """Nothing is held."""
        here = during.world if self.group is None else world.current(self.group)
        return _Part(here.rank, here.ranks)

    def run(self, items: Iterator[Any], at: _Part, /) -> Iterator[Any]:
        """Yield all items, or raise the error."""
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


class _Shared(_Part):
    rewinds = True  # the rule needs to know how many shards there are


@dataclass(frozen=True)
class ShareShards(Splitter):
    """Yield the shards of this rank or worker; if there are fewer shards than readers, these take turns inside shards.

    >>> with world.pretend(World(worker=1, workers=2)):
    ...     list(ShareShards("worker")([{"url": "a"}, {"url": "b"}, {"url": "c"}]))
    [{'url': 'b'}]
    >>> with world.pretend(World(worker=1, workers=2)):
    ...     list(ShareShards("worker")([{"url": "a"}]))
    [{'url': 'a', 'first': 1, 'step': 2}]

    A shard with `first` and `step` is read like any other, and every `step`-th of its samples is yielded, beginning
    with number `first`: no reader idles, and every sample is read exactly once.
    """

    among: str

    def __post_init__(self) -> None:
        require_choice("among", self.among, ("rank", "worker"))

    def start(self, during: Pass) -> _Shared:
        """Nothing yielded yet."""
        here = during.world
        return _Shared(here.rank, here.ranks) if self.among == "rank" else _Shared(here.worker, here.workers)

    def run(self, items: Iterator[Any], at: _Shared, /) -> Iterator[dict[str, Any]]:
        """Yield this reader's part of the shards, after those that were yielded already."""
        for shard in islice(_part(items, at.which, at.of), at.taken, None):
            at.taken += 1
            yield shard


def _part(shards: Iterator[dict[str, Any]], which: int, of: int) -> Iterator[dict[str, Any]]:
    """Yield one reader's part. No more shards are taken first than there are readers: the stream may be endless."""
    head = list(islice(shards, of))
    if len(head) == of or not head:
        yield from islice(chain(head, shards), which, None, of)
        return
    number = which % len(head)
    turn, turns = which // len(head), -(-(of - number) // len(head))
    shard = head[number]
    first, step = shard.get("first", 0), shard.get("step", 1)  # an earlier stage shares this shard already
    yield shard if turns == 1 else {**shard, "first": first + step * turn, "step": step * turns}
