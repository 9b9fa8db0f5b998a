"""Splitters that a user wrote: whole shards are split, and no shard is lost between two splitters.

Workers may take turns inside a shard (`ShareShards`) only if every splitter is ours, because then all of them have the
same list. What a function of the user does is not known: a `nodesplitter` may already split by worker, and every second
shard of every second shard would be a quarter of the data. So each worker runs the splitters for every worker of its
rank, and compares their parts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from webdataset import world
from webdataset.errors import SpecError
from webdataset.flow import Pass, Resumable

from ._count_progress import CountTaken
from ._splitters import Splitter, single_node_only, split_by_node, split_by_worker

Shard = dict[str, Any]


def are_ours(nodesplitter: Any, workersplitter: Any) -> bool:
    """Whether both splitters are those of this library, each as the right argument.

    >>> are_ours(split_by_node, None), are_ours(split_by_worker, split_by_worker)
    (True, False)
    """
    is_ours = any(nodesplitter is known for known in (None, False, split_by_node, single_node_only))
    return is_ours and any(workersplitter is known for known in (None, False, split_by_worker))


class _Chosen(CountTaken):
    rewinds = True  # the splitters need the whole list

    def __init__(self, during: Pass) -> None:
        self.during = during


@dataclass(frozen=True)
class SplitShards(Splitter):
    """This worker's shards, by two splitters of which at least one is not ours.

    >>> def every_second(shards):
    ...     here = world.current()
    ...     return list(shards)[here.worker::here.workers]
    >>> with world.pretend(world.World(worker=1, workers=2)):
    ...     [shard["url"] for shard in SplitShards(every_second, split_by_worker)([{"url": name} for name in "abcd"])]
    ['b', 'd']

    Args:
        nodesplitter: which shards are this rank's; it may split by worker, too.
        workersplitter: which of those are this worker's.
        may_be_empty: a worker without shards is no error.
    """

    nodesplitter: Any
    workersplitter: Any
    may_be_empty: bool = False

    def __post_init__(self) -> None:
        for name in ("nodesplitter", "workersplitter"):
            splitter = getattr(self, name)
            if splitter not in (None, False) and not callable(splitter) and not hasattr(splitter, "run"):
                raise SpecError(
                    f"{name}={splitter!r:.200} is not a valid pipeline stage",
                    hint="a splitter is a function of an iterator of shards; None splits nothing",
                )

    def start(self, during: Pass) -> _Chosen:
        """Nothing yielded yet."""
        return _Chosen(during)

    def run(self, items: Iterator[Shard], at: _Chosen, /) -> Iterator[Shard]:
        """Yield this worker's part of the shards, after those that were yielded already."""
        for shard in self._part(list(items), at.during)[at.taken :]:
            at.taken += 1
            yield shard

    def _part(self, shards: list[Shard], during: Pass) -> list[Shard]:
        here = during.world
        if here.ranks > 1 and self.nodesplitter is split_by_worker and self.workersplitter in (None, split_by_worker):
            raise SpecError("nodesplitter=split_by_worker does not split by rank", hint="nodesplitter=split_by_node")
        by_node = [self._as_worker(number, self.nodesplitter, shards, during) for number in range(here.workers)]
        splits_by_worker = here.workers > 1 and not _overlap(by_node)
        if splits_by_worker and self.workersplitter is split_by_worker:
            part = by_node[here.worker]
        else:
            by_worker = [
                self._as_worker(number, self.workersplitter, listed, during) for number, listed in enumerate(by_node)
            ]
            self._check_nothing_lost(by_node, by_worker)
            part = by_worker[here.worker]
        if shards and not part and not self.may_be_empty:
            raise SpecError(
                f"No samples found in dataset: worker {here.worker} of rank {here.rank} has none of the "
                f"{len(shards)} shards",
                hint="use fewer workers; workers share shards where no splitter is given; empty_check=False allows it",
            )
        return part

    def _as_worker(self, number: int, splitter: Any, shards: Sequence[Shard], during: Pass) -> list[Shard]:
        """Return the shards that a splitter gives to one of the workers of this rank."""
        if splitter in (None, False):
            return list(shards)
        with world.as_worker(replace(during.world, worker=number)) as worker:
            if isinstance(splitter, Resumable):
                return list(splitter.run(iter(shards), splitter.start(replace(during, world=worker))))
            return list(splitter(iter(shards)) if callable(splitter) else splitter.run(iter(shards)))

    def _check_nothing_lost(self, by_node: list[list[Shard]], by_worker: list[list[Shard]]) -> None:
        """Check that the workers together have all shards of their rank after the second splitter, and none twice."""
        if self.workersplitter in (None, False):
            return
        given = set().union(*map(_names, by_node))
        left = set().union(*map(_names, by_worker))
        if given - left:
            raise SpecError(
                f"the splitters {_name(self.nodesplitter)} and {_name(self.workersplitter)} together lose "
                f"{len(given - left)} of {len(given)} shards",
                hint="both split by the same thing: give one and None for the other; to read a part, list its shards",
            )
        if len(by_worker) > 1 and _overlap(by_worker):
            raise SpecError(
                f"the splitters {_name(self.nodesplitter)} and {_name(self.workersplitter)} give the same shard "
                "to several workers",
                hint="split in an order that is the same in all workers; workersplitter=None gives all shards to all",
            )


def _names(shards: list[Shard]) -> set[tuple[str, int]]:
    """Return the addresses of shards, numbered: a shard that is listed twice has two."""
    seen: Counter[str] = Counter()
    names = set()
    for shard in shards:
        url = str(shard["url"])
        names.add((url, seen[url]))
        seen[url] += 1
    return names


def _overlap(parts: list[list[Shard]]) -> bool:
    """Whether two workers get the same shard."""
    names = [_names(part) for part in parts]
    return sum(map(len, names)) > len(set().union(*names))


def _name(splitter: Any) -> str:
    return getattr(splitter, "__name__", None) or type(splitter).__name__
