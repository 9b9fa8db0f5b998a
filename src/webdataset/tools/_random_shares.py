"""Random shares of a dataset that depend on keys alone: adding samples moves no other sample."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate

from webdataset.errors import SpecError
from webdataset.flow import digest


@dataclass(frozen=True)
class Shares:
    """Which part each key belongs to.

    >>> shares = Shares({"train": 0.8, "val": 0.2})
    >>> [shares.part(f"{n:04d}") for n in range(5)]
    ['val', 'train', 'train', 'train', 'train']

    Each key falls into a part with the part's probability, decided by a hash of the seed and the key. So the sizes hold
    on average, and the choice is the same in every run, in any order and on any machine.
    """

    shares: Mapping[str, float]
    seed: int = 0

    def __post_init__(self) -> None:
        total = sum(self.shares.values())
        if not self.shares or any(share < 0 for share in self.shares.values()) or not 0 < total <= 1 + 1e-9:
            raise SpecError(
                f"the shares {dict(self.shares)} cannot divide a dataset",
                hint="they must add up to 1: train=0.9 val=0.1",
            )

    @cached_property
    def _ends(self) -> list[float]:
        ends = list(accumulate(self.shares.values()))
        return [*ends[:-1], 1.0] if ends[-1] > 1 - 1e-9 else ends

    def part(self, key: str) -> str | None:
        """The part of a key; None if it is in none because the shares add up to less than 1."""
        number = bisect_right(self._ends, digest("share", self.seed, key) / 2**64)
        return list(self.shares)[number] if number < len(self._ends) else None


def parse_shares(words: tuple[str, ...] | list[str]) -> dict[str, float]:
    """Parse shares such as `train=0.9`.

    >>> parse_shares(["train=0.9", "val=0.1"])
    {'train': 0.9, 'val': 0.1}
    """
    shares: dict[str, float] = {}
    for word in words:
        name, equals, share = word.partition("=")
        try:
            if not name or not equals or name in shares:
                raise ValueError(word)
            shares[name] = float(share.removesuffix("%")) / (100 if share.endswith("%") else 1)
        except ValueError as error:
            raise SpecError(f"{word!r} is not a share", hint="write train=0.9 val=0.1") from error
    return shares
