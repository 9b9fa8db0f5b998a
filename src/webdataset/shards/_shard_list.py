"""Shards in the order they were given, in one fixed random order, or in a new one each epoch."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from webdataset.arguments import require_count
from webdataset.flow import Pass, Resumable, digest
from webdataset.order import permutation

from ._count_progress import Collected
from ._expand import expand
from ._shard_source import ShardSource, Taken, describe


def shard_order(shards: int, seed: int, epoch: int) -> list[int]:
    """The order of an epoch's shards: the same on every rank and worker, another one in every epoch.

    >>> shard_order(5, seed=0, epoch=0), shard_order(5, seed=0, epoch=1)
    ([0, 2, 1, 3, 4], [2, 0, 4, 1, 3])
    """
    order: list[int] = permutation(shards, digest("shards", seed, epoch)).tolist()
    return order


@dataclass(repr=False, eq=False)  # not frozen: programs set `.seed` of a stage in place
class SimpleShardList(ShardSource):
    """The given shards, one item `dict(url=…)` each.

    >>> list(SimpleShardList("train-{000..001}.tar"))
    [{'url': 'train-000.tar'}, {'url': 'train-001.tar'}]

    Args:
        urls: anything that `expand` understands.
        seed: None keeps the order; a number shuffles once, the same way in every pass; True shuffles each pass anew.
    """

    urls: Any
    seed: int | bool | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.seed, bool | None):
            self.seed = require_count("SimpleShardList", "seed", self.seed)
        self.urls = expand(self.urls)

    def __len__(self) -> int:
        return len(self.urls)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({describe(self.urls)}, seed={self.seed})"

    def start(self, during: Pass) -> Taken:
        """Nothing taken yet."""
        return Taken(during, available=len(self.urls))

    def run(self, items: Iterator[Any], at: Taken, /) -> Iterator[dict[str, Any]]:
        """The shards after the first `at.taken` of this pass's order."""
        for url in self._ordered(at.during)[at.taken :]:
            yield at.take(url)

    def _ordered(self, during: Pass) -> list[str]:
        if self.seed is True:
            return [self.urls[i] for i in shard_order(len(self.urls), during.seed, during.epoch)]
        urls = list(self.urls)
        if self.seed is not None and self.seed is not False:
            random.Random(self.seed).shuffle(urls)
        return urls


@dataclass(frozen=True)
class ShuffleShards(Resumable):
    """Yield all shards, in a new order each epoch.

    >>> stage = ShuffleShards()
    >>> shards = [{"url": f"{i}.tar"} for i in range(5)]
    >>> [shard["url"] for shard in stage.run(iter(shards), stage.start(Pass(epoch=1)))]
    ['2.tar', '0.tar', '4.tar', '1.tar', '3.tar']

    After `split_by_node` each rank shuffles its own shards, so nothing is lost or read twice if ranks are in different
    epochs (for example, because one of them read a sample before the training).
    """

    def start(self, during: Pass) -> Collected:
        """Nothing yielded yet."""
        return Collected(during)

    def run(self, items: Iterator[Any], at: Collected, /) -> Iterator[dict[str, Any]]:
        """Take them all, then yield them in the order of the epoch, after those that were yielded already."""
        for number in shard_order(at.fill(items), at.during.seed, at.during.epoch)[at.taken :]:
            at.taken += 1
            at.last = at.origins[number]
            yield at.items[number]
