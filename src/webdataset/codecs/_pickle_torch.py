"""Pickled torch tensors: the parts are checked, because torch allocates whatever a size asks for."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from webdataset.errors import UnsafeContent

from ._pickle_budget import Budget
from ._tensors import load_weights


def _make_storage(budget: Budget, *args: Any) -> Any:
    """Torch's own function for this runs `torch.load` without restrictions."""
    import torch

    match args:
        case (bytes(data),):
            budget.spend(len(data))
            storage = load_weights(data)
            if isinstance(storage, torch.storage.TypedStorage | torch.UntypedStorage):
                return storage
    raise _unusual()


def _make_tensor(budget: Budget, *args: Any) -> Any:
    import torch
    from torch._utils import _rebuild_tensor_v2

    if len(args) not in {6, 7}:
        raise _unusual()
    storage, offset, size, stride, requires_grad, *_ = args
    if not (isinstance(storage, torch.storage.TypedStorage) and type(requires_grad) is bool):
        raise _unusual()
    if not (_are_counts(size) and _are_counts(stride) and _are_counts((offset,)) and len(size) == len(stride)):
        raise _unusual()
    # Torch would enlarge a storage that is too small, by memory that holds anything.
    last = offset + sum((each - 1) * step for each, step in zip(size, stride, strict=True))
    itemsize = storage.dtype.itemsize
    if 0 not in size and (last + 1) * itemsize > storage._untyped_storage.nbytes():
        raise UnsafeContent("the pickle has a tensor that is larger than its storage")
    budget.spend(itemsize * math.prod(max(each, 1) for each in size))
    return _rebuild_tensor_v2(storage, offset, tuple(size), tuple(stride), requires_grad, {})


def _make_parameter(budget: Budget, *args: Any) -> Any:
    import torch

    match args:
        case (torch.Tensor() as data, bool(requires_grad), _):
            return torch.nn.Parameter(data, requires_grad)
    raise _unusual()


def _make_size(budget: Budget, *args: Any) -> Any:
    import torch

    match args:
        case (tuple() | list() as size,) if _are_counts(size):
            return torch.Size(size)
    raise _unusual()


def _are_counts(values: Any) -> bool:
    return isinstance(values, tuple | list) and all(type(each) is int and 0 <= each < 2**62 for each in values)


def _unusual() -> UnsafeContent:
    return UnsafeContent("the pickle makes a torch tensor in an unusual way")


TORCH_MAKERS: dict[str, Callable[..., Any]] = {
    "torch._utils._rebuild_tensor_v2": _make_tensor,
    "torch._utils._rebuild_parameter": _make_parameter,
    "torch.storage._load_from_bytes": _make_storage,
    "torch.Size": _make_size,
}
