"""Pickled torch tensors: the parts are checked, because torch allocates memory for any size."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from webdataset.errors import UnsafeContent

from ._pickle_budget import Budget
from ._torch_storages import STORAGE_BYTES, StorageNames, load_pickles, unusual


def _make_storage(budget: Budget, *args: Any) -> Any:
    """A storage that was pickled as a file; torch's own function for this would unpickle without limits."""
    import torch

    match args:
        case (bytes(data),):
            made = load_pickles(data, StorageNames(), budget)
            if isinstance(made, torch.storage.TypedStorage):
                return made
    raise unusual()


def _make_tensor(budget: Budget, *args: Any) -> Any:
    """A tensor of the type of its storage."""
    if len(args) not in {6, 7} or not hasattr(args[0], "dtype"):
        raise unusual()
    return _make_typed_tensor(budget, *args[:6], args[0].dtype, *args[6:])


def _make_typed_tensor(budget: Budget, *args: Any) -> Any:
    """A tensor whose type may differ from that of its storage."""
    import torch
    from torch._utils import _rebuild_tensor_v3

    if len(args) not in {7, 8}:
        raise unusual()
    storage, offset, size, stride, requires_grad, _, dtype, *metadata = args
    if not (
        isinstance(storage, torch.storage.TypedStorage)
        and type(requires_grad) is bool
        and isinstance(dtype, torch.dtype)
        and all(_is_metadata(each, dtype) for each in metadata)
        and _are_counts((offset,))
        and _are_counts(size)
        and _are_counts(stride)
        and len(size) == len(stride)
    ):
        raise unusual()
    # Torch would enlarge a storage that is too small, by uninitialized memory.
    last = offset + sum((each - 1) * step for each, step in zip(size, stride, strict=True))
    stored = storage._untyped_storage.nbytes()
    if 0 not in size and (last + 1) * dtype.itemsize > stored:
        raise UnsafeContent("the pickle has a tensor that is larger than its storage")
    budget.spend(STORAGE_BYTES + max(0, dtype.itemsize * math.prod(max(each, 1) for each in size) - stored))
    made = _rebuild_tensor_v3(storage, offset, tuple(size), tuple(stride), False, {}, dtype, *metadata)
    return made.requires_grad_(requires_grad)


def _is_metadata(value: Any, dtype: Any) -> bool:
    """Whether this is torch's metadata of a tensor: that it is the conjugate or the negative of what is stored."""
    allowed = {"conj", "neg"} if dtype.is_complex else {"neg"}
    return value is None or (type(value) is dict and value.keys() <= allowed)


def _make_parameter(budget: Budget, *args: Any) -> Any:
    import torch

    match args:
        case (torch.Tensor() as data, bool(requires_grad), _):
            budget.spend(STORAGE_BYTES)
            return torch.nn.Parameter(data, requires_grad)
    raise unusual()


def _make_parameter_with_state(budget: Budget, *args: Any) -> Any:
    return _with_attributes(_make_parameter(budget, *args[:3]), args[3:])


def _make_of_type(budget: Budget, *args: Any) -> Any:
    """A tensor with attributes, or of a class that the user allows: no other class of tensors can be named."""
    import torch
    from torch._tensor import _rebuild_from_type_v2

    match args:
        case (str(function), type() as kind, tuple(parts), state) if function in _TENSOR_MAKERS:
            made = _TENSOR_MAKERS[function](budget, *parts)
            if type(made) is kind:
                return _with_attributes(made, (state,))
            if issubclass(kind, torch.Tensor):
                return _rebuild_from_type_v2(lambda: made, kind, (), state)
    raise unusual()


def _with_attributes(tensor: Any, states: Any) -> Any:
    """The tensor, with attributes that cannot refer to other tensors: torch frees those recursively."""
    match states:
        case (dict(state),) if all(type(name) is str and type(each) in _PLAIN for name, each in state.items()):
            vars(tensor).update(state)
            return tensor
    raise unusual()


def _make_sparse_tensor(budget: Budget, *args: Any) -> Any:
    import torch

    match args:
        case (torch.layout() as layout, (*parts, size)) if layout != torch.sparse_coo and len(parts) == 3:
            make = torch.sparse_compressed_tensor
            options: dict[str, Any] = {"layout": layout}
        case (torch.sparse_coo, (*parts, size)) if len(parts) == 2:
            make, options = torch.sparse_coo_tensor, {}
        case (torch.sparse_coo, (*parts, size, (bool() | None) as is_coalesced)) if len(parts) == 2:
            make, options = torch.sparse_coo_tensor, {"is_coalesced": is_coalesced}
        case _:
            raise unusual()
    if not (all(isinstance(each, torch.Tensor) for each in parts) and _are_counts(size)):
        raise unusual()
    # Checking the indices takes time and memory.
    budget.spend(STORAGE_BYTES + sum(each.numel() * each.itemsize for each in parts))
    return make(*parts, size, check_invariants=True, **options)


def _make_layout(budget: Budget, *args: Any) -> Any:
    import torch

    match args:
        case (str(name),):
            made = vars(torch).get(name.removeprefix("torch."))
            if isinstance(made, torch.layout):
                return made
    raise unusual()


def _make_device(budget: Budget, *args: Any) -> Any:
    import torch

    match args:
        case (str(),) | (str(), int()):
            budget.spend(STORAGE_BYTES)
            return torch.device(*args)
    raise unusual()


def _make_size(budget: Budget, *args: Any) -> Any:
    import torch

    match args:
        case (tuple() | list() as size,) if _are_counts(size):
            budget.spend(STORAGE_BYTES)
            return torch.Size(size)
    raise unusual()


def _are_counts(values: Any) -> bool:
    return (
        isinstance(values, tuple | list)
        and len(values) <= _MOST_DIMENSIONS
        and all(type(each) is int and 0 <= each < 2**62 for each in values)
    )


def find_torch_type(name: str) -> Any:
    """The type of items, or class of tensors, of this name; None if there is none."""
    if not name.startswith("torch."):
        return None
    import torch

    found = vars(torch).get(name.removeprefix("torch."))
    if found is torch.Tensor or isinstance(found, torch.dtype):
        return found
    return torch.nn.Parameter if name == "torch.nn.parameter.Parameter" else None


_PLAIN = (bool, float, int, str, type(None))
_MOST_DIMENSIONS = 64
_TENSOR_MAKERS: dict[str, Callable[..., Any]] = {
    "torch._utils._rebuild_tensor_v2": _make_tensor,
    "torch._utils._rebuild_tensor_v3": _make_typed_tensor,
    "torch._utils._rebuild_parameter": _make_parameter,
    "torch._utils._rebuild_parameter_with_state": _make_parameter_with_state,
    "torch._utils._rebuild_sparse_tensor": _make_sparse_tensor,
}
TORCH_MAKERS: dict[str, Callable[..., Any]] = {
    **_TENSOR_MAKERS,
    "torch._tensor._rebuild_from_type_v2": _make_of_type,
    "torch.serialization._get_layout": _make_layout,
    "torch.storage._load_from_bytes": _make_storage,
    "torch.device": _make_device,
    "torch.Size": _make_size,
}
