"""`DataPipeline`: stages in a row, passes over them, and where a pass is."""

from __future__ import annotations

import copy
import operator
import warnings
from collections.abc import Iterator
from typing import Any, Self

from webdataset import config, world
from webdataset.errors import SpecError, StateError
from webdataset.flow import Json

from ._epochs import EpochCounter
from ._merge_states import check_kinds, check_state, next_epoch_of, settled
from ._running import fingerprint
from ._stage_kinds import check_stage
from ._stream import Passes, Stream
from ._torch_iterable import TorchIterable

ENDLESS = 10**18


class DataPipeline(TorchIterable):
    """A dataset made of stages; each turns one stream into another, the first starts it.

    >>> import webdataset as wds
    >>> dataset = DataPipeline(range(6), wds.map(lambda n: n * n), wds.batched(2, collation_fn=None))
    >>> list(dataset)
    [[0, 1], [4, 9], [16, 25]]

    torch's `DataLoader` takes it as an iterable dataset; without torch it is iterated as it is. None is left out, and a
    list among later stages stands for the stages in it.
    """

    def __init__(self, *stages: Any, **ignored: Any) -> None:
        if ignored:
            warnings.warn(f"DataPipeline ignores {', '.join(ignored)}", stacklevel=2)
        self.pipeline: list[Any] = []
        for stage in stages:
            # A list in first place is data; later it groups stages, as the public library has it.
            for part in stage if isinstance(stage, list) and self.pipeline else [stage]:
                if part is not None:
                    self.append(part)
        self.repetitions = 1
        self.nsamples = -1
        self.length = -1
        self.size: int | None = None
        self.seed: int = config.read("WDS_SEED")
        self.epochs = EpochCounter()
        self._stream: Stream | None = None
        self._resume_from: Json = None
        self._loaded = False  # whether a user gave `_resume_from`, and nobody has taken it yet
        self._restart = False

    def append(self, stage: Any) -> None:
        """Add a stage to this very pipeline.

        >>> dataset = DataPipeline([1, 2])
        >>> dataset.append(lambda numbers: (number + 1 for number in numbers))
        >>> list(dataset)
        [2, 3]
        """
        check_stage(stage, first=not self.pipeline)
        self.pipeline.append(stage)

    def compose(self, *stages: Any) -> Self:
        """A copy with more stages; this pipeline stays as it is.

        >>> list(DataPipeline([1, 2]).compose(sorted, enumerate))
        [(0, 1), (1, 2)]
        """
        if self._loaded and stages:
            raise StateError(
                "a checkpoint was loaded into this pipeline, and is none of a longer one",
                hint="put the whole pipeline together first, then call load_state_dict on it",
            )
        result = self._copy()
        for stage in stages:
            result.append(stage)
            result._resume_from = None  # where an epoch was left is no place in a longer pipeline
        return result

    def stage(self, i: int) -> Any:
        """The i-th stage.

        >>> DataPipeline([1, 2]).stage(0)
        [1, 2]
        """
        return self.pipeline[i]

    def with_epoch(self, nsamples: int = -1, nbatches: int = -1, *, restart: bool = False) -> Self:
        """A copy whose epochs have exactly this many items, whatever the pipeline yields (samples or batches).

        Each epoch goes on where the one before it stopped, over as many passes as that takes; with `restart=True` each
        begins with a new pass.

        >>> dataset = DataPipeline([0, 1, 2]).with_epoch(2)
        >>> [list(dataset) for _ in range(3)]
        [[0, 1], [2, 0], [1, 2]]
        """
        size = max(_whole("with_epoch", nsamples), _whole("with_epoch", nbatches))
        if size < 1:
            raise SpecError(
                f"with_epoch({nsamples if nbatches == -1 else nbatches})",
                hint="say how many items an epoch has; .repeat() goes on for ever",
            )
        result = self._copy()
        result.repetitions, result.nsamples, result._restart = ENDLESS, size, restart
        return result

    def repeat(self, nepochs: int = -1, nbatches: int = -1) -> Self:
        """A copy that makes `nepochs` passes (for ever if not given), cut after `nbatches` items.

        >>> list(DataPipeline([0, 1]).repeat(2))
        [0, 1, 0, 1]
        >>> list(DataPipeline([0, 1]).repeat(nbatches=3))
        [0, 1, 0]
        """
        passes, size = _whole("repeat", nepochs), _whole("repeat", nbatches)
        result = self._copy()
        result.repetitions = passes if passes > 0 else ENDLESS
        result.nsamples, result._restart = size, True
        return result

    def ddp_equalize(self, length: int, with_length: bool = True) -> Self:
        """A copy with equally many items on every rank, `length` on all ranks together (a name of the 0.1 series).

        >>> with world.pretend(world.World(rank=0, ranks=2)):
        ...     len(DataPipeline([0, 1, 2]).ddp_equalize(10))
        5
        """
        share = length // world.current().ranks
        result = self.with_epoch(share)
        return result.with_length(share) if with_length else result

    def with_length(self, n: int, silent: bool = False) -> Self:
        """A copy that answers `len()` with `n`; what it yields does not change.

        >>> len(DataPipeline([0, 1]).with_length(2))
        2
        """
        if isinstance(n, bool) or not isinstance(n, int) or n < 0:
            raise SpecError(f"with_length({n!r})", hint="the length is a whole number, 0 or more")
        result = self._copy()
        result.size = n
        return result

    def __len__(self) -> int:
        if self.size is None:
            raise TypeError(f"{type(self).__name__} has no length; declare one with .with_length(n)")
        return self.size

    def __bool__(self) -> bool:
        return True  # a pipeline without a length is still something

    def set_epoch(self, epoch: int) -> None:
        """Number the next pass, for orders that depend on it; the same call on every rank makes them agree."""
        self.epochs.set(epoch)

    def __iter__(self) -> Iterator[Any]:
        """One epoch: a pass, or what `with_epoch` and `repeat` made of it."""
        return self.open().epoch(self.nsamples)

    def open(self, state: Json = None, **how: Any) -> Stream:
        """The stream that the next epoch comes from: as loaded, or as the epoch before it left it, or a new one.

        Args:
            state: where a `Stream` was, instead of what `load_state_dict` said.
            how: for `Running`, if the stream is a new one.
        """
        if state is None:
            state, self._resume_from, self._loaded = self._resume_from, None, False
        goes_on = self._stream is not None and self.goes_on and state is None
        stream = self._stream.next_epoch() if goes_on and self._stream is not None else None
        self._stream = stream if stream is not None else Stream(self._passes(**how), state)
        return self._stream

    def again(self, origin: Json) -> Any:
        """Make the item of a stream's `origin` once more."""
        return self._passes().run(origin["epoch"]).again(origin["item"])

    def leave(self, state: Json) -> None:
        """End an epoch early, or in another process: the next one goes on from this state, if epochs go on at all."""
        self._stream = None
        if self.goes_on and state is not None:
            self._resume_from = next_epoch_of(state)

    @property
    def goes_on(self) -> bool:
        """Whether an epoch continues the one before it (`with_epoch`) instead of making new passes."""
        return self.nsamples > 0 and not self._restart

    def iterator1(self) -> Iterator[Any]:
        """One pass, whatever `repeat` and `with_epoch` say.

        >>> list(DataPipeline([0, 1]).repeat(3).iterator1())
        [0, 1]
        """
        return self._passes().run(self.epochs.next()).items

    def iterator(self) -> Iterator[Any]:
        """Up to `repetitions` passes, without the cut of `with_epoch`.

        >>> list(DataPipeline([0, 1]).repeat(2).iterator())
        [0, 1, 0, 1]
        """
        return Stream(self._passes()).epoch(-1)

    def _passes(self, **how: Any) -> Passes:
        if not self.pipeline:
            raise SpecError("the pipeline has no stages", hint="give DataPipeline a source, such as a shard list")
        return Passes(self.pipeline, self.seed, self.epochs, self.repetitions, how)

    def state_dict(self) -> dict[str, Json]:
        """Where the iteration is: JSON, to be given to `load_state_dict` of an equal pipeline.

        >>> dataset = DataPipeline([0, 1, 2])
        >>> items = iter(dataset)
        >>> next(items)
        0
        >>> saved = dataset.state_dict()
        >>> again = DataPipeline([0, 1, 2])
        >>> again.load_state_dict(saved)
        >>> list(again)
        [1, 2]
        """
        state, at = {"version": 1, **self.identity()}, self._resume_from
        if at is None and self._stream is None:
            return {**state, "next_epoch": self.epochs.peek(), "at": None}
        if at is None and self._stream is not None:
            at = settled([self._stream.state()])
            if at["pass"] is None:  # between two epochs, where `set_epoch` has the last word
                at["epoch"] = self.epochs.peek()
        return {**state, "at": at}

    def load_state_dict(self, state: dict[str, Json]) -> None:
        """Go on from a saved state with the next `iter()`."""
        check_state(state)
        self.check_identity(state)
        self._resume_from = state["at"]
        self._loaded = state["at"] is not None
        self._stream = None
        self.epochs.set(state["at"]["epoch"] if state["at"] is not None else state.get("next_epoch", 0))

    def save_between(self) -> Json:
        """What the next iteration begins with, for a dataset that is a part of another: its number, or its place."""
        at = self._resume_from
        if at is None and self._stream is not None and self.goes_on:
            at = next_epoch_of(self._stream.state())
        return {"next_epoch": self.epochs.upcoming(), "at": at}

    def load_between(self, saved: Json) -> None:
        """Begin the next iteration as was saved."""
        check_kinds(saved, next_epoch=int, at=dict | None)
        self.epochs.set(saved["next_epoch"])
        self._resume_from = saved["at"]
        self._stream = None

    def identity(self) -> dict[str, Json]:
        """What a checkpoint must know of the pipeline to refuse another one."""
        return {"seed": self.seed, "stages": fingerprint(self.pipeline)}

    def check_identity(self, saved: dict[str, Json]) -> None:
        """Refuse what was saved by another pipeline, in a sentence that says what differs."""
        check_kinds(saved, seed=int, stages=list)
        mine = fingerprint(self.pipeline)
        for number, (there, here) in enumerate(zip(saved["stages"], mine, strict=False)):
            if there != here:
                raise StateError(
                    f"stage {number} of the checkpoint is {there}, here it is {here}",
                    hint="load the checkpoint into the pipeline that saved it",
                )
        if len(saved["stages"]) != len(mine):
            raise StateError(
                f"the checkpoint has {len(saved['stages'])} stages, this pipeline has {len(mine)}",
                hint="load the checkpoint into the pipeline that saved it",
            )
        if saved["seed"] != self.seed:
            raise StateError(
                f"the checkpoint was made with seed {saved['seed']}, this pipeline has {self.seed}",
                hint="give the dataset the same seed",
            )

    def close(self) -> None:
        """Close what an iteration holds open, then every stage that can be closed."""
        if self._stream is not None:
            self._stream.close()
            self._stream = None
        for stage in self.pipeline:
            close = getattr(stage, "close", None)
            if close is not None:
                close()

    def _copy(self) -> Self:
        result = copy.copy(self)
        result.pipeline = list(self.pipeline)
        result.epochs = EpochCounter()
        result._stream = None
        return result

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_stream": None}

    def __add__(self, other: Any) -> Any:
        from torch.utils.data import ChainDataset

        return ChainDataset([self, other])

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(fingerprint(self.pipeline))})"


def _whole(method: str, value: Any) -> int:
    """A whole number, also when it came as `1e4` or as a NumPy integer."""
    try:
        return int(value) if isinstance(value, float) and value.is_integer() else operator.index(value)
    except TypeError as error:
        raise SpecError(f"{method}({value!r})", hint="give a whole number; `//` divides into whole numbers") from error
