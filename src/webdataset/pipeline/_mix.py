"""Several datasets as one: in turns, or at random."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from webdataset import shards, world
from webdataset.errors import SpecError
from webdataset.flow import Pass

from ._epochs import EpochCounter
from ._torch import TorchIterable


class RoundRobin(TorchIterable):
    """One item from each dataset in turn.

    >>> list(RoundRobin([[1, 2, 3], [10, 20]]))
    [1, 10, 2, 20, 3]
    >>> list(RoundRobin([[1, 2, 3], [10]], longest=True))
    [1, 10, 2, 3]
    """

    def __init__(self, datasets: Sequence[Any], longest: bool = False) -> None:
        self.datasets = datasets
        self.longest = longest

    def __iter__(self) -> Iterator[Any]:
        sources = [iter(dataset) for dataset in self.datasets]
        turns = shards.round_robin_longest if self.longest else shards.round_robin_shortest
        return iter(turns(*sources))


class RandomMix(TorchIterable):
    """Items from datasets picked by probability; the same picks for the same seed and epoch.

    >>> mixed = list(RandomMix([[1] * 5, [2] * 5], probs=[0.5, 0.5], longest=True))
    >>> sorted(mixed)
    [1, 1, 1, 1, 1, 2, 2, 2, 2, 2]
    """

    def __init__(
        self, datasets: Sequence[Any], probs: Sequence[float] | None = None, longest: bool = False, seed: int = 0
    ) -> None:
        if probs is not None and len(probs) != len(datasets):
            raise SpecError(f"{len(probs)} probabilities for {len(datasets)} datasets", hint="give one for each")
        self.datasets = datasets
        self.probs = probs
        self.longest = longest
        self.seed = seed
        self._epochs = EpochCounter()

    def __iter__(self) -> Iterator[Any]:
        here = world.current()
        rng = Pass(self.seed, self._epochs.next(), here).rng("mix", here.part[0])
        sources = [iter(dataset) for dataset in self.datasets]
        return iter(shards.random_samples(sources, self.probs, longest=self.longest, rng=rng))
