"""What the stages after a plan mean for its steps, its state and its length."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from webdataset.flow import PerItem, Resumable
from webdataset.stages import Batched, Select

if TYPE_CHECKING:
    from ._read_planned import ReadPlanned


def step_size(stages: Iterable[Any]) -> int:
    """Return the batch size of the first `batched`, if only functions of one sample come before it; else 1.

    >>> from webdataset.stages import Map, Shuffle
    >>> step_size([Map(str), Batched(16)]), step_size([Map(str), Shuffle(10), Batched(16)])
    (16, 1)
    """
    for stage in stages:
        if isinstance(stage, Batched):
            return stage.batchsize
        if not isinstance(stage, PerItem):
            break
    return 1


def reads_by_plan(stages: Sequence[Any]) -> bool:
    """Whether the first stage reads its part of a computed order."""
    return bool(stages) and getattr(stages[0], "planned", None) is not None


def plan_of(stages: Sequence[Any]) -> ReadPlanned | None:
    """The first stage, if it reads its part of a computed order sample by sample."""
    first: ReadPlanned | None = stages[0] if reads_by_plan(stages) else None
    return first if first is not None and first.planned == "samples" else None


def is_even_chain(stages: Sequence[Any]) -> bool:
    """Whether no stage after a plan holds samples between two items: functions of one item, at most one `batched`."""
    if not reads_by_plan(stages):
        return False
    others = [stage for stage in stages[1:] if not isinstance(stage, PerItem)]
    return not others or (plan_of(stages) is not None and len(others) == 1 and isinstance(others[0], Batched))


def may_drop(stages: Sequence[Any]) -> bool:
    """Whether there is a stage whose purpose is to leave samples out (the function of `map` may do so, too)."""
    return not replaces(stages) and any(isinstance(stage, Select) for stage in stages)


def replaces(stages: Sequence[Any]) -> bool:
    """Whether samples that are left out are replaced."""
    plan = plan_of(stages)
    return plan is not None and plan.replaces


def count_items(stages: Iterable[Any], items: int) -> int | None:
    """How many items come out of these stages when so many go in; None if that is not known.

    >>> count_items([Batched(4), Batched(2, partial=False)], 18), count_items([Select(bool)], 18)
    (2, None)
    """
    count: int | None = items
    for stage in stages:
        count = stage.count(count) if isinstance(stage, (PerItem, Resumable)) and count is not None else None
    return count
