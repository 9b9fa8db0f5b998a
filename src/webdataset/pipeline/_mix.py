"""Several datasets as one: in turns, at random, or by exact shares.

All three are one stage that draws which dataset comes next and takes an item from it. Its progress is that of the
drawing and the place in each dataset, so a mix resumes exactly, and mixes of mixes do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from webdataset.errors import SpecError, StateError
from webdataset.flow import Json, Pass, Progress, Recall, Resumable, digest
from webdataset.order import check_weights

from ._fluid import FluidInterface
from ._pipeline import DataPipeline
from ._source_choice import AtRandom, ByShares, Drawing, InTurns, Shares
from ._stream import Stream

_END: Any = object()
_EXHAUSTED = ("stop", "drop", "repeat")


class MixProgress(Progress):
    """Which dataset is next, and where each of them is."""

    def __init__(self, drawing: Drawing, datasets: Sequence[DataPipeline]) -> None:
        self.drawing = drawing
        self.datasets = datasets
        self.streams: list[Stream | None] = [None] * len(datasets)
        self.items: list[Iterator[Any]] = [iter(())] * len(datasets)
        self.source, self.left = 0, 0
        self.begins: dict[int, int] = {}  # loaded: the first pass of datasets that were not begun
        self.ended: set[int] = set()  # datasets that had no more, and are not asked again in this pass
        self.over = False

    def open(self, source: int, state: Json = None) -> None:
        """Begin with a dataset, or go on where it was."""
        dataset = self.datasets[source]
        if state is None and source in self.begins:  # other workers count in the same memory, and may be ahead
            state = {"epoch": self.begins.pop(source), "passes": 0, "pass": None, "in_epoch": 0}
        stream = self.streams[source] = dataset.open(state)
        self.items[source] = stream.epoch(dataset.nsamples)

    @property
    def origin(self) -> Json:
        """The dataset that was drawn last, and the origin of the item in it."""
        stream = self.streams[self.source]
        origin = None if stream is None else stream.origin
        return None if origin is None else {"source": self.source, **origin}

    def save(self) -> Json:
        """The drawing, the state of every dataset that was begun, and how the others will begin."""
        states = [
            self._between(source) if stream is None or source in self.ended else stream.state()
            for source, stream in enumerate(self.streams)
        ]
        if self.over:
            return {"datasets": states, "over": True}
        return {"drawing": self.drawing.save(), "source": self.source, "left": self.left, "datasets": states}

    def _between(self, source: int) -> Json:
        saved = self.datasets[source].save_between()
        return {**saved, "next_epoch": self.begins[source]} if source in self.begins else saved

    def load(self, saved: Json, recall: Recall) -> None:
        """Go on in all of them."""
        if len(saved["datasets"]) != len(self.datasets):
            raise StateError(
                f"the checkpoint mixes {len(saved['datasets'])} datasets, here are {len(self.datasets)}",
                hint="mix the datasets that the checkpoint was written for",
            )
        self.over = saved.get("over", False)
        if not self.over:
            self.drawing = self.drawing.load(saved["drawing"])
            self.source, self.left = saved["source"], saved["left"]
        for source, state in enumerate(saved["datasets"]):
            if state is not None and "next_epoch" in state:
                self.datasets[source].load_between(state)
                if state["at"] is None and not self.over:
                    self.begins[source] = state["next_epoch"]
            elif state is not None:
                self.open(source, state)

    def close(self) -> None:
        """Close what the datasets hold open, except where an epoch goes on: the next pass of the mix does that."""
        for dataset, stream in zip(self.datasets, self.streams, strict=True):
            if stream is not None and not dataset.goes_on:
                stream.close()


@dataclass(frozen=True)
class Mixture(Resumable):
    """Draws a dataset, takes `run` items from it, draws again."""

    datasets: tuple[DataPipeline, ...]
    drawing: Callable[[Pass], Drawing] = field(repr=False)
    exhausted: str = "stop"
    run_of: int = 1

    def start(self, during: Pass) -> MixProgress:
        """Nothing drawn yet."""
        return MixProgress(self.drawing(during), self.datasets)

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
                if at.streams[at.source] is None:
                    at.open(at.source)
                item = next(at.items[at.source], _END)
                if item is _END and self.exhausted == "repeat":
                    at.open(at.source)
                    item = next(at.items[at.source], _END)
                if item is not _END:
                    at.left -= 1
                    yield item
                    continue
                at.left = 0
                at.ended.add(at.source)
                at.over = self.exhausted != "drop" or not at.drawing.drop(at.source)
        finally:
            at.close()

    def again(self, origin: Json, recall: Recall) -> Any:
        """The dataset makes it again."""
        return self.datasets[origin["source"]].again(origin)

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
        pipelines = tuple(each if isinstance(each, DataPipeline) else DataPipeline(each) for each in datasets)
        super().__init__(Mixture(pipelines, drawing, exhausted, run_of))

    def state_dict(self) -> dict[str, Json]:
        """Where the mix is; between two passes that is where its parts will go on."""
        return self._with_parts(super().state_dict())

    def load_state_dict(self, state: dict[str, Json]) -> None:
        """Go on from a saved state with the next `iter()`."""
        super().load_state_dict(state)
        self._load_parts(state.get("parts"))

    def save_between(self) -> Json:
        """The same for a mix that is itself a part of another."""
        return self._with_parts(super().save_between())

    def load_between(self, saved: Json) -> None:
        """Begin the next iteration as was saved."""
        super().load_between(saved)
        self._load_parts(saved.get("parts"))

    def _with_parts(self, saved: dict[str, Json]) -> dict[str, Json]:
        """In the middle of a pass the pass says where the parts are; said twice, they would begin there twice."""
        if saved["at"] is not None and saved["at"]["pass"] is not None:
            return saved
        return {**saved, "parts": [part.save_between() for part in self.pipeline[0].datasets]}

    def _load_parts(self, saved: Json) -> None:
        parts = self.pipeline[0].datasets
        if saved is None:
            return  # in the middle of a pass, which says it itself
        if not isinstance(saved, list) or len(saved) != len(parts):
            raise StateError("the checkpoint mixes other datasets", hint="mix those it was written for")
        for part, each in zip(parts, saved, strict=True):
            part.load_between(each)


class RoundRobin(Mix):
    """One item from each dataset in turn.

    >>> list(RoundRobin([[1, 2, 3], [10, 20]]))
    [1, 10, 2, 20, 3]
    >>> list(RoundRobin([[1, 2, 3], [10]], longest=True))
    [1, 10, 2, 3]
    """

    def __init__(self, datasets: Sequence[Any], longest: bool = False) -> None:
        self.longest = longest
        super().__init__(datasets, _in_turns(len(datasets)), "drop" if longest else "stop")


class RandomMix(Mix):
    """Items from datasets picked by probability; the same picks for the same seed and epoch.

    >>> mixed = list(RandomMix([[1] * 5, [2] * 5], probs=[0.5, 0.5], longest=True))
    >>> sorted(mixed)
    [1, 1, 1, 1, 1, 2, 2, 2, 2, 2]

    Args:
        datasets: anything to iterate over.
        probs: how likely each is, in any unit; a dataset of probability 0 is never asked.
        longest: go on without a dataset that has no more; otherwise the mix ends there.
        seed: which of all sequences.
    """

    def __init__(
        self,
        datasets: Sequence[Any],
        probs: Sequence[float] | None = None,
        longest: bool = False,
        seed: int | None = None,
    ) -> None:
        if not isinstance(datasets, Iterable) or isinstance(datasets, str | bytes):
            raise SpecError(f"RandomMix({datasets!r:.100})", hint="give a list of datasets")
        datasets = list(datasets)
        self.probs, self.longest = probs, longest
        weights = check_weights([1.0] * len(datasets) if probs is None else probs, len(datasets))
        super().__init__(datasets, _AtRandomIn(weights), "drop" if longest else "stop")
        if seed is not None:
            self.seed = seed


class mix(Mix):  # noqa: N801  # `wds.mix([...])` reads as the verb it is
    """Datasets mixed by exact shares: no chance, and every thousand items in a row have every share within one item.

    >>> mixed = mix([(["a"] * 9, 2), (["b"] * 9, 1)])
    >>> "".join(mixed.slice(9))
    'abaabaaba'
    >>> mixed.set_weights([0, 1])
    >>> "".join(mixed.slice(4))
    'bbbb'

    The weights may change: `schedule` says from which draw on others hold, and `set_weights` changes them now (in this
    process; workers follow `schedule`). They are part of the state, so a resumed mix goes on with those in force.

    Args:
        sources: pairs of a dataset and its weight.
        exhausted: when a dataset has no more: "stop" the mix, "drop" it and go on, or "repeat" it.
        per_batch: take this many items from a dataset before the next is drawn: batches of one source each.
        schedule: pairs of a draw's number and the weights from there on.
    """

    def __init__(
        self,
        sources: Sequence[tuple[Any, float]],
        *,
        exhausted: str = "stop",
        per_batch: int = 1,
        schedule: Sequence[tuple[int, Sequence[float]]] = (),
    ) -> None:
        if (
            not sources
            or not isinstance(sources, Sequence)
            or any(not isinstance(pair, tuple) or len(pair) != 2 for pair in sources)
        ):
            raise SpecError(f"mix({sources!r:.100})", hint="give pairs of a dataset and its weight")
        if exhausted not in _EXHAUSTED:
            raise SpecError(f"exhausted={exhausted!r}", hint=f"one of {', '.join(_EXHAUSTED)}")
        if isinstance(per_batch, bool) or not isinstance(per_batch, int) or per_batch < 1:
            raise SpecError(f"per_batch={per_batch!r}", hint="a whole number, 1 or more")
        datasets, weights = zip(*sources, strict=True)
        plan = [(0, weights), *schedule]
        self._shares = Shares([(step, check_weights(each, len(datasets))) for step, each in plan])
        super().__init__(datasets, _ByTheseShares(self._shares), exhausted, per_batch)

    def set_weights(self, weights: Sequence[float]) -> None:
        """Use other weights from the next draw on."""
        self._shares.set(weights)


@dataclass(frozen=True)
class _in_turns:  # noqa: N801  # a function that pickles
    sources: int

    def __call__(self, during: Pass) -> InTurns:
        return InTurns(self.sources)


@dataclass(frozen=True)
class _AtRandomIn:
    weights: list[float]

    def __call__(self, during: Pass) -> AtRandom:
        return AtRandom(self.weights, digest(during.seed, during.epoch, *during.world.part))


@dataclass(frozen=True)
class _ByTheseShares:
    shares: Shares

    def __call__(self, during: Pass) -> ByShares:
        return ByShares(self.shares)
