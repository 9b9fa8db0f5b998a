"""Pickled torch tensors: the parts are checked, because torch allocates whatever a size asks for."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from webdataset.errors import FormatError, UnsafeContent

from ._pickle_budget import Budget
from ._pickle_machine import Machine


class StorageNames:
    """Such a pickle refers to the class of the storage, and calls nothing."""

    def find(self, module: str, name: str) -> str:
        if f"{module}.{name}" not in STORAGES:
            raise _unusual()
        return f"{module}.{name}"

    def is_trusted(self, value: Any) -> bool:
        return False

    def call(self, *args: Any) -> Any:
        raise _unusual()

    new = set_state = call


class _StoragePickle(Machine):
    """One of the pickles in the file of a storage, which it describes by a persistent id: a tuple."""

    def __init__(self, data: bytes, start: int, budget: Budget) -> None:
        super().__init__(data, StorageNames(), budget)
        self._at = start

    def _persistent(self) -> None:
        pass


def _make_storage(budget: Budget, *args: Any) -> Any:
    """A storage out of torch's oldest file format: five pickles, the number of items, and the items.

    Torch's own function for this would unpickle without limits.
    """
    match args:
        case (bytes(data),):
            values, end = [], 0
            for _ in range(5):
                part = _StoragePickle(data, end, budget)
                values.append(part.run())
                end = part.end
            match values:
                case [_, _, _, ("storage", str(kind), str(key), _, int(count), None), [str(same)]] if key == same:
                    return _read_storage(kind, count, data[end:], budget)
    raise _unusual()


def _read_storage(kind: str, count: int, data: bytes, budget: Budget) -> Any:
    import torch

    if kind not in STORAGES:
        raise _unusual()
    dtype = getattr(torch, STORAGES[kind])
    if int.from_bytes(data[:8], "little") != count or len(data) != 8 + count * dtype.itemsize:
        raise FormatError(f"the storage of a pickled tensor needs {count:,} items, and has {len(data):,} bytes")
    budget.spend(len(data))
    items = torch.frombuffer(bytearray(data), dtype=torch.uint8)[8:].clone()  # in memory that torch can resize
    return torch.storage.TypedStorage(wrap_storage=items.untyped_storage(), dtype=dtype, _internal=True)


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


# Classes of storages, and the types of their items.
STORAGES = {
    **{f"torch.{name}Storage": f"int{size}" for name, size in [("Long", 64), ("Int", 32), ("Short", 16), ("Char", 8)]},
    **{f"torch.{name}Storage": f"float{size}" for name, size in [("Double", 64), ("Float", 32), ("Half", 16)]},
    **{f"torch.Complex{name}Storage": f"complex{size}" for name, size in [("Double", 128), ("Float", 64)]},
    **{f"torch.{name}Storage": kind for name, kind in [("Byte", "uint8"), ("Bool", "bool"), ("BFloat16", "bfloat16")]},
}
TORCH_MAKERS: dict[str, Callable[..., Any]] = {
    "torch._utils._rebuild_tensor_v2": _make_tensor,
    "torch._utils._rebuild_parameter": _make_parameter,
    "torch.storage._load_from_bytes": _make_storage,
    "torch.Size": _make_size,
}
