"""Several datasets as one: in turns, at random, or by exact shares.

All three are one stage that draws which dataset comes next and takes an item from it. Its progress is the state of the
draws and the cursor of each dataset, so a mix resumes exactly, and so do mixes of mixes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from webdataset.arguments import require_choice, require_count
from webdataset.errors import SpecError
from webdataset.flow import Json, Pass, Recall, Resumable, count_in, digest, well_formed
from webdataset.order import check_weights

from ._fluid import FluidInterface
from ._nested import NestedProgress, PartsProgress
from ._pipeline import DataPipeline
from ._source_choice import AtRandom, ByShares, Drawing, InTurns, Shares
from ._stage_kinds import is_stage

EXHAUSTED: Any = object()  # in place of an item: the dataset has no more items
_EXHAUSTED = ("stop", "drop", "repeat")


class MixProgress(PartsProgress):
    """Which dataset is next, and the cursor of each dataset."""

    def __init__(self, drawing: Drawing, parts: Sequence[NestedProgress]) -> None:
        super().__init__(parts)
        self.drawing = drawing
        self.items: list[Iterator[Any] | None] = [None] * len(parts)
        self.source, self.left = 0, 0
        self.ended: set[int] = set()  # datasets that have no more items in this pass
        self.over = False

    def take(self) -> Any:
        """Return the next item of the dataset that was drawn; `EXHAUSTED` if it has no more."""
        items = self.items[self.source]
        if items is None:
            items = self.items[self.source] = self.parts[self.source].open()
        return next(items, EXHAUSTED)

    def begin_again(self) -> None:
        """Start the next epoch of the dataset that was drawn."""
        part = self.parts[self.source]
        self.parts[self.source].restart()
        self.items[self.source] = part.open()

    @property
    def origin(self) -> Json:
        """The dataset that was drawn last, and the origin of the item in it."""
        origin = self.parts[self.source].origin if self.parts else None
        return None if origin is None else {"source": self.source, **origin}

    def save(self) -> Json:
        """The drawing, and the cursor of every dataset."""
        cursors = [part.next_start() if number in self.ended else part.save() for number, part in enumerate(self.parts)]
        if self.over:
            return {"datasets": cursors, "over": True}
        return {"drawing": self.drawing.save(), "source": self.source, "left": self.left, "datasets": cursors}

    def load(self, saved: Json, recall: Recall) -> None:
        """Go on in all of them."""
        super().load(saved, recall)
        self.over = saved.get("over", False)
        if saved.get("drawing") is not None:
            self.drawing = self.drawing.load(saved["drawing"])
            self.source, self.left = count_in(saved.get("source", 0)), count_in(saved.get("left", 0))
            if self.source >= max(1, len(self.parts)):
                raise ValueError(f"there is no dataset {self.source}")


@dataclass(frozen=True)
class Mixture(Resumable):
    """Draw a dataset, take `run_of` items from it, and draw again."""

    datasets: tuple[DataPipeline, ...]
    drawing: Callable[[Pass], Drawing] = field(repr=False)
    exhausted: str = "stop"
    run_of: int = 1

    @property
    def carries(self) -> bool:
        """Whether the next pass depends on this one: with "repeat" datasets may begin several epochs in a pass."""
        return self.exhausted == "repeat"

    def start(self, during: Pass) -> MixProgress:
        """Return the progress of a pass: nothing was drawn."""
        return MixProgress(self.drawing(during), [NestedProgress(dataset, during) for dataset in self.datasets])

    def run(self, items: Iterator[Any], at: MixProgress, /) -> Iterator[Any]:
        """Draw and take, until the datasets have no more."""
        try:
            while self.datasets and not at.over:
                if not at.left:
                    drawn = at.drawing.draw()
                    if drawn is None:
                        at.over = True
                        break
                    at.source, at.left = drawn, self.run_of
                item = at.take()
                if item is EXHAUSTED and self.exhausted == "repeat":
                    at.begin_again()
                    item = at.take()
                if item is not EXHAUSTED:
                    at.left -= 1
                    yield item
                    continue
                at.left = 0
                at.ended.add(at.source)
                at.over = self.exhausted != "drop" or not at.drawing.drop(at.source)
        finally:
            at.end_pass()

    def again(self, origin: Json, recall: Recall) -> Any:
        """Make the item again from its dataset."""
        with well_formed(origin, "a mix"):
            dataset = self.datasets[origin["source"]]
        return dataset.again(origin)

    def close(self) -> None:
        """Close the datasets."""
        for dataset in self.datasets:
            dataset.close()


class Mix(DataPipeline, FluidInterface):
    """Datasets mixed by a drawing; what the three below share."""

    def __init__(
        self, datasets: Sequence[Any], drawing: Callable[[Pass], Drawing], exhausted: str, run_of: int = 1
    ) -> None:
        self.datasets = list(datasets)
        pipelines = tuple(each if isinstance(each, DataPipeline) else DataPipeline(each) for each in self.datasets)
        super().__init__(Mixture(pipelines, drawing, exhausted, run_of))


class RoundRobin(Mix):
    """One item from each dataset in turn.

    >>> list(RoundRobin([[1, 2, 3], [10, 20]]))
    [1, 10, 2, 20, 3]
    >>> list(RoundRobin([[1, 2, 3], [10]], longest=True))
    [1, 10, 2, 3]
    """

    def __init__(self, datasets: Iterable[Any], longest: bool = False) -> None:
        datasets = _listed("RoundRobin", datasets)
        self.longest = longest
        super().__init__(datasets, partial(_in_turns, len(datasets)), "drop" if longest else "stop")


class RandomMix(Mix):
    """Items from datasets picked by probability; the same picks for the same seed and epoch.

    >>> mixed = list(RandomMix([[1] * 5, [2] * 5], probs=[0.5, 0.5], longest=True))
    >>> sorted(mixed)
    [1, 1, 1, 1, 1, 2, 2, 2, 2, 2]

    Args:
        datasets: anything to iterate over.
        probs: how likely each is, in any unit; a dataset of probability 0 is never read.
        longest: go on without a dataset that has no more items; otherwise the mix ends there.
        seed: of the random sequence.
    """

    def __init__(
        self,
        datasets: Iterable[Any],
        probs: Sequence[float] | None = None,
        longest: bool = False,
        seed: int | None = None,
    ) -> None:
        datasets = _listed("RandomMix", datasets)
        self.probs, self.longest = probs, longest
        weights = check_weights([1.0] * len(datasets) if probs is None else probs, len(datasets))
        super().__init__(datasets, partial(_at_random, weights), "drop" if longest else "stop")
        if seed is not None:
            self.seed = require_count("RandomMix", "seed", seed)


class mix(Mix):  # noqa: N801  # `wds.mix([...])` reads as the verb it is
    """Datasets mixed by exact shares: of any thousand items in a row each dataset has its share, within one item.

    >>> mixed = mix([(["a"] * 9, 2), (["b"] * 9, 1)])
    >>> "".join(mixed.slice(9))
    'abaabaaba'
    >>> mixed.set_weights([0, 1])
    >>> "".join(mixed.slice(4))
    'bbbb'

    The weights may change: `schedule` gives other weights from some draw on, and `set_weights` changes them now (worker
    processes receive the change when they start, and follow `schedule` until then). Weights are part of the state, so a
    resumed mix goes on with the current ones.

    Args:
        sources: pairs of a dataset and its weight.
        exhausted: what happens when a dataset is used up: "stop" ends the mix (the default), "drop" continues with the
            others, "repeat" starts it again.
        per_batch: take this many items from a dataset before the next is drawn; with `.batched(n)` of the same size,
            each batch comes from one dataset. By default 1.
        schedule: pairs (draw, weights): these weights hold from that draw on. One item is one draw (with `per_batch`,
            so many items). Draws are counted over all workers of all ranks, so the curriculum does not depend on their
            number. By default the weights do not change.
    """

    def __init__(
        self,
        sources: Iterable[tuple[Any, float]],
        *,
        exhausted: str = "stop",
        per_batch: int = 1,
        schedule: Sequence[tuple[int, Sequence[float]]] = (),
    ) -> None:
        sources = _listed("mix", sources)
        if not sources or any(not isinstance(pair, tuple | list) or len(pair) != 2 for pair in sources):
            raise SpecError(f"mix({sources!r:.100}): expected pairs of a dataset and its weight")
        require_choice("exhausted", exhausted, _EXHAUSTED)
        per_batch = require_count("mix", "per_batch", per_batch, least=1)
        if any(not isinstance(change, Sequence) or len(change) != 2 for change in schedule):
            raise SpecError(f"schedule={schedule!r:.100}: expected pairs of a draw and the weights from there on")
        datasets, weights = zip(*sources, strict=True)
        plan = [(0, weights), *schedule]
        self.shares: Shares = Shares([(step, check_weights(each, len(datasets))) for step, each in plan])
        super().__init__(datasets, partial(_by_shares, self.shares), exhausted, per_batch)

    def set_weights(self, weights: Sequence[float]) -> None:
        """Use other weights from the next draw on."""
        self.shares.set(weights)


def _listed(verb: str, datasets: Any) -> list[Any]:
    if not isinstance(datasets, Iterable) or isinstance(datasets, str | bytes) or is_stage(datasets):
        raise SpecError(f"{verb}({datasets!r:.100}): expected a list of datasets")
    return list(datasets)


def _in_turns(sources: int, during: Pass) -> InTurns:
    return InTurns(sources)


def _at_random(weights: list[float], during: Pass) -> AtRandom:
    return AtRandom(weights, digest(during.seed, during.epoch, *during.world.part))


def _by_shares(shares: Shares, during: Pass) -> ByShares:
    return ByShares(shares, during.world.part)
