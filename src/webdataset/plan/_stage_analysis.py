"""What stands behind a plan, and what that means for its steps, its state and its length."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from webdataset.flow import PerItem
from webdataset.stages import Batched, Listed, Select, Shuffle

from ._read_planned import ReadPlanned


def batch_behind(stages: Iterable[Any]) -> int:
    """How many samples the first `batched` puts together, if only functions of one sample stand before it.

    >>> from webdataset.stages import Map
    >>> batch_behind([Map(str), Batched(16)]), batch_behind([Map(str), Shuffle(10), Batched(16)])
    (16, 1)
    """
    for stage in stages:
        if isinstance(stage, (Batched, Listed)):
            return stage.batchsize
        if not isinstance(stage, PerItem):
            break
    return 1


def is_even_chain(stages: Sequence[Any]) -> bool:
    """Whether nothing behind a plan holds samples between two items: functions of one item, at most one `batched`."""
    if not stages or not isinstance(stages[0], ReadPlanned):
        return False
    others = [stage for stage in stages[1:] if not isinstance(stage, PerItem)]
    return len(others) <= 1 and all(isinstance(stage, (Batched, Listed)) for stage in others)


def may_drop(stages: Iterable[Any]) -> bool:
    """Whether a stage says of itself that it leaves samples out (a function may do so, too)."""
    return any(isinstance(stage, Select) for stage in stages)


def items_behind(stages: Iterable[Any], samples: int) -> int | None:
    """How many items come out when so many samples go in; None if nobody can know.

    >>> items_behind([Batched(4), Batched(2, partial=False)], 18), items_behind([Select(bool)], 18)
    (2, None)
    """
    count = samples
    for stage in stages:
        if isinstance(stage, (Batched, Listed)):
            count = -(-count // stage.batchsize) if stage.partial else count // stage.batchsize
        elif isinstance(stage, Select) or not isinstance(stage, (PerItem, Shuffle)):
            return None
    return count
