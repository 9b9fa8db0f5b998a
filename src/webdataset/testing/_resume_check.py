"""Check that a pipeline resumes from any point with the items that follow."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import islice
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from webdataset.pipeline import DataPipeline


def assert_resumes_everywhere(make: Callable[[], DataPipeline], *, limit: int | None = None) -> list[Any]:
    """Save before every item and after the last, resume each state in a new pipeline, compare what follows.

    >>> from webdataset import DataPipeline, map
    >>> assert_resumes_everywhere(lambda: DataPipeline([1, 2, 3], map(str)))
    ['1', '2', '3']

    Args:
        make: makes a new pipeline; two of them may share the data only.
        limit: check so many items only, for pipelines that do not end.
    """
    pipeline = make()
    states, items = [_saved(pipeline)], []
    for item in islice(iter(pipeline), limit):
        items.append(item)
        states.append(_saved(pipeline))
    pipeline.close()
    for number, state in enumerate(states):
        again = make()
        again.load_state_dict(state)
        rest = list(islice(iter(again), None if limit is None else limit - number))
        again.close()
        if not equal(rest, items[number:]):
            raise AssertionError(
                f"resumed after {number} items: {rest[:3]!r:.500} instead of {items[number : number + 3]!r:.500}"
            )
    return items


def _saved(pipeline: DataPipeline) -> Any:
    return json.loads(json.dumps(pipeline.state_dict()))


def equal(left: Any, right: Any) -> bool:
    """Equality that also holds for arrays and tensors inside containers.

    >>> import numpy as np
    >>> equal([np.zeros(2), {"a": 1}], [np.zeros(2), {"a": 1}])
    True
    """
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(equal(left[key], right[key]) for key in left)
    if isinstance(left, (list, tuple)) and isinstance(right, (list, tuple)):
        return len(left) == len(right) and all(map(equal, left, right))
    same = left == right
    return bool(same.all() if hasattr(same, "all") else same)
