"""torch's default collation, with tensors stacked by our own function, into memory of `_shared_memory`.

In a worker process torch itself stacks tensors in files of /dev/shm, which is small in many containers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import Tensor
from torch.utils.data._utils.collate import collate, default_collate_fn_map

from webdataset.stages import combine_values


def default_collate(samples: Sequence[Any]) -> Any:
    """Return the batch that `torch.utils.data.default_collate` makes of samples.

    >>> default_collate([{"x": 1, "y": "a"}, {"x": 2, "y": "b"}])
    {'x': tensor([1, 2]), 'y': ['a', 'b']}
    """
    return collate(samples, collate_fn_map=_COLLATE_BY_TYPE)


def _stacked(tensors: list[Any], *, collate_fn_map: Any = None) -> Any:
    return combine_values(tensors)


_COLLATE_BY_TYPE = {**default_collate_fn_map, memoryview: default_collate_fn_map[bytes], Tensor: _stacked}
