"""Samplers for shards: consecutive numbers are mostly in the same shard.

All of them are reproducible: an order depends on the seed and the epoch alone. Each pass is the next epoch; `set_epoch`
changes it, as in torch's samplers. So the state of a sampler is two numbers, the epoch and how many numbers were taken,
and torchdata's `StatefulDataLoader` saves them with its own state.
"""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence, Sized
from itertools import accumulate, islice, pairwise
from typing import Any

from webdataset import world
from webdataset.arguments import require_count
from webdataset.errors import SpecError, StateError

# Epochs of one seed must not be epochs of another one: a prime that is far from differences of small seeds.
_EPOCH_STRIDE = 1289738273


Range = tuple[int, int]


class _Sampler(ABC):
    """The base of the samplers: seed, epoch, the rule for the first epoch, and the position in the pass."""

    def __init__(self, seed: int, *, shufflefirst: bool) -> None:
        self.seed, self.epoch, self.shufflefirst = seed, 0, shufflefirst
        self._pass: int | None = None  # the epoch that is being read
        self._taken = 0  # how many of its numbers were taken; or of the next pass, which begins there

    @abstractmethod
    def __len__(self) -> int: ...

    def set_epoch(self, epoch: int) -> None:
        """Make this epoch the next pass, from its beginning."""
        self.epoch, self._pass, self._taken = epoch, None, 0

    def state_dict(self) -> dict[str, int]:
        """The epoch, and how many of its numbers were taken: JSON, for `load_state_dict` of an equal sampler."""
        shared = {"seed": self.seed, "length": len(self)}
        if self._pass is not None and self._taken < len(self):
            return {**shared, "epoch": self._pass, "taken": self._taken}
        return {**shared, "epoch": self.epoch, "taken": 0 if self._pass is not None else self._taken}

    def load_state_dict(self, state: dict[str, int]) -> None:
        """Continue from a saved state in the next pass."""
        known = isinstance(state, dict) and all(
            isinstance(state.get(name), int) for name in ("seed", "length", "epoch", "taken")
        )
        if not known or not 0 <= state["taken"] <= state["length"]:
            raise StateError("this is not the state of a sampler", hint="give what state_dict returned")
        for name, value in (("seed", self.seed), ("length", len(self))):
            if state[name] != value:
                raise StateError(
                    f"the state is of a sampler with {name} {state[name]}, here it is {value}",
                    hint="load it into a sampler that was made as the one that saved it",
                )
        self.set_epoch(state["epoch"])
        self._taken = state["taken"]

    def __iter__(self) -> Iterator[int]:
        rng = random.Random(self.seed + _EPOCH_STRIDE * self.epoch)
        numbers = self._numbers(rng, mixed=self.shufflefirst or self.epoch > 0)
        if self._pass is not None:
            self._taken = 0
        self._pass = self.epoch
        self.epoch += 1
        return self._count(islice(numbers, self._taken, None))

    @abstractmethod
    def _numbers(self, rng: random.Random, *, mixed: bool) -> Iterator[int]:
        """All numbers of a pass; with `mixed`, the order of shards or chunks is random too."""

    def _count(self, numbers: Iterator[int]) -> Iterator[int]:
        for number in numbers:
            self._taken += 1
            yield number


class ShardListSampler(_Sampler):
    """Shard after shard, in a new order each epoch, and the samples of each in a new order.

    >>> sampler = ShardListSampler(lengths=[2, 3], seed=1)
    >>> list(sampler), list(sampler)
    ([1, 0, 3, 2, 4], [0, 1, 3, 2, 4])

    The first epoch keeps the shards' order, so that they can be fetched in it.

    Args:
        dataset: an object with `lengths`: how many samples each shard has.
        lengths: these numbers themselves.
        seed: decides the order, together with the epoch.
        shufflefirst: mix the shards in the first epoch too.
    """

    def __init__(
        self, dataset: Any = None, *, lengths: Sequence[int] | None = None, seed: int = 0, shufflefirst: bool = False
    ) -> None:
        super().__init__(seed, shufflefirst=shufflefirst)
        found = lengths if lengths is not None else getattr(dataset, "lengths", None)
        if found is None:
            raise SpecError("the shards' lengths are not known", hint="give a ShardListDataset, or lengths=[...]")
        self.lengths = list(found)

    def __len__(self) -> int:
        return sum(self.lengths)

    def _numbers(self, rng: random.Random, *, mixed: bool) -> Iterator[int]:
        return iterate_ranges(lengths_to_ranges(self.lengths), rng, shardshuffle=mixed)


ShardedSampler = ShardListSampler


class ChunkedSampler(_Sampler):
    """Chunk after chunk of consecutive samples, in a new order each epoch, and each chunk in a new order.

    >>> sampler = ChunkedSampler(range(10), chunksize=4, seed=1)
    >>> len(sampler), list(sampler)
    (10, [3, 0, 2, 1, 7, 5, 4, 6, 8, 9])
    >>> list(ChunkedSampler(range(10), num_samples=(3, 7), shuffle=False))
    [3, 4, 5, 6]

    Args:
        dataset: has a length.
        num_samples: only so many from the beginning, or those from `lo` to before `hi`.
        chunksize: how many samples belong together.
        seed: decides the order, together with the epoch.
        shuffle: False takes everything as it comes.
        shufflefirst: mix the chunks in the first epoch too.
    """

    def __init__(
        self,
        dataset: Sized,
        *,
        num_samples: int | tuple[int, int] | None = None,
        chunksize: int = 2000,
        seed: int = 0,
        shuffle: bool = True,
        shufflefirst: bool = False,
    ) -> None:
        super().__init__(seed, shufflefirst=shufflefirst)
        if num_samples is None or isinstance(num_samples, int):
            num_samples = (0, len(dataset) if num_samples is None else num_samples)
        self.lo, self.hi = num_samples
        if not 0 <= self.lo <= self.hi <= len(dataset):
            raise SpecError(f"num_samples={num_samples}: expected numbers in order, from 0 to {len(dataset)}")
        self.chunksize, self.shuffle = require_count("ChunkedSampler", "chunksize", chunksize, least=1), shuffle

    def __len__(self) -> int:
        return self.hi - self.lo

    def _numbers(self, rng: random.Random, *, mixed: bool) -> Iterator[int]:
        if not self.shuffle:
            return iter(range(self.lo, self.hi))
        return iterate_ranges(_chunks(self.lo, self.hi, self.chunksize), rng, shardshuffle=mixed)


class DistributedChunkedSampler(_Sampler):
    """A part of consecutive samples for each rank, chunk by chunk; all parts are equally long.

    >>> [list(DistributedChunkedSampler(range(10), num_replicas=4, rank=r, shuffle=False)) for r in range(4)]
    [[0, 1, 2], [3, 4, 5], [6, 7, 8], [9, 0, 1]]
    >>> len(DistributedChunkedSampler(range(10), num_replicas=4, rank=3, drop_last=True))
    2

    Where the samples cannot be divided, the last ranks get some of the first samples too; `drop_last` leaves the last
    samples out instead.

    Args:
        dataset: has a length.
        num_replicas: how many ranks there are; by default torch.distributed's, or the environment's.
        num_samples: only so many from the beginning, for all ranks together.
        rank: which one this is.
        shuffle: False takes everything as it comes.
        shufflefirst: mix the chunks in the first epoch too.
        seed: decides the order, together with the epoch; the same on all ranks.
        drop_last: how the parts become equally long.
        chunksize: how many samples belong together.
    """

    def __init__(
        self,
        dataset: Sized,
        num_replicas: int | None = None,
        num_samples: int | None = None,
        rank: int | None = None,
        shuffle: bool = True,
        shufflefirst: bool = False,
        seed: int = 0,
        drop_last: bool | None = None,
        chunksize: int = 1000000,
    ) -> None:
        super().__init__(seed, shufflefirst=shufflefirst)
        here = world.current()
        replicas = here.ranks if num_replicas is None else num_replicas
        self.num_replicas = require_count("DistributedChunkedSampler", "num_replicas", replicas, least=1)
        self.rank = here.rank if rank is None else rank
        if not 0 <= self.rank < self.num_replicas:
            raise SpecError(f"expected a rank from 0 to {self.num_replicas - 1}, got {self.rank}")
        self.total = len(dataset) if num_samples is None else num_samples
        if not 0 < self.total <= len(dataset):
            raise SpecError(f"num_samples={self.total}: expected 1 to {len(dataset)} samples")
        self.drop_last, self.shuffle = bool(drop_last), shuffle
        self.chunksize = require_count("DistributedChunkedSampler", "chunksize", chunksize, least=1)

    def __len__(self) -> int:
        return self.total // self.num_replicas if self.drop_last else -(-self.total // self.num_replicas)

    def _numbers(self, rng: random.Random, *, mixed: bool) -> Iterator[int]:
        lo, hi = self.rank * len(self), (self.rank + 1) * len(self)
        chunks = _chunks(lo, hi, self.chunksize)
        numbers = iterate_ranges(chunks, rng, shardshuffle=mixed) if self.shuffle else iter(range(lo, hi))
        return (number % self.total for number in numbers)


def _chunks(lo: int, hi: int, size: int) -> list[Range]:
    return [(start, min(start + size, hi)) for start in range(lo, hi, size)]


def lengths_to_ranges(lengths: Sequence[int]) -> list[Range]:
    """Half-open ranges that follow each other.

    >>> lengths_to_ranges([3, 2])
    [(0, 3), (3, 5)]
    """
    return list(pairwise([0, *accumulate(lengths)]))


def iterate_ranges(
    ranges: Sequence[Range], rng: random.Random, indexshuffle: bool = True, shardshuffle: bool = True
) -> Iterator[int]:
    """All integers of the ranges: the ranges in random order, then the integers of each.

    >>> sorted(iterate_ranges([(0, 3), (5, 6)], random.Random(0)))
    [0, 1, 2, 5]
    """
    numbers = list(range(len(ranges)))
    if shardshuffle:
        rng.shuffle(numbers)
    for number in numbers:
        inside = list(range(*ranges[number]))
        if indexshuffle:
            rng.shuffle(inside)
        yield from inside
