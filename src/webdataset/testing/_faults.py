"""Faults of a download, and seeded schedules of them."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import NamedTuple

# What happens when the body has been sent up to the offset of the fault:
PASSING = (
    "reset",  # the connection breaks (RST)
    "cut",  # the connection is closed in good order (FIN), the body is short
    "stall",  # nothing more comes, the connection stays open
    "500",  # cut, and the next request is answered so
    "503",
    "429",  # the same, with Retry-After
    "short-length",  # Content-Length announces only the bytes up to the offset
    "long-length",  # Content-Length announces more bytes than there are; cut at the offset
    "no-length",  # no Content-Length at all; cut at the offset
    "redirect",  # cut, and the next request is redirected once
)
LASTING = (
    "changed",  # cut, and from now on another object is served under this name
    "loop",  # cut, and from now on every request is redirected to itself
    "gone",  # cut, and from now on 404
)


class Fault(NamedTuple):
    """One fault, which happens once, at one byte."""

    offset: int
    kind: str


@dataclass(frozen=True, slots=True)
class Schedule:
    """How a server sends one object.

    >>> Schedule.random(seed=7, size=1000) == Schedule.random(seed=7, size=1000)
    True

    Args:
        faults: In the order of their offsets; each happens once.
        ranges: Whether range requests are supported.
        etags: Whether the server sends the version.
        chunked: Whether bodies are sent in chunks, without a length.
    """

    faults: tuple[Fault, ...] = ()
    ranges: bool = True
    etags: bool = True
    chunked: bool = False

    @classmethod
    def random(cls, seed: int, size: int, most: int = 5) -> Schedule:
        """A schedule that depends on the seed alone."""
        rng = random.Random(seed)
        kinds = [rng.choice(PASSING) for _ in range(rng.randint(0, most))]
        if rng.random() < 0.15:
            kinds.append(rng.choice(LASTING))
        offsets = sorted(rng.randint(0, size) for _ in kinds)
        faults = tuple(Fault(offset, kind) for offset, kind in zip(offsets, kinds, strict=True))
        return cls(faults, ranges=rng.random() < 0.85, etags=rng.random() < 0.8, chunked=rng.random() < 0.15)

    @property
    def heals(self) -> bool:
        """Whether a correct client must read the object to its end."""
        return not any(fault.kind in LASTING for fault in self.faults)
