"""One checkpoint from those of all ranks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from webdataset.errors import StateError
from webdataset.flow import Json
from webdataset.order import Remaining
from webdataset.plan import PlanState, join_ranks

from ._checkpoint import Checkpoint
from ._cursor import Cursor, InPlan, InStages

_TOGETHER = "give what all ranks saved at one time, in the order of the ranks"


def merge_states(states: Sequence[dict[str, Json]]) -> dict[str, Json]:
    """Join the checkpoints of all ranks into one, for a dataset whose filters leave ranks at different positions.

    >>> from webdataset import WebDataset, world
    >>> from webdataset.testing import make_shard
    >>> shard = make_shard("memory://merge/a.tar", [{"__key__": str(n), "txt": "x"} for n in range(8)])
    >>> def make():
    ...     return WebDataset(shard, index=True).select(lambda sample: sample["__key__"] in "01367").batched(2)
    >>> states = []
    >>> for rank in (0, 1):
    ...     with world.pretend(world.World(rank=rank, ranks=2)):
    ...         dataset = make()
    ...         _ = next(iter(dataset))
    ...         states.append(dataset.state_dict())
    >>> dataset = make()  # on one rank
    >>> dataset.load_state_dict(merge_states(states))
    >>> [batch["__key__"] for batch in dataset]
    [['7']]

    Only needed where samples were dropped, and then only to go on with another number of ranks or workers: without
    filters every rank saves the same.

    >>> from webdataset import WebDataset, world
    >>> from webdataset.testing import make_shard
    >>> shard = make_shard("memory://docs/merge.tar", [{"__key__": str(n), "txt": "x"} for n in range(4)])
    >>> states = []
    >>> for rank in range(2):
    ...     with world.pretend(world.World(rank, ranks=2)):
    ...         dataset = WebDataset(shard, index=True).select(bool)
    ...         _ = next(iter(dataset))
    ...         states.append(dataset.state_dict())
    >>> again = WebDataset(shard, index=True).select(bool)
    >>> again.load_state_dict(merge_states(states))
    >>> [sample["__key__"] for sample in again]
    ['2', '3']

    Args:
        states: what `state_dict()` gave on every rank after the same step, in the order of the ranks. A rank that has
            ended its epoch may be among them.
    """
    if not states:
        raise StateError("there is nothing to merge", hint=_TOGETHER)
    checkpoints = [Checkpoint.from_json(state) for state in states]
    first = checkpoints[0]
    if any((each.identity, each.dataset) != (first.identity, first.dataset) for each in checkpoints):
        raise StateError("the checkpoints differ in seed or stages", hint=_TOGETHER)
    cursors = [each.cursor for each in checkpoints]
    begun = next((cursor for cursor in cursors if _innermost(cursor).plan is not None), None)
    if begun is None:
        return _all_the_same(checkpoints).to_json()
    merged = join_ranks([_plan_in_epoch(_innermost(cursor), _innermost(begun)) for cursor in cursors])
    return first.with_cursor(_with_plan(begun, merged)).to_json()


def _all_the_same(checkpoints: Sequence[Checkpoint]) -> Checkpoint:
    """Return the checkpoint that all ranks have between two epochs."""
    if not all(_innermost(each.cursor).is_beginning for each in checkpoints):
        raise StateError(
            "this is not the checkpoint of an indexed dataset",
            hint="only checkpoints of indexed datasets can be merged; others resume rank by rank",
        )
    if any(_innermost(each.cursor) != _innermost(checkpoints[0].cursor) for each in checkpoints):
        raise StateError("the checkpoints are of different epochs", hint=_TOGETHER)
    return checkpoints[0]


def _plan_in_epoch(cursor: Cursor, begun: Cursor) -> PlanState | None:
    """Return how far a rank is in the epoch that others have begun; None if the rank has ended that epoch."""
    assert begun.plan is not None
    if cursor.epoch == begun.epoch and cursor.plan is not None:
        return cursor.plan
    if cursor.epoch == begun.epoch and cursor.is_beginning:
        return PlanState(Remaining(begun.plan.remaining.samples))
    if cursor.epoch == begun.epoch + 1 and cursor.is_beginning:
        return None
    raise StateError(f"the checkpoints are of epochs {begun.epoch} and {cursor.epoch}", hint=_TOGETHER)


def _innermost(cursor: Cursor) -> Cursor:
    """The cursor of the dataset inside a loader, or inside another dataset."""
    if isinstance(cursor.where, InStages) and isinstance(cursor.where.progress[0], Cursor):
        if cursor.where.stopped:
            raise StateError(
                "a handler has ended the stream of one rank after its loader",
                hint="such checkpoints resume rank by rank, on the same number of ranks",
            )
        return _innermost(cursor.where.progress[0])
    return cursor


def _with_plan(cursor: Cursor, plan: PlanState) -> Cursor:
    if isinstance(cursor.where, InStages):
        inner, *others = cursor.where.progress
        if any(others):
            raise StateError(
                "a stage after the loader holds samples, which belong to one rank",
                hint="checkpoints of a loader that is rebatched resume rank by rank, on the same number of ranks",
            )
        return replace(cursor, where=replace(cursor.where, progress=(_with_plan(inner, plan), *others)), world=None)
    return replace(cursor, where=InPlan(plan), world=None)
