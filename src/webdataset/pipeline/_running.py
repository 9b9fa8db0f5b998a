"""One pass in progress: stages chained into an iterator, with a state that can be saved at any item.

`PerItem` neighbours become one loop. Every `Resumable` stage gets a `Progress`, wired to the one before it. What a
buffer held when the state was saved is read again by its origin and taken through the stages before the buffer.

A stage of unknown kind (a generator function, a foreign `PipelineStage`) may hold anything, so a chain with one in it
cannot say where it is; such a pipeline resumes by replay: the same pass from its beginning, without the items that were
handed on already. That is exact for every deterministic pipeline, and costs the reading again.

A pass over a plan (`ReadPlanned`) through functions of one sample and one `batched` holds nothing that the plan could
not give again, so its state is the plan's alone: how much of the epoch is left, for whoever goes on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import chain, islice, repeat
from typing import Any

from webdataset.describe import shown
from webdataset.errors import StateError, WebDatasetError
from webdataset.flow import DROP, Json, Pass, PerItem, Progress, Recall, Resumable, Source, digest, fuse
from webdataset.plan import PlanProgress, is_even_chain, may_drop
from webdataset.world import World

from ._fused import Loop
from ._stage_kinds import invoke, is_opaque

_LONGEST = 120

Fused = Callable[[Sequence[Callable[[Any], Any]]], Resumable]


class _Nobody:
    """Watches nothing."""

    def stream(self, name: str, items: Iterator[Any], *, reads: bool = False) -> Iterator[Any]:
        return items

    def function(self, name: str, function: Callable[[Any], Any]) -> Callable[[Any], Any]:
        return function


_NOBODY = _Nobody()


class Running:
    """An iterator over one pass.

    >>> from webdataset.stages import Map
    >>> run = Running([[1, 2, 3], Map(str)], Pass())
    >>> next(run.items), run.state()
    ('1', {'replay': 1})
    >>> list(Running([[1, 2, 3], Map(str)], Pass(), state={"replay": 1}).items)
    ['2', '3']

    Args:
        fused: makes the stage that runs a group of per-item functions; by default they run in this thread.
        watch: may wrap every function and every stream on their way, to measure them.
    """

    def __init__(
        self, stages: Sequence[Any], during: Pass, *, state: Json = None, fused: Fused = Loop, watch: Any = _NOBODY
    ) -> None:
        self.during = during
        self._watch = watch
        self._stages = stages
        self._fused = fused
        self._progress: list[Progress] = []
        self._way: list[Any] = []  # what an item goes through after the source: functions, and stages that regroup
        self._handed_on = [0]  # in a list, because the generator that counts must not refer to what holds it
        self._exact = not any(is_opaque(stage) for stage in stages)
        self.by_plan = is_even_chain(stages)
        self._in_plan: tuple[PlanProgress, list[Any], bool] | None = None
        # Items of this pass, counted by who takes them; only several ranks have to know whether they are in step.
        self.counts = self.by_plan and during.world.ranks > 1
        self.handed_on = 0
        saved = self._saved(state)
        if saved is not None and not self._exact:
            raise StateError(
                "the checkpoint belongs to a pipeline of resumable stages, this one resumes by replay",
                hint="load it into the pipeline that saved it",
            )
        self.items = self._chain(saved)
        if not self._exact:
            self._handed_on[0] = state["replay"] if state else 0  # at once: the state may be asked before any item is
            self.items = _counted(self.items, self._handed_on)

    def state(self) -> Json:
        """Where this pass is, as JSON."""
        if self.by_plan:
            return {"plan": self._place_in_plan()}
        if self._exact:
            return {"progress": self._saved_progress()}
        return {"replay": self._handed_on[0]}

    @property
    def origin(self) -> Json:
        """Where the item that was handed on last came from; None if nobody can tell."""
        return self._progress[-1].origin if self._exact and self._progress else None

    def again(self, origin: Json) -> Any:
        """Make the item of this origin once more."""
        return self._recall(len(self._way))(origin)

    def _place_in_plan(self) -> Json:
        if self._in_plan is None:  # a loader asks at every item, so what does not change is looked up once
            plan, *others = self._progress
            assert isinstance(plan, PlanProgress)
            # Between two items nothing is held; in the middle of a batch, after a failure or Ctrl-C, something is.
            self._in_plan = plan, [at for at in others if hasattr(at, "origins")], may_drop(self._stages)
        plan, in_flight, drops = self._in_plan
        return plan.place(in_flight, self.handed_on, drops=drops)

    def _saved(self, state: Json) -> Iterator[Json] | None:
        if not state:
            return None
        if "plan" in state:
            if not self.by_plan:
                raise StateError(
                    "the checkpoint is of indexed shards, this pipeline does not read by an index",
                    hint="load it into the pipeline that saved it",
                )
            return chain([state["plan"]], repeat(None))
        return chain(state["progress"], repeat(None)) if "progress" in state else None

    def _saved_progress(self) -> list[Json]:
        rewound = max((number for number, at in enumerate(self._progress) if at.rewinds), default=0)
        return [at.save_start() if number < rewound else at.save() for number, at in enumerate(self._progress)]

    def _chain(self, saved: Iterator[Json] | None) -> Iterator[Any]:
        items: Iterator[Any] | None = None
        functions: list[Callable[[Any], Any]] = []
        reader = max((number for number, stage in enumerate(self._stages) if isinstance(stage, Source)), default=0)
        for number, stage in enumerate(self._stages):
            during = self._pass_of(number, stage)
            name = f"{number} {type(stage).__name__ if not hasattr(stage, '__name__') else stage.__name__}"
            if isinstance(stage, PerItem) and items is not None:
                functions.append(self._watch.function(name, stage.function(during)))
                continue
            if functions:
                items = self._watch.stream(f"{number - 1} functions", self._run_functions(functions, items, saved))
                functions = []
            if isinstance(stage, Resumable):
                items = self._resume(stage, stage.start(during), items, saved)
            else:
                items = invoke(stage, items)
            items = self._watch.stream(name, items, reads=number <= reader)
        if functions:
            items = self._watch.stream(f"{number} functions", self._run_functions(functions, items, saved))
        return items  # type: ignore[return-value]  # there is at least one stage

    def _pass_of(self, number: int, stage: Any) -> Pass:
        """This pass as a stage sees it: what chance decides before a split, it decides alike in all processes."""
        alike = getattr(stage, "draws", False) and any(getattr(s, "splits", False) for s in self._stages[number:])
        return replace(self.during, stage=number, world=World() if alike else self.during.world)

    def _run_functions(self, functions: list[Any], items: Any, saved: Iterator[Json] | None) -> Iterator[Any]:
        stage = self._fused(functions)
        results = self._resume(stage, stage.start(self.during), items, saved)
        self._way[-1] = fuse(functions)  # the functions themselves are the way; the stage around them is not
        return results

    def _resume(self, stage: Resumable, at: Progress, items: Any, saved: Iterator[Json] | None) -> Iterator[Any]:
        at.upstream = next((one for one in reversed(self._progress) if _knows_origins(one)), None)
        mine = next(saved) if saved is not None else None
        if mine is not None:
            _load(at, mine, self._recall(len(self._way)), stage)
        self._progress.append(at)
        self._way.append(stage)
        return stage.run(items if items is not None else iter(()), at)

    def _recall(self, upto: int) -> Callable[[Json], Any]:
        """Makes an item again, by its origin, as it stood before step `upto` of the way."""

        def recall(origin: Json) -> Any:
            if upto == 0:
                raise StateError(f"nothing before this stage can read {origin} again")
            step, before = self._way[upto - 1], self._recall(upto - 1)
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
        """Let go of what the stages hold open, now rather than when the garbage is collected."""
        close = getattr(self.items, "close", None)
        if close is not None:
            close()


def _load(at: Progress, saved: Json, recall: Recall, stage: Any) -> None:
    """Load a stage's progress; what is not in the form that `save` gives is said to be so."""
    failed: list[BaseException] = []  # while an item was made again: that is not the checkpoint's fault

    def noted(origin: Json) -> Any:
        try:
            return recall(origin)
        except BaseException as error:
            failed.append(error)
            raise

    try:
        at.load(saved, noted)
    except (KeyError, IndexError, TypeError, AttributeError, ValueError) as error:
        if error in failed or isinstance(error, WebDatasetError):
            raise
        raise StateError(
            f"the checkpoint has {saved!r:.60} for the stage {shown(stage):.60}, which cannot be read",
            hint="give load_state_dict what state_dict returned",
        ) from error


def _knows_origins(at: Progress) -> bool:
    """Whether it does more than to ask the one before it: asked once for every sample, a step less is 0.1 µs less."""
    return type(at).origin is not Progress.origin or at.upstream is None


def _counted(items: Iterator[Any], handed_on: list[int]) -> Iterator[Any]:
    for item in islice(items, handed_on[0], None):
        handed_on[0] += 1
        yield item


def fingerprint(stages: Sequence[Any]) -> list[str]:
    """What a checkpoint remembers of the stages, to be compared with those it is loaded into.

    >>> from webdataset.stages import Map
    >>> fingerprint([Map(str)])
    ['map(f=str)']
    """
    return [_short(shown(stage)) for stage in stages]


def _short(text: str) -> str:
    """A list of ten thousand shards must not make the checkpoint large, and must still be told from another."""
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}… #{digest(text):016x}"
