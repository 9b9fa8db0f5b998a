"""One pass in progress: stages chained into an iterator, with a state that can be saved at any item.

`PerItem` neighbours become one loop. Every `Resumable` stage gets a `Progress`, wired to the one before it. What a
buffer held when the state was saved is read again by its origin and taken through the stages before the buffer.

Some states cannot be told stage by stage: a stage of unknown kind (a generator function) may hold anything, and a
buffer may hold items that cannot be read again. Such a pass counts its items. Its state is where it started and that
number; on resume so many items are read and dropped. That is exact for every deterministic pipeline.

A pass over a plan (`ReadPlanned`) through functions of one sample and one `batched` holds nothing that the plan could
not give again, so its state is the plan's alone: how much of the epoch remains, for any number of readers.
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
    """Times nothing."""

    def stream(self, name: str, items: Iterator[Any], *, reads: bool = False) -> Iterator[Any]:
        """The items as they are."""
        return items

    def function(self, name: str, function: Callable[[Any], Any]) -> Callable[[Any], Any]:
        """The function as it is."""
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
        yielded: how many items were yielded since the pass was started; the caller counts.
        interrupted: Ctrl-C came while a stage was at work; the caller says so.
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
        self._steps: list[Any] = []  # what an item goes through after the source: functions, and stages that regroup
        self._streams: list[Any] = []  # of the stages, to be closed
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
        except StateError as error:  # raised if the state is asked for
            return error

    def where(self) -> tuple[Where, int]:
        """Where this pass is: a state, and how many items after it were yielded already."""
        # Ctrl-C can interrupt any stage between two instructions, so its progress may be wrong. The samples of a plan
        # are numbered, and the items of a loader carry their states, so none is lost if it comes while one of these is
        # made; any other pass goes on from the last state that is certain.
        if not self.yielded and isinstance(self._certain[0], Beginning):
            pass  # `Run` tells an empty pass from one of which nothing is left
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
        """How the stages begin the next pass."""
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
        """Those of the shards of this pass, by their text in a checkpoint."""
        lists = [getattr(stage, "urls", ()) for stage in self._stages]
        return {as_checkpoint(url): url for urls in lists for url in urls if isinstance(url, Address)}

    def _plan_state(self) -> Any:
        if self._plan is None:  # a loader asks at every item, so what does not change is looked up once
            reader: Any
            reader, *others = self._progress
            # Between two items nothing is held; in the middle of a batch, after a failure or Ctrl-C, something is.
            self._plan = reader, [at for at in others if hasattr(at, "origins")], plan.may_drop(self._stages)
        reader, holding, drops = self._plan
        return reader.state(holding, self.yielded, drops=drops)

    def _saved(self, where: Where | None) -> Iterator[Json]:
        """What each progress is to load, in their order."""
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
        """How many stages, from the first on, yield nothing more because a handler has ended their stream."""
        return max((number for number, at in enumerate(self._progress, 1) if at.stopped), default=0)

    def _chain(self, saved: Iterator[Json]) -> Iterator[Any]:
        items: Iterator[Any] | None = None
        functions: list[Callable[[Any], Any]] = []
        of_one: list[PerItem] = []  # the stages that these functions are of
        timer = self._options.timer
        slots = self._replaces
        reader = max((number for number, stage in enumerate(self._stages) if isinstance(stage, Source)), default=0)
        for number, stage in enumerate(self._stages):
            during = self._pass_of(number, stage)
            name = f"{number} {_name_of(stage)}"
            if isinstance(stage, PerItem) and items is not None:
                function = timer.function(name, stage.function(during))
                of_one.append(stage)
                if self._replaces:
                    function = plan.in_slots(function) if slots else plan.never_drops(function)
                functions.append(function)
                continue
            columns = None if self._replaces else ColumnBatches.of(of_one, stage, items)
            if functions:
                items = self._run_functions(functions, items if columns is None else iter(columns), saved)
                items = timer.stream(f"{number - 1} functions", items)
                functions, of_one = [], []
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
        """Makes samples again for empty slots: with all steps so far, and these functions."""
        recall, apply = self._recall(len(self._steps)), fuse(functions) if functions else None
        made = recall if apply is None else lambda origin: apply(recall(origin))
        return plan.Replacements(len(self._stages[0].dataset), made)

    def _pass_of(self, number: int, stage: Any) -> Pass:
        """This pass as a stage sees it: random choices before a split must be the same in all processes."""
        alike = getattr(stage, "draws", False) and any(getattr(s, "splits", False) for s in self._stages[number:])
        origins = any(isinstance(later, Resumable) for later in self._stages[number + 1 :])
        return replace(self.during, stage=number, world=World() if alike else self.during.world, origins=origins)

    def _run_functions(self, functions: list[Any], items: Any, saved: Iterator[Json]) -> Iterator[Any]:
        stage = self._options.fused(functions)
        results = self._resume(stage, stage.start(self.during), items, saved)
        self._steps[-1] = fuse(functions)  # an item that is made again goes through the functions, not through threads
        return results

    def _resume(
        self, stage: Resumable, at: Progress, items: Any, saved: Iterator[Json], columns: ColumnBatches | None = None
    ) -> Iterator[Any]:
        at.upstream = next((one for one in reversed(self._progress) if _knows_origins(one)), None)
        mine, number = next(saved), len(self._progress)
        if mine is not None:
            with own_addresses(lambda: self._addresses):
                _load(at, mine, self._recall(len(self._steps)), stage)
        elif number < len(self._before):
            at.follow(self._before[number])
        self._progress.append(at)
        self._steps.append(stage)
        at.stopped = number < self._ended_before
        stream = iter(()) if at.stopped else (columns or stage).run(items if items is not None else iter(()), at)
        self._streams.append(stream)
        return stream

    def _recall(self, upto: int) -> Callable[[Json], Any]:
        """Makes an item again, by its origin, as it was before step `upto`."""

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
        """Close what the stages hold open, now rather than when the garbage is collected."""
        # A stage that failed does not close those before it, and the error keeps them alive.
        for stream in (self.items, *reversed(self._streams)):
            close = getattr(stream, "close", None)
            if close is not None:
                close()
        for at in self._progress:
            at.close()


def _load(at: Progress, saved: Json, recall: Recall, stage: Any) -> None:
    """Load a stage's progress; what is not in the form that `save` gives is a malformed checkpoint."""
    failed: list[BaseException] = []  # while an item was made again: that is not the checkpoint's fault

    def noted(origin: Json) -> Any:
        try:
            return recall(origin)
        except BaseException as error:
            failed.append(error)
            raise

    with well_formed(saved, f"the stage {shown(stage):.60}", failed):
        at.load(saved, noted)


def _knows_origins(at: Progress) -> bool:
    """Whether it does more than to ask the one before it: asked once for every sample, a step less is 0.1 µs less."""
    return type(at).origin is not Progress.origin or at.upstream is None


def _name_of(stage: Any) -> str:
    """A stage in a report: the function that it calls says more than its class."""
    own = getattr(stage, "__name__", None) or type(stage).__name__
    function = getattr(stage, "f", None)
    name = getattr(function, "__name__", None)
    return f"{own}({name})" if callable(function) and name else str(own)
