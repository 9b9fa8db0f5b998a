"""Random draws whose whole state is one number: how many were made."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

from webdataset.errors import StateError
from webdataset.flow import Json, digest

# A Mersenne Twister per draw would cost 7 µs, a hash 1 µs; a fresh twister every 512 draws costs 0.06 µs a draw, and
# going on from the middle repeats at most 511 draws.
_BLOCK = 512


class Draws:
    """A sequence of draws that depends on a seed; `step` says how far it has come.

    >>> draws = Draws(7)
    >>> first = [draws.below(100) for _ in range(3)]
    >>> again = Draws(7)
    >>> again.load(2)
    >>> again.below(100) == first[2]
    True
    """

    start: Json = None  # follows from the seed

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self.load(0)

    def below(self, limit: int) -> int:
        """The next draw: a whole number from 0 to `limit` - 1."""
        self.step += 1
        return int(next(self._floats) * limit)

    def save(self) -> Json:
        """How many draws were made."""
        return self.step

    def load(self, saved: Json) -> None:
        """Go on after that many draws."""
        self.step: int = saved
        self._floats = self._from(saved)

    def _from(self, step: int) -> Iterator[float]:
        block, skipped = divmod(step, _BLOCK)
        while True:
            random_ = random.Random(digest(self._seed, block)).random
            for number in range(_BLOCK):
                drawn = random_()
                if number >= skipped:
                    yield drawn
            block, skipped = block + 1, 0


class GivenDraws:
    """Draws from a generator of the user's own; its state is whatever the generator's is.

    >>> GivenDraws(random.Random(1)).below(10)
    1

    `start` is the state before the first draw, if the generator can tell.
    """

    def __init__(self, rng: Any) -> None:
        self._rng = rng
        self.start: Json = self.save() if hasattr(rng, "getstate") else None

    def below(self, limit: int) -> int:
        """The next draw: a whole number from 0 to `limit` - 1."""
        return int(self._rng.random() * limit)

    def save(self) -> Json:
        """The generator's own state, 625 numbers for a `random.Random`."""
        if not hasattr(self._rng, "getstate"):
            raise StateError(
                f"the state of {type(self._rng).__name__} cannot be saved",
                hint="give shuffle() a seed instead of rng, or a random.Random",
            )
        version, numbers, gauss = self._rng.getstate()
        return [version, list(numbers), gauss]

    def load(self, saved: Json) -> None:
        """Put the generator back."""
        self.start = saved
        version, numbers, gauss = saved
        self._rng.setstate((version, tuple(numbers), gauss))
