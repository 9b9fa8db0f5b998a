"""One pass in progress: stages chained into an iterator, with a state that can be saved at any item.

Neighbouring `PerItem` stages become one loop. Every `Resumable` stage has a `Progress`, which refers to the one before
it. The items that a buffer held when the state was saved are read again by their origins, and go through the stages
before the buffer.

Some passes cannot be saved stage by stage: a stage of unknown kind (a generator function) may hold anything, and a
buffer may hold items that cannot be read again. Such a pass counts its items. Its state is where it started and the
count; on resume that many items are read and dropped. That is exact for every deterministic pipeline.

A pass over a plan (`ReadPlanned`) through functions of one sample and one `batched` holds only samples that the plan
can read again, so its state is that of the plan alone: how much of the epoch remains, for any number of readers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain, repeat
from typing import TYPE_CHECKING, Any

from webdataset import plan
from webdataset.address import Address, as_checkpoint, own_addresses
from webdataset.describe import shown
from webdataset.errors import StateError
from webdataset.flow import DROP, Json, Pass, PerItem, Progress, Recall, Resumable, Source, fuse, well_formed
from webdataset.stages import Batched, Listed
from webdataset.world import World

from ._column_batches import ColumnBatches
from ._cursor import Beginning, InPlan, InStages, Where, beginning
from ._fused import Loop
from ._stage_kinds import invoke, is_opaque

if TYPE_CHECKING:
    from webdataset.plan import PlanProgress, Replacements

Fused = Callable[[Sequence[Callable[[Any], Any]]], Resumable]


class NoTimer:
    """Measures nothing."""

    def stream(self, name: str, items: Iterator[Any], *, reads: bool = False) -> Iterator[Any]:
        """Return the items unchanged."""
        return items

    def function(self, name: str, function: Callable[[Any], Any]) -> Callable[[Any], Any]:
        """Return the function unchanged."""
        return function


@dataclass(frozen=True)
class RunOptions:
    """How a loader runs the stages of a pipeline.

    Attributes:
        fused: makes the stage that runs a group of per-item functions; by default they run in this thread.
        timer: may wrap every function and every stream, to measure them.
    """

    fused: Fused = Loop
    timer: Any = field(default_factory=NoTimer)


class RunningPass:
    """An iterator over one pass.

    >>> from webdataset.stages import Map
    >>> run = RunningPass([[1, 2, 3], Map(str)], Pass())
    >>> list(run.items)
    ['1', '2', '3']

    Attributes:
        items: the items of the pass.
        yielded: how many items were yielded since the pass was started; counted by the caller.
        interrupted: whether Ctrl-C was raised while a stage ran; set by the caller.
    """

    def __init__(
        self,
        stages: Sequence[Any],
        during: Pass,
        where: Where | None = None,
        options: RunOptions | None = None,
        before: RunningPass | None = None,
    ) -> None:
        self.during = during
        self._stages = stages
        self._options = options or RunOptions()
        self._before = before._progress if before is not None else []
        self._progress: list[Progress] = []
        self._steps: list[Any] = []  # one for each progress: a stage, or the functions of neighbouring stages as one
        self._streams: list[Any] = []  # the iterators of the stages, to be closed
        self._exact = not any(is_opaque(stage) for stage in stages)
        self.by_plan = plan.is_even_chain(stages)
        self._replaces = plan.replaces(stages)
        self._plan: tuple[PlanProgress, list[Any], bool] | None = None
        self.yielded = 0
        self.interrupted = False
        self._ended_before = where.stopped if isinstance(where, InStages) else 0
        self.items = self._chain(self._saved(where))
        self._before = []
        # The last state that is certain, and how many items were yielded up to it.
        self._certain = where if isinstance(where, (InStages, InPlan)) else self._beginning(), 0

    def _beginning(self) -> Where | StateError:
        try:
            return beginning([at.save_start() for at in self._progress])
        except StateError as error:  # raised by `where`
            return error

    def where(self) -> tuple[Where, int]:
        """Return where this pass is: a state, and how many items after it were yielded already."""
        # Ctrl-C can interrupt any stage between two instructions, so its progress may be wrong. The samples of a plan
        # are numbered, and the items of a loader have their states attached, so none is lost if Ctrl-C comes while one
        # of these is made; any other pass goes on from the last state that is certain.
        if not self.yielded and isinstance(self._certain[0], Beginning):
            pass  # still at the beginning: `Run` distinguishes an empty pass from one that was resumed at its end
        elif self.by_plan:
            self._certain = InPlan(self._plan_state()), self.yielded
        elif self._exact and (not self.interrupted or self._progress[0].interrupted):
            with suppress(StateError):
                self._certain = InStages(tuple(self._saved_progress()), self._stopped()), self.yielded
        where, yielded = self._certain
        if isinstance(where, StateError):
            raise where
        return where, self.yielded - yielded

    def next_starts(self) -> list[Json]:
        """Return how the stages begin the next pass."""
        return [at.save_next() for at in self._progress]

    @property
    def origin(self) -> Json:
        """Where the item that was yielded last came from; None if that is not known."""
        return self._progress[-1].origin if self._exact and self._progress else None

    def again(self, origin: Json) -> Any:
        """Make the item of this origin once more."""
        with own_addresses(lambda: self._addresses):
            return self._recall(len(self._steps))(origin)

    @cached_property
    def _addresses(self) -> dict[str, Address]:
        """The addresses of the shards of this pass, by their text in a checkpoint."""
        lists = [getattr(stage, "urls", ()) for stage in self._stages]
        return {as_checkpoint(url): url for urls in lists for url in urls if isinstance(url, Address)}

    def _plan_state(self) -> Any:
        if self._plan is None:  # a loader calls this at every item, so what does not change is looked up once
            reader: Any
            reader, *others = self._progress
            # Between two items these hold nothing; in the middle of a batch, after a failure or Ctrl-C, they may.
            self._plan = reader, [at for at in others if hasattr(at, "origins")], plan.may_drop(self._stages)
        reader, holding, drops = self._plan
        return reader.state(holding, self.yielded, drops=drops)

    def _saved(self, where: Where | None) -> Iterator[Json]:
        """Yield the saved value for each progress, in their order; None where nothing was saved."""
        if isinstance(where, InPlan):
            if not self.by_plan:
                raise StateError(
                    "the checkpoint is of indexed shards, this pipeline does not read by an index",
                    hint="load it into the pipeline that saved it",
                )
            return chain([where.plan], repeat(None))
        if isinstance(where, InStages):
            if not self._exact:
                raise StateError(
                    "the checkpoint belongs to a pipeline of resumable stages, and this one has others",
                    hint="load it into the pipeline that saved it",
                )
            return chain(where.progress, repeat(None))
        return chain(where.starts if where is not None else (), repeat(None))

    def _saved_progress(self) -> list[Json]:
        rewound = max((number for number, at in enumerate(self._progress) if at.rewinds), default=0)
        return [at.save_start() if number < rewound else at.save() for number, at in enumerate(self._progress)]

    def _stopped(self) -> int:
        """Return how many stages, from the first on, yield nothing more because a handler has ended their stream."""
        return max((number for number, at in enumerate(self._progress, 1) if at.stopped), default=0)

    def _chain(self, saved: Iterator[Json]) -> Iterator[Any]:
        items: Iterator[Any] | None = None
        functions: list[Callable[[Any], Any]] = []
        fused_stages: list[PerItem] = []  # the stages of these functions
        timer = self._options.timer
        slots = self._replaces
        reader = max((number for number, stage in enumerate(self._stages) if isinstance(stage, Source)), default=0)
        for number, stage in enumerate(self._stages):
            during = self._pass_of(number, stage)
            name = f"{number} {_name_of(stage)}"
            if isinstance(stage, PerItem) and items is not None:
                function = timer.function(name, stage.function(during))
                fused_stages.append(stage)
                if self._replaces:
                    function = plan.in_slots(function) if slots else plan.never_drops(function)
                functions.append(function)
                continue
            columns = None if self._replaces else ColumnBatches.of(fused_stages, stage, items)
            if functions:
                items = self._run_functions(functions, items if columns is None else iter(columns), saved)
                items = timer.stream(f"{number - 1} functions", items)
                functions, fused_stages = [], []
            if slots and isinstance(stage, (Batched, Listed)):
                batching, slots = self._replacements().batching(stage), False
                items = self._resume(batching, batching.start(during), items, saved)
            elif isinstance(stage, Resumable):
                items = self._resume(stage, stage.start(during), items, saved, columns)
            else:
                items = invoke(stage, items)
            items = timer.stream(name, items, reads=number <= reader)
        if slots:
            functions.append(self._replacements(tuple(functions)).one)
        if functions:
            items = timer.stream(f"{number} functions", self._run_functions(functions, items, saved))
        return items  # type: ignore[return-value]  # there is at least one stage

    def _replacements(self, functions: Sequence[Callable[[Any], Any]] = ()) -> Replacements:
        """Return what fills empty slots: it makes samples again by all steps so far, and then by these functions."""
        recall, apply = self._recall(len(self._steps)), fuse(functions) if functions else None
        made = recall if apply is None else lambda origin: apply(recall(origin))
        return plan.Replacements(len(self._stages[0].dataset), made)

    def _pass_of(self, number: int, stage: Any) -> Pass:
        """Return this pass for one stage: random choices before a split must be the same in all processes."""
        alike = getattr(stage, "draws", False) and any(getattr(s, "splits", False) for s in self._stages[number:])
        origins = any(isinstance(later, Resumable) for later in self._stages[number + 1 :])
        return replace(self.during, stage=number, world=World() if alike else self.during.world, origins=origins)

    def _run_functions(self, functions: list[Any], items: Any, saved: Iterator[Json]) -> Iterator[Any]:
        stage = self._options.fused(functions)
        results = self._resume(stage, stage.start(self.during), items, saved)
        self._steps[-1] = fuse(functions)  # an item that is made again goes through the functions in this thread
        return results

    def _resume(
        self, stage: Resumable, at: Progress, items: Any, saved: Iterator[Json], columns: ColumnBatches | None = None
    ) -> Iterator[Any]:
        at.upstream = next((earlier for earlier in reversed(self._progress) if _has_own_origin(earlier)), None)
        saved_progress, number = next(saved), len(self._progress)
        if saved_progress is not None:
            with own_addresses(lambda: self._addresses):
                _load(at, saved_progress, self._recall(len(self._steps)), stage)
        elif number < len(self._before):
            at.follow(self._before[number])
        self._progress.append(at)
        self._steps.append(stage)
        at.stopped = number < self._ended_before
        stream = iter(()) if at.stopped else (columns or stage).run(items if items is not None else iter(()), at)
        self._streams.append(stream)
        return stream

    def _recall(self, upto: int) -> Callable[[Json], Any]:
        """Return a function that makes an item again from its origin, as it was before step `upto`."""

        def recall(origin: Json) -> Any:
            if upto == 0:
                raise StateError(f"no stage before this one can read {origin} again")
            step, before = self._steps[upto - 1], self._recall(upto - 1)
            if isinstance(step, Source):
                with well_formed(origin, f"the stage {shown(step):.60}"):
                    return step.recall(origin)
            if isinstance(step, Resumable):
                return step.again(origin, before)
            item = step(before(origin))
            if item is DROP:
                raise StateError(
                    f"the sample {origin} was kept before and is dropped now",
                    hint="a select or map before a shuffle must decide the same way every time",
                )
            return item

        return recall

    def close(self) -> None:
        """Close what the stages have open, now rather than in a later garbage collection."""
        # A stage that failed does not close those before it, and the error keeps them alive.
        for stream in (self.items, *reversed(self._streams)):
            close = getattr(stream, "close", None)
            if close is not None:
                close()
        for at in self._progress:
            at.close()


def _load(at: Progress, saved: Json, recall: Recall, stage: Any) -> None:
    """Load a stage's progress; turn errors about the form of `saved` into a StateError."""
    failed: list[BaseException] = []  # errors of the functions that made items again: these stay as they are

    def noted(origin: Json) -> Any:
        try:
            return recall(origin)
        except BaseException as error:
            failed.append(error)
            raise

    with well_formed(saved, f"the stage {shown(stage):.60}", failed):
        at.load(saved, noted)


def _has_own_origin(at: Progress) -> bool:
    """Whether the origin is not just that of the progress before: skipping those saves 0.1 µs a sample and stage."""
    return type(at).origin is not Progress.origin or at.upstream is None


def _name_of(stage: Any) -> str:
    """Return the name of a stage for a report: its class or verb, and the function that it calls."""
    own = getattr(stage, "__name__", None) or type(stage).__name__
    function = getattr(stage, "f", None)
    name = getattr(function, "__name__", None)
    return f"{own}({name})" if callable(function) and name else str(own)
