"""Samples in random order, through a buffer."""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, TypedDict

from webdataset.arguments import require_count
from webdataset.describe import Described
from webdataset.errors import SpecError
from webdataset.flow import Pass, Resumable, digest

from ._buffers import Buffer, recallable
from ._random_draws import Draws

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from webdataset.flow import Json, Recall
    from webdataset.handlers import Handler


class Reservoir(Buffer):
    """A buffer, and the draws that empty it."""

    def __init__(self, draws: Draws) -> None:
        super().__init__()
        self.draws = draws
        self.half = False  # while the buffer grows: one was taken of the two items for which one is yielded

    def draw(self) -> Any:
        """Remove and return a random item; the last item takes its place in the list."""
        items, origins = self.items, self.origins
        chosen = self.draws.below(len(items))
        item, self.handed = items[chosen], origins[chosen]
        items[chosen], origins[chosen] = items[-1], origins[-1]
        items.pop()
        origins.pop()
        return item

    def save(self) -> Json:
        """Origins, and how many draws were made."""
        half = {"half": True} if self.half else {}  # only after a failure
        return {"held": recallable(self.origins), "draws": self.draws.save(), **half}

    def load(self, saved: Json, recall: Recall) -> None:
        """Fill the buffer again."""
        super().load(saved, recall)
        self.draws.load(saved["draws"])
        self.half = saved.get("half", False)


class ShuffleOptions(TypedDict, total=False):
    """The options of `shuffle` besides the size of the buffer."""

    initial: int
    rng: Any
    seed: int | None
    handler: Handler | None


@dataclass(frozen=True, repr=False)
class Shuffle(Described, Resumable):
    """Yield a random one of the items in a buffer.

    >>> numbers = list(Shuffle(5, seed=1)(range(10)))
    >>> numbers == sorted(numbers), sorted(numbers) == list(range(10))
    (False, True)

    The buffer starts small, so that the first item comes soon: once it holds `initial` items, one is yielded for
    every two taken until it holds `bufsize`, then one for one; at the end it empties itself. A `bufsize` below 1 keeps
    the order.

    In a pipeline the order follows from the pipeline's seed, the epoch, the place in the pipeline and the part of the
    data that this process reads; with `seed` given, from that seed and the epoch alone. Either way each epoch has an
    order of its own, and the same one when it is run again. Outside a pipeline, no seed means a new order every time.

    Args:
        bufsize: how many items may wait.
        initial: how many must wait before the first is yielded.
        rng: a generator, such as a `random.Random`; one number is drawn from it now, and is the seed.
        seed: replaces the pipeline's seed.
        handler: accepted because the public signature has it; nothing here can fail on a sample.
    """

    verb: ClassVar[str] = "shuffle"
    keeps_count: ClassVar[bool] = True
    draws: ClassVar[bool] = True
    bufsize: int = 1000
    initial: int = 100
    rng: Any = None
    seed: int | None = None
    handler: Handler | None = None

    def __post_init__(self) -> None:
        for name in ("bufsize", "initial"):
            self._set(**{name: require_count("shuffle", name, getattr(self, name))})
        if self.rng is not None and self.seed is not None:
            raise SpecError("shuffle() was given both rng and seed", hint="give one of them")
        if self.rng is not None and not hasattr(self.rng, "random"):
            raise SpecError(f"shuffle(rng={self.rng!r}): expected a random.Random")
        if self.rng is not None:  # its state would differ between workers, and by what a loader has prefetched
            self._set(seed=int(self.rng.random() * 2**53), rng=None)
        if self.seed is not None:
            self._set(seed=require_count("shuffle", "seed", self.seed))

    def start(self, during: Pass) -> Reservoir:
        """An empty buffer with this pass's draws."""
        if self.seed is not None:
            return Reservoir(Draws(digest("shuffle", self.seed, during.epoch)))
        return Reservoir(Draws(digest("shuffle", during.seed, during.epoch, during.stage, *during.world.part)))

    def run(self, items: Iterator[Any], at: Reservoir, /) -> Iterator[Any]:
        """Fill, yield, and empty the buffer."""
        enough = min(self.initial, self.bufsize)
        for item in items:
            at.take(item)
            at.half = not at.half and len(at.items) < self.bufsize
            if at.half:
                continue
            if len(at.items) >= enough:
                yield at.draw()
        at.half = False
        while at.items:
            yield at.draw()

    def __call__(self, items: Iterable[Any] = (), /) -> Iterator[Any]:
        """Run alone: without a seed, in a non-deterministic order."""
        return self.run(iter(items), self.start(Pass(seed=secrets.randbits(63))))
