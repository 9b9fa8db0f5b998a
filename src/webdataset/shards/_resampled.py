"""Shards with replacement, for ever: every draw is computed from its number, so resuming costs nothing."""

from __future__ import annotations

import logging
import secrets
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from webdataset import config
from webdataset.arguments import require_callable_or_none, require_count
from webdataset.flow import Drawn, Json, Pass, Recall, Resumable, digest

from ._count_progress import Collected
from ._expand import expand, expand_source
from ._shard_source import ShardSource, Taken, describe

_log = logging.getLogger(__name__)


class _Drawn(Taken):
    """How many shards were drawn, and `salt`: with it, a pass with a random seed can be repeated from a checkpoint."""

    def __init__(self, during: Pass, available: int, salt: int, worker: int) -> None:
        super().__init__(during, available=available)
        self.salt = salt
        self.worker = worker

    def save(self) -> Json:
        return {**super().save(), "salt": self.salt, "worker": self.worker}

    def save_start(self) -> Json:
        return {**self.save(), "taken": 0}

    def load(self, saved: Json, recall: Recall) -> None:
        super().load(saved, recall)
        self.salt, self.worker = saved["salt"], saved["worker"]


@dataclass(repr=False, eq=False)  # not frozen: `.epoch` counts the passes, and programs read and set `.seed`
class ResampledShards(ShardSource):
    """`nshards` shards drawn with replacement, differently in every worker and every pass.

    >>> source = ResampledShards("{0..9}.tar", nshards=3, deterministic=True)
    >>> [shard["url"] for shard in source], [shard["url"] for shard in source]
    (['7.tar', '1.tar', '9.tar'], ['4.tar', '5.tar', '6.tar'])

    Args:
        urls: anything that `expand` understands, or an iterable of addresses.
        nshards: how many shards a pass has.
        seed: which sequence of all; a pipeline's seed is mixed in.
        worker_seed: a function that returns a different number in every worker, by default rank·1000 + worker.
        deterministic: the same sequence in every run of the program. Otherwise a random number of the operating
            system's is mixed in, and kept in the checkpoint.
        max_urls: how many addresses are kept at most.
        empty_check: refuse an empty list here; otherwise it gives an empty stream.
    """

    urls: Any
    nshards: int = sys.maxsize
    seed: int = 0
    worker_seed: Callable[[], int] | None = None
    deterministic: bool = False
    max_urls: float = 1_000_000
    empty_check: bool = True
    epoch: int = -1

    def __post_init__(self) -> None:
        require_callable_or_none("ResampledShards", worker_seed=self.worker_seed)
        self.nshards = require_count("ResampledShards", "nshards", self.nshards, least=0)
        self.seed = require_count("ResampledShards", "seed", self.seed)
        self.urls = expand_source(self.urls, self.max_urls)
        if self.urls or self.empty_check:
            self.urls = expand(self.urls)

    def __repr__(self) -> str:
        return (
            f"ResampledShards({describe(self.urls)}, nshards={self.nshards}, seed={self.seed}, "
            f"deterministic={self.deterministic})"
        )

    def start(self, during: Pass) -> _Drawn:
        """Nothing drawn yet."""
        self.epoch = during.epoch
        here = during.world
        worker = here.rank * 1000 + here.worker if self.worker_seed is None else self.worker_seed()
        worker = require_count("ResampledShards", "worker_seed()", worker)
        at = _Drawn(during, len(self.urls), 0 if self.deterministic else secrets.randbits(63), worker)
        if config.read("WDS_SHOW_SEED"):
            _log.info("ResampledShards: seed %s, epoch %s, worker %s, salt %s", self.seed, self.epoch, worker, at.salt)
        return at

    def run(self, items: Iterator[Any], at: _Drawn, /) -> Iterator[dict[str, Any]]:
        """The draws after the first `at.taken`."""
        while self.urls and at.taken < self.nshards:
            number = digest("resampled", self.seed, at.during.seed, at.during.epoch, at.worker, at.salt, at.taken)
            yield at.take(Drawn(self.urls[number % len(self.urls)], number >> 32))


ResampledShardList = ResampledShards


@dataclass(frozen=True)
class Resampled(Resumable):
    """Collect all items, then draw `n` of them with replacement.

    >>> [shard["url"] for shard in Resampled(4)(iter([{"url": "a.tar"}, {"url": "b.tar"}]))]
    ['b.tar', 'a.tar', 'a.tar', 'b.tar']
    """

    n: int = sys.maxsize

    def __post_init__(self) -> None:
        require_count("resampled", "n", self.n, least=0)

    def start(self, during: Pass) -> Collected:
        """Nothing collected yet."""
        return Collected(during)

    def run(self, items: Iterator[Any], at: Collected, /) -> Iterator[Any]:
        """Collect, then draw."""
        at.fill(items)
        during = at.during
        seeds = ("resampled", during.seed, during.epoch, during.stage, *during.world.part)
        while at.items and at.taken < self.n:
            number = digest(*seeds, at.taken)
            origin = at.origins[number % len(at.items)]
            item = _drawn(at.items[number % len(at.items)], number >> 32)
            at.taken += 1
            at.last = None if origin is None else [origin, number >> 32]
            yield item

    def again(self, origin: Json, recall: Recall) -> Any:
        """The item as it was drawn."""
        item, number = origin
        return _drawn(recall(item), number)


def _drawn(item: Any, number: int) -> Any:
    """Return a copy of an item with the number of this draw, if it is a sample or a shard; a batch has no number."""
    if not isinstance(item, dict):
        return item
    name = next((name for name in ("__url__", "__key__", "url") if isinstance(item.get(name), str)), None)
    return dict(item) if name is None else {**item, name: Drawn(item[name], number)}


resampled = Resampled
