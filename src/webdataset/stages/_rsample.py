"""A random part of the samples."""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

from webdataset.arguments import require_number
from webdataset.describe import Described
from webdataset.flow import Json, Pass, Progress, Recall, Resumable, digest

from ._random_draws import Draws

# Draws are whole numbers; one in 2**53 is as fine as a float gets.
_FINE = 2**53


class DrawsMade(Progress):
    """How many draws were made, one for each item."""

    def __init__(self, seed: int) -> None:
        self.draws = Draws(seed)

    def save(self) -> Json:
        """One number."""
        return {"draws": self.draws.save()}

    def load(self, saved: Json, recall: Recall) -> None:
        """Go on drawing."""
        self.draws.load(saved["draws"])


@dataclass(frozen=True, repr=False)
class RSample(Described, Resumable):
    """Keep every item with probability `p`.

    >>> 350 < len(list(RSample(0.4)(range(1000)))) < 450
    True

    In a pipeline the choice follows from its seed and is another one in each epoch. Put it before the stage that reads
    shards to choose among shards, which saves the reading.
    """

    verb: ClassVar[str] = "rsample"
    draws: ClassVar[bool] = True
    p: float = 0.5

    def __post_init__(self) -> None:
        self._set(p=require_number("rsample", "p", self.p, least=0, most=1, expected="a number from 0 to 1"))

    def start(self, during: Pass) -> DrawsMade:
        """This pass's draws."""
        return DrawsMade(digest("rsample", during.seed, during.epoch, during.stage, *during.world.part))

    def run(self, items: Iterator[Any], at: DrawsMade, /) -> Iterator[Any]:
        """Draw for each item."""
        limit = self.p * _FINE
        for item in items:
            if at.draws.below(_FINE) < limit:
                yield item

    def __call__(self, items: Iterable[Any] = (), /) -> Iterator[Any]:
        """Run alone: another choice every time."""
        return self.run(iter(items), self.start(Pass(seed=secrets.randbits(63))))
