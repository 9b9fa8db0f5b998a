"""`DataPipeline`: stages one after the other, epochs over them, and checkpoints."""

from __future__ import annotations

import copy
import importlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Self

from webdataset import config, world
from webdataset.arguments import require_count
from webdataset.describe import as_html
from webdataset.errors import SpecError, StateError
from webdataset.flow import Json, PerItem, count_in, well_formed
from webdataset.plan import count_items
from webdataset.redact import warn
from webdataset.stages import JoinColumns

from ._checkpoint import Checkpoint, Identity, Settings, fingerprint
from ._cursor import Cursor
from ._epoch_counter import EpochCounter
from ._epoch_length import ENDLESS, KnownLength
from ._inner_datasets import check_owner_of_epoch, inner_seeds, is_repeatable, shares_of_mixes
from ._nested import Nested
from ._nested_join import Joined
from ._rank_agreement import check_ranks
from ._require_json import require_json
from ._run import Definition, Run
from ._running_pass import RunningPass, RunOptions
from ._spawn_pickling import SpawnPickling
from ._stage_kinds import check_stage, is_stage
from ._torch_iterable import TorchIterable

if TYPE_CHECKING:
    from ._source_choice import Shares


@dataclass(frozen=True)
class Start:
    """Where the next iteration of a pipeline starts, set by a checkpoint or by `skip`.

    Attributes:
        cursor: the first item.
        next_epoch: the number of the epoch after it, if a checkpoint has one.
        loaded: whether it is from a checkpoint.
    """

    cursor: Cursor
    next_epoch: int | None = None
    loaded: bool = False


class DataPipeline(KnownLength, SpawnPickling, TorchIterable):
    """A dataset made of stages; each turns one stream into another, the first starts it.

    >>> import webdataset as wds
    >>> dataset = DataPipeline(range(6), wds.map(lambda n: n * n), wds.batched(2, collation_fn=None))
    >>> list(dataset)
    [[0, 1], [4, 9], [16, 25]]

    torch's `DataLoader` takes it as an iterable dataset; it can also be iterated directly, without torch. A stage that
    is None is left out, and a list of stages is replaced by the stages in it.
    """

    shares: Shares | None = None  # the weights of a mix

    def __init__(self, *stages: Any, **ignored: Any) -> None:
        if ignored:
            warn(f"DataPipeline ignores {', '.join(ignored)}", stacklevel=2)
        self.pipeline: list[Any] = []
        self.size = None
        self._recalls: RunningPass | None = None  # a pass whose items were made again
        for stage in stages:
            # A list is a group of stages, as in the public library; as the first stage it may also be data.
            for part in stage if isinstance(stage, list) and (self.pipeline or any(map(is_stage, stage))) else [stage]:
                if part is not None:
                    self.append(part)
        self.repetitions = 1
        self.nsamples = -1
        self.length = -1
        self.seed: int = config.read("WDS_SEED")
        self._epochs = EpochCounter()
        self._run: Run | None = None  # the latest iteration
        self._start: Start | None = None  # where the next iteration starts, if that was set
        self._run_start: Start | None = None  # where `_run` started, if that was set
        self._restart = False
        self._comparisons = 0  # how often this dataset was compared with those of the other ranks

    def append(self, stage: Any) -> None:
        """Add a stage to this pipeline in place.

        >>> dataset = DataPipeline([1, 2])
        >>> dataset.append(lambda numbers: (number + 1 for number in numbers))
        >>> list(dataset)
        [2, 3]
        """
        check_stage(stage, first=not self.pipeline)
        self.pipeline.append(stage)
        self._recalls = None
        if self.size is not None and not isinstance(stage, PerItem):  # functions of one item keep a declared length
            self.size = self._of_passes(count_items([stage], self.size) if self._is_one_pass else None)

    def compose(self, *stages: Any) -> Self:
        """A copy with more stages; this pipeline stays as it is.

        >>> list(DataPipeline([1, 2]).compose(sorted, enumerate))
        [(0, 1), (1, 2)]
        """
        if self._start is not None and self._start.loaded and stages:
            raise StateError(
                "a checkpoint was loaded into this pipeline, so no stages can be added",
                hint="add the stages first, then call load_state_dict",
            )
        result = self._copy()
        for stage in stages:
            result.append(stage)
            result._start = None  # it is of the shorter pipeline
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
        size = max(require_count("with_epoch", "nsamples", nsamples), require_count("with_epoch", "nbatches", nbatches))
        if size < 1:
            given = nsamples if nbatches == -1 else nbatches
            raise SpecError(
                f"with_epoch({given}): expected at least 1 item in an epoch", hint=".repeat() goes on for ever"
            )
        return self._with_passes(ENDLESS, size, restart=restart)

    def repeat(self, nepochs: int = -1, nbatches: int = -1) -> Self:
        """A copy that makes `nepochs` passes (for ever if not given), cut after `nbatches` items.

        >>> list(DataPipeline([0, 1]).repeat(2))
        [0, 1, 0, 1]
        >>> list(DataPipeline([0, 1]).repeat(nbatches=3))
        [0, 1, 0]
        """
        passes, size = require_count("repeat", "nepochs", nepochs), require_count("repeat", "nbatches", nbatches)
        return self._with_passes(passes if passes > 0 else ENDLESS, size, restart=True)

    def _with_passes(self, passes: int, size: int, *, restart: bool) -> Self:
        result = self._copy()
        result.repetitions, result.nsamples, result._restart = passes, size, restart
        if self.size is not None:
            result.size = result._of_passes(self.size if self._is_one_pass else None)
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
        result = self._copy()
        result.size = require_count("with_length", "n", n, least=0)
        return result

    def __bool__(self) -> bool:
        return True  # else bool() would call len(), which may be unknown

    def set_epoch(self, epoch: int) -> None:
        """Set the number of the next pass: on every rank the same, and on the outermost of nested datasets."""
        self._epochs.set(epoch)
        self._epochs.requested = True

    def share_epochs(self, other: DataPipeline) -> None:
        """Let `other.set_epoch()` number the passes of this pipeline, too."""
        self._epochs = other._epochs

    def __iter__(self) -> Iterator[Any]:
        """Iterate over one epoch: a pass, or what `with_epoch` and `repeat` say."""
        start, epoch = self._start, self._epochs.peek()
        try:
            self._run = self._next_run()
        except BaseException:  # no epoch was begun: the next iteration and the next checkpoint start at the same place
            self._start = start
            if world.torch_worker() is None:  # in a worker the counter is shared with the others
                self._epochs.set(epoch)
            raise
        return self._run.epoch()

    def _next_run(self) -> Run:
        """Return the run of the next epoch: from a checkpoint, or the latest run, or a new one."""
        start, self._start = self._start, None
        before = self._run
        if start is None and before is not None and not before.begun:
            start = self._run_start  # torchdata calls iter() twice after it has loaded a state
        self._run_start = start
        if start is not None:
            self._epochs.go_on(start.cursor.epoch)
            if start.next_epoch is not None:
                self._epochs.set(start.next_epoch)
            return self._new_run(start.cursor)
        if before is not None and self.continues and before.can_go_on:
            before.new_epoch()
            return before
        epoch = self._epochs.next()
        follows = before is not None and not before.is_closed and before.pass_number + 1 == epoch
        return self._new_run(Cursor(epoch), before if follows else None)

    def _new_run(self, cursor: Cursor, before: Run | None = None) -> Run:
        check_owner_of_epoch(self)
        # The second epoch, too: a rank that has read a batch before the training is in another epoch than the others.
        if self._comparisons < (2 if self.repetitions == 1 else 1):  # ranks may have repeated differently many passes
            self._comparisons += 1
            check_ranks(self, cursor)
        return Run(self._definition(), cursor, on_pass=self._epochs.begin, before=before)

    def run(self, cursor: Cursor, options: RunOptions | None = None, before: Run | None = None) -> Run:
        """Return an iteration that starts at a cursor. The dataset does not change: the caller counts the epochs.

        Args:
            cursor: where to start.
            options: how to run the stages.
            before: the run that ended where this one starts.
        """
        return Run(self._definition(), cursor, options, before=before)

    def again(self, origin: Json) -> Any:
        """Make the item with this `origin`, of any run, once more."""
        with well_formed(origin, "a dataset"):
            epoch, item = count_in(origin["epoch"]), origin["item"]
        if self._recalls is None or self._recalls.during.epoch != epoch:
            self._recalls = self._definition().start_pass(epoch)
        return self._recalls.again(item)

    @property
    def continues(self) -> bool:
        """Whether an epoch goes on where the one before it stopped (`with_epoch`) instead of starting a new pass."""
        return self.nsamples > 0 and not self._restart

    def iterator1(self) -> Iterator[Any]:
        """One pass, whatever `repeat` and `with_epoch` say.

        >>> list(DataPipeline([0, 1]).repeat(3).iterator1())
        [0, 1]
        """
        return self._definition().start_pass(self._epochs.next()).items

    def iterator(self) -> Iterator[Any]:
        """Up to `repetitions` passes, without the cut of `with_epoch`.

        >>> list(DataPipeline([0, 1]).repeat(2).iterator())
        [0, 1, 0, 1]
        """
        return Run(replace(self._definition(), epoch_size=-1), Cursor(self._epochs.next())).epoch()

    def _definition(self) -> Definition:
        if not self.pipeline:
            raise SpecError("the pipeline has no stages", hint="give DataPipeline a source, such as a shard list")
        stages = [Nested(stage) if isinstance(stage, DataPipeline) else stage for stage in self.pipeline]
        if isinstance(stages[0], JoinColumns):
            stages[0] = Joined(stages[0], DataPipeline)
        return Definition(
            stages, self.seed, self.repetitions, self.nsamples, shares_of_mixes(self), is_repeatable(self)
        )

    def state_dict(self) -> dict[str, Json]:
        """Return where the iteration is, as JSON for `load_state_dict` of an equal pipeline.

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
        cursor = self._cursor().settled()
        require_json(cursor, self.pipeline)
        return replace(self._checkpoint(cursor), settings=self._settings()).to_json()

    def _checkpoint(self, cursor: Cursor) -> Checkpoint:
        return Checkpoint(self._identity(), cursor)

    def _settings(self) -> Settings:
        run, start = self._run, self._start
        following = None if start is None else start.next_epoch
        if run is not None and start is None and not run.ended and world.torch_worker() is None:
            epoch = self._epochs.peek()
            following = epoch if epoch != run.pass_number + 1 else None
        return Settings(tuple(shares.were_set for shares in shares_of_mixes(self)), following)

    def _cursor(self) -> Cursor:
        """Where the next item is."""
        run = self._run
        if self._start is not None or run is None:
            return self._next_start()
        # A worker of another package's loader that has ended saves so, and yields nothing more on resume: the other
        # workers may not have ended.
        if not run.ended or world.torch_worker() is not None:
            return run.cursor()
        if self.continues and not run.over:
            return run.next_cursor(goes_on=True)
        # Between two epochs the next one has the number that `set_epoch` may have set.
        epoch = self._epochs.peek()
        return run.beginning(epoch) if epoch == run.pass_number + 1 else Cursor(epoch)

    def _next_start(self) -> Cursor:
        """Return where an iteration that does not continue the current one starts."""
        return Cursor(self._epochs.peek()) if self._start is None else self._start.cursor

    def _move_start(self, cursor: Cursor) -> None:
        """Let the next iteration start at another cursor, whatever set its start before."""
        self._start = replace(self._start or Start(cursor), cursor=cursor)
        self._run = None

    def load_state_dict(self, state: dict[str, Json]) -> None:
        """Go on from a saved state with the next `iter()`."""
        self._load(Checkpoint.from_json(state))

    def _load(self, checkpoint: Checkpoint) -> None:
        self._identity().check(checkpoint.identity)
        checkpoint.settings.apply_weights(shares_of_mixes(self))
        self._start = Start(checkpoint.cursor, checkpoint.settings.next_epoch, loaded=True)
        self._run = None
        if world.torch_worker() is None:  # workers share the counter, and each of them loads a state of its own
            self._epochs.set(checkpoint.cursor.epoch)

    def _identity(self) -> Identity:
        """Return what a checkpoint contains of the pipeline, so that another pipeline refuses it."""
        return Identity(self.seed, fingerprint(self.pipeline), tuple(inner_seeds(self)))

    def close(self) -> None:
        """Close what an iteration has open, then every stage that has a `close`; `state_dict()` remains the same."""
        if self._run is not None:
            self._run.close()
        self._recalls = None
        for stage in self.pipeline:
            close = getattr(stage, "close", None)
            if close is not None:
                close()

    def _copy(self) -> Self:
        result = copy.copy(self)
        result.pipeline = list(self.pipeline)
        result._epochs = EpochCounter()
        result._run = result._recalls = None
        result._comparisons = 0
        return result

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_run": None, "_recalls": None, "_sender": world.sender()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        world.receive(state.pop("_sender", None))
        self.__dict__.update(state)

    def __add__(self, other: Any) -> Any:
        from torch.utils.data import ChainDataset

        return ChainDataset([self, other])

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(fingerprint(self.pipeline))})"

    def preview(self, **options: Any) -> Any:
        """Show the shards and the items of this dataset in a notebook; needs `pip install 'webdataset[view]'`.

        Args:
            options: what `webdataset.viewer.preview` takes: `height`, `index`.
        """
        # By name: the viewer is a layer above this one.
        return importlib.import_module("webdataset.viewer").preview(self, **options)

    def _repr_html_(self) -> str:
        return as_html(type(self).__name__, fingerprint(self.pipeline))
