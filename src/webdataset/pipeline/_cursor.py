"""`Cursor`: how far an iteration is, as one typed value. No other file reads or writes the JSON of a cursor.

A cursor says which pass is being read (`epoch`), how many passes of this iteration are complete (`passes`), how many
items of the epoch were yielded (`position`), and where in the pass the next item is (`where`):

* `Beginning`: before the first item of the pass
* `InPlan`: in the computed order of an indexed dataset; goes on with any number of ranks and workers
* `InStages`: the progress of every stage that has one

`skip` items after `where` were yielded already. They are read and dropped on resume. A pipeline with a stage of
unknown kind resumes this way from the beginning of its pass.

A dataset inside another has a cursor inside the progress of the outer one's stage.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from webdataset.errors import StateError
from webdataset.flow import Json, count_in, well_formed
from webdataset.world import World

if TYPE_CHECKING:
    from webdataset.plan import PlanState

_HINT = "give load_state_dict what state_dict returned"
_NESTED = "$cursor"


@dataclass(frozen=True, slots=True)
class Beginning:
    """Before the first item of a pass.

    Attributes:
        starts: how the stages begin, from `Progress.save_next`; empty if that follows from the number of the pass.
    """

    starts: tuple[Json, ...] = ()


def beginning(starts: Sequence[Json]) -> Beginning:
    """The beginning of a pass, in its shortest form.

    >>> beginning([None, None])
    Beginning(starts=())
    """
    return Beginning(tuple(starts) if any(start is not None for start in starts) else ())


@dataclass(frozen=True, slots=True)
class InStages:
    """In the middle of a pass, as saved by the stages.

    Attributes:
        progress: what `Progress.save` returned, stage by stage.
        stopped: how many of them, from the first on, yield nothing more because a handler has ended their stream.
    """

    progress: tuple[Json, ...]
    stopped: int = 0


@dataclass(frozen=True, slots=True)
class InPlan:
    """In the middle of a pass over an indexed dataset."""

    plan: PlanState


Where = Beginning | InStages | InPlan


@dataclass(frozen=True, slots=True)
class Cursor:
    """How far an iteration is.

    >>> cursor = Cursor(epoch=3, position=2, where=InStages(progress=({"taken": 2},)))
    >>> Cursor.from_json(cursor.to_json()) == cursor
    True

    Attributes:
        epoch: the number of the pass, which decides every order together with the seed.
        passes: how many passes of this iteration are complete (`repeat`).
        position: how many items of this epoch were yielded (`with_epoch`).
        where: where in the pass the next item is.
        skip: how many items after `where` were yielded already.
        world: the process that this cursor belongs to; None if any process can go on from it.
        weights: those that had been set, of each mix inside; empty if none were.
    """

    epoch: int
    passes: int = 0
    position: int = 0
    where: Where = field(default_factory=Beginning)
    skip: int = 0
    world: World | None = None
    weights: tuple[Sequence[float] | None, ...] = ()

    @property
    def is_beginning(self) -> bool:
        """Whether the next item is the first of a pass."""
        return isinstance(self.where, Beginning) and not self.skip

    @property
    def plan(self) -> PlanState | None:
        """How far an indexed dataset is; None if the cursor is not that of a plan, or has items to skip."""
        return self.where.plan if isinstance(self.where, InPlan) and not self.skip else None

    @property
    def is_portable(self) -> bool:
        """Whether any number of ranks and workers can go on from this cursor (`PlanState` checks that of a plan)."""
        if self.skip:
            return False
        if isinstance(self.where, Beginning):
            return all(start is None or _is_portable(start) for start in self.where.starts)
        if isinstance(self.where, InPlan):
            return True
        first, *others = self.where.progress
        return not self.where.stopped and (first is None or _is_portable(first)) and not any(others)

    def next_epoch(self) -> Cursor:
        """Return the cursor for the next epoch, which continues this one: no item of it was yielded yet."""
        return replace(self, position=0)

    def after(self, items: int) -> Cursor:
        """Return the cursor after so many more items of this epoch."""
        return replace(self, skip=self.skip + items, position=self.position + items) if items else self

    def settled(self) -> Cursor:
        """Return the shortest cursor that means the same: what the readers of a plan took is moved into `remaining`."""
        if isinstance(self.where, InPlan):
            return replace(self, where=InPlan(self.where.plan.settled()))
        if isinstance(self.where, InStages):
            progress = (each.settled() if isinstance(each, Cursor) else each for each in self.where.progress)
            return replace(self, where=replace(self.where, progress=tuple(progress)))
        return self

    def for_world(self, here: World) -> Cursor:
        """Return this cursor with its process, if no other process can go on from it."""
        return self if self.is_portable else replace(self, world=here)

    def check_world(self, here: World) -> None:
        """Refuse a cursor of another process.

        Raises:
            StateError: it belongs to another rank or worker, or to another number of them.
        """
        if self.world is None or self.world == here:
            return
        saved = self.world
        if (saved.ranks, saved.workers) != (here.ranks, here.workers):
            raise StateError(
                f"the checkpoint was saved with ranks={saved.ranks}, workers={saved.workers}; "
                f"now ranks={here.ranks}, workers={here.workers}",
                hint="a stream without an index resumes on the same numbers; index the shards to resume on any",
            )
        if -1 not in {saved.rank, saved.worker}:  # version 1 did not save which rank it was
            raise StateError(
                f"the checkpoint was saved by rank {saved.rank}, worker {saved.worker}; "
                f"this is rank {here.rank}, worker {here.worker}",
                hint="without an index each rank has a checkpoint of its own: load the one that this rank saved",
            )

    def to_json(self) -> dict[str, Json]:
        """As JSON."""
        saved: dict[str, Json] = {"epoch": self.epoch, "passes": self.passes, "position": self.position}
        if isinstance(self.where, Beginning):
            saved["beginning"] = encode(self.where.starts)
        elif isinstance(self.where, InPlan):
            saved["plan"] = self.where.plan.to_json()
        else:
            saved["stages"] = encode(self.where.progress)
            if self.where.stopped:
                saved["stopped"] = self.where.stopped
        if self.skip:
            saved["skip"] = self.skip
        if self.world is not None:
            here = self.world
            saved["world"] = [here.rank, here.ranks, here.worker, here.workers]
        if self.weights:
            saved["weights"] = list(self.weights)
        return saved

    @classmethod
    def from_json(cls, saved: Json) -> Cursor:
        """Return the cursor from its JSON.

        >>> Cursor.from_json({"epoch": "x", "passes": 0, "position": 0, "beginning": []})
        Traceback (most recent call last):
        webdataset.errors.StateError: malformed checkpoint: expected int for 'epoch', got 'x' – give load_state_dict ...
        """
        check_types(saved, epoch=int, passes=int, position=int, weights=list | None)
        if "plan" in saved:
            from webdataset.plan import PlanState

            where: Where = InPlan(PlanState.from_json(saved["plan"]))
        elif "stages" in saved:
            check_types(saved, stages=list)
            if not saved["stages"]:
                raise StateError("malformed checkpoint: it has no stages", hint=_HINT)
            where = InStages(tuple(decode(saved["stages"])), _count(saved, "stopped"))
        else:
            check_types(saved, beginning=list)
            where = Beginning(tuple(decode(saved["beginning"])))
        epoch, passes, position, skip = (_count(saved, name) for name in ("epoch", "passes", "position", "skip"))
        here, weights = _world(saved.get("world")), tuple(saved.get("weights") or ())
        return cls(epoch, passes, position, where, skip, here, weights)


def _count(saved: dict[str, Json], name: str) -> int:
    with well_formed(saved, f"{name!r}"):
        return count_in(saved.get(name, 0))


def _world(saved: Json) -> World | None:
    if saved is None:
        return None
    if not isinstance(saved, list) or len(saved) != 4 or not all(isinstance(number, int) for number in saved):
        raise StateError(f"malformed checkpoint: expected four integers for 'world', got {saved!r:.40}", hint=_HINT)
    rank, ranks, worker, workers = saved
    if rank == -1:  # version 1
        return _SomeWorld(ranks, workers)
    return World(rank, ranks, worker, workers)


class _SomeWorld(World):
    """Some rank and worker of so many: version 1 of the state saved the totals only."""

    def __init__(self, ranks: int, workers: int) -> None:
        for name, value in (("rank", -1), ("ranks", ranks), ("worker", -1), ("workers", workers)):
            object.__setattr__(self, name, value)


def check_types(saved: Json, **types: Any) -> None:
    """Refuse JSON that does not hold values of these types under these keys."""
    if not isinstance(saved, dict):
        raise StateError(f"malformed checkpoint: expected a dict, got {saved!r:.40}", hint=_HINT)
    for name, kind in types.items():
        value = saved.get(name)
        if not isinstance(value, kind) or (isinstance(value, bool) and kind is int):
            raise StateError(
                f"malformed checkpoint: expected {getattr(kind, '__name__', kind)} for {name!r}, got {value!r:.40}",
                hint=_HINT,
            )


def encode(value: Json) -> Json:
    """A stage's progress as JSON, cursors inside it included.

    >>> encode([Cursor(1)])
    [{'$cursor': {'epoch': 1, 'passes': 0, 'position': 0, 'beginning': []}}]
    """
    if isinstance(value, Cursor):
        return {_NESTED: value.to_json()}
    if isinstance(value, dict):
        return {name: encode(each) for name, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [encode(each) for each in value]
    return value


def decode(value: Json) -> Json:
    """The inverse of `encode`."""
    if isinstance(value, dict):
        if _NESTED in value:
            return Cursor.from_json(value[_NESTED])
        return {name: decode(each) for name, each in value.items()}
    if isinstance(value, list):
        return [decode(each) for each in value]
    return value


def as_cursor(progress: Json) -> Cursor:
    """Return the progress of a dataset inside another, checked to be a cursor.

    Raises:
        StateError: it is not a cursor.
    """
    if isinstance(progress, Cursor):
        return progress
    raise StateError(f"malformed checkpoint: expected the state of a dataset, got {progress!r:.60}", hint=_HINT)


def _is_portable(progress: Json) -> bool:
    return isinstance(progress, Cursor) and progress.is_portable
