"""The pickles in torch's files, which refer to storages that are stored next to them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from webdataset.errors import FormatError, UnsafeContent

from ._pickle_budget import Budget
from ._pickle_machine import Machine

if TYPE_CHECKING:
    from ._pickle_globals import Names

STORAGE_BYTES = 1000  # what Python and torch need for a storage or a tensor without its items, about
_MAGIC = 0x1950A86A20F9469CFC6C  # the first pickle of a file without an archive, of which there are five
_PICKLES = 5
# Classes of storages, and the types of their items.
STORAGES = {
    **{f"torch.{name}Storage": f"int{size}" for name, size in [("Long", 64), ("Int", 32), ("Short", 16), ("Char", 8)]},
    **{f"torch.{name}Storage": f"float{size}" for name, size in [("Double", 64), ("Float", 32), ("Half", 16)]},
    **{f"torch.Complex{name}Storage": f"complex{size}" for name, size in [("Double", 128), ("Float", 64)]},
    **{f"torch.{name}Storage": kind for name, kind in [("Byte", "uint8"), ("Bool", "bool"), ("BFloat16", "bfloat16")]},
    "torch.storage.UntypedStorage": "uint8",
}


class StorageNames:
    """The names that a pickle of a storage alone may refer to: classes of storages. It may call nothing."""

    def find(self, module: str, name: str) -> str:
        if f"{module}.{name}" not in STORAGES:
            raise unusual()
        return f"{module}.{name}"

    def is_trusted(self, value: Any) -> bool:
        return False

    def call(self, *args: Any) -> Any:
        raise unusual()

    new = set_state = call


class TorchPickle(Machine):
    """One pickle of such a file.

    Args:
        data: the bytes that contain the pickle.
        names: the names that it may refer to, call and build.
        budget: how much it may build.
        read: returns the bytes of the storage with this key, which has this size according to the pickle.
        start: where the pickle starts.
    """

    def __init__(
        self,
        data: bytes,
        names: Names | StorageNames,
        budget: Budget,
        read: Callable[[str, int], bytes],
        start: int = 0,
    ) -> None:
        super().__init__(data, names, budget, "utf-8")
        self._position = start
        self._read = read
        self.storages: dict[str, Any] = {}

    def _persistent(self) -> None:
        import torch

        match self._stack.pop():
            case ("storage", str(kind), str(key), _, int(count), *views) if kind in STORAGES and views in ([], [None]):
                dtype = getattr(torch, STORAGES[kind])
            case _:
                raise unusual()
        size = count * dtype.itemsize
        made = self.storages.get(key)
        if made is None or not size:  # torch gives one key to empty storages of different types
            self._budget.spend(STORAGE_BYTES + max(size, 0))
            items = torch.empty(max(size, 0), dtype=torch.uint8)
            fill(items.untyped_storage(), self._read(key, size) if size else b"")
            made = torch.storage.TypedStorage(wrap_storage=items.untyped_storage(), dtype=dtype, _internal=True)
            if size:
                self.storages[key] = made
        if made.dtype != dtype or made._untyped_storage.nbytes() != size:
            raise unusual()
        self._stack.append(made)


def fill(storage: Any, data: bytes) -> None:
    """Copy bytes into a storage of this size."""
    import torch

    if storage.nbytes() != len(data):
        raise FormatError(f"a storage needs {storage.nbytes():,} bytes, and has {len(data):,}")
    torch.empty(0, dtype=torch.uint8).set_(storage).numpy()[:] = np.frombuffer(data, np.uint8)


def load_pickles(data: bytes, names: Names | StorageNames, budget: Budget) -> Any:
    """The value in a file of torch's oldest format: five pickles, then each storage after the number of its items."""

    def read_later(key: str, size: int) -> bytes:
        if not 0 < size <= len(data):
            raise FormatError(f"a storage needs {size:,} bytes, and the file has {len(data):,}")
        return bytes(size)

    values, end = [], 0
    storages: dict[str, Any] = {}
    for _ in range(_PICKLES):
        part = TorchPickle(data, names, budget, read_later, end)
        values.append(part.run())
        end = part.end
        storages |= part.storages
    magic, _, _, value, keys = values
    if magic != _MAGIC or type(keys) is not list or not all(type(key) is str for key in keys):
        raise FormatError("not a file that torch has saved")
    for key in keys:
        count = int.from_bytes(data[end : end + 8], "little")
        end += 8
        made = storages.pop(key, None)
        size = 0 if made is None else made._untyped_storage.nbytes()
        if count != (0 if made is None else size // made.dtype.itemsize):
            raise FormatError(f"a storage of {size:,} bytes is stored as {count:,} items")
        if made is not None:
            fill(made._untyped_storage, data[end : end + size])
        end += size
    if storages:
        raise FormatError("the file lacks a storage")
    return value


def unusual() -> UnsafeContent:
    return UnsafeContent("the pickle makes a torch tensor in an unusual way")
