"""The shuffle that counts its epochs itself, for programs that read or set the counter."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, ClassVar

from webdataset.arguments import require_count
from webdataset.describe import Described
from webdataset.flow import Pass, Resumable, digest

from ._random_draws import Draws
from ._shuffle import Reservoir, Shuffle


@dataclass(repr=False, eq=False)
class DetShuffle(Described, Resumable):
    """Shuffle in an order that depends on `seed` and `epoch` alone; `epoch` is that of the latest pass.

    >>> stage = DetShuffle(seed=3)
    >>> first, second = list(stage(range(9))), list(stage(range(9)))
    >>> stage.epoch, first == second
    (1, False)
    >>> list(DetShuffle(seed=3, epoch=0)(range(9))) == second
    True

    Outside a pipeline every pass adds one to `epoch`. A pipeline gives the stage its epoch, so that processes which are
    started anew for every epoch do not begin at 0 again. After `epoch` was set by hand the next pass has the number
    after it.
    """

    verb: ClassVar[str] = "detshuffle"
    keeps_count: ClassVar[bool] = True
    bufsize: int = 1000
    initial: int = 100
    seed: int = 0
    epoch: int = field(default=-1, repr=False)
    _known: tuple[int, int] | None = field(default=None, init=False, repr=False)  # (epoch, the pipeline's epoch)

    def __post_init__(self) -> None:
        for name in ("bufsize", "initial", "seed", "epoch"):
            setattr(self, name, require_count("detshuffle", name, getattr(self, name), least=-(2**63)))

    def start(self, during: Pass) -> Reservoir:
        """An empty buffer; `epoch` becomes that of this pass."""
        known, pipeline_epoch = self._known or (self.epoch, -1)
        if self._known is not None and self.epoch != known:  # it was set by hand
            pipeline_epoch, known = during.epoch - 1, self.epoch
        self.epoch = known + during.epoch - pipeline_epoch
        self._known = (self.epoch, during.epoch)
        return self._reservoir()

    def run(self, items: Iterator[Any], at: Reservoir | None = None, /) -> Iterator[Any]:
        """Shuffle. Without a progress this is a pass of its own, which counts itself."""
        if at is None:
            self.epoch += 1
            self._known = None
            at = self._reservoir()
        return Shuffle(self.bufsize, self.initial).run(items, at)

    def __call__(self, items: Iterable[Any] = (), /) -> Iterator[Any]:
        """Run alone, outside a pipeline."""
        return self.run(iter(items))

    def _reservoir(self) -> Reservoir:
        return Reservoir(Draws(digest("shuffle", self.seed, self.epoch)))
