"""Datasets that are `torch.utils.data.IterableDataset` for torch, without importing torch.

`import torch` takes seconds, and a program that reads NumPy batches never needs it. torch decides with `isinstance`
whether a dataset is iterable, and `isinstance` reads the object's `__class__`: torch has been imported by then, and the
pipeline classes are registered with it as virtual subclasses. (docs/decisions/0004-lazy-torch.md)
"""

from __future__ import annotations

import sys
from typing import Any

_registered: set[type] = set()


class TorchIterable:
    """A base for datasets that torch recognises as iterable, whether torch was imported before or after them.

    >>> class Numbers(TorchIterable):
    ...     def __iter__(self):
    ...         return iter(range(3))
    >>> from torch.utils.data import DataLoader, IterableDataset
    >>> isinstance(Numbers(), IterableDataset)
    True
    >>> [int(number) for number in DataLoader(Numbers(), batch_size=None)]
    [0, 1, 2]
    """

    @property  # type: ignore[misc]  # mypy knows __class__ as an attribute only
    def __class__(self) -> type:
        """The type of this object, registered with torch if torch has been imported."""
        register(type(self))
        return type(self)

    def __getitem__(self, index: Any) -> Any:
        # torch's base class has this method too; without it a sampler of another package would fail with a vague error.
        raise NotImplementedError(
            f"{type(self).__name__} is read in order; it has no item {index!r}; wds.IndexedDataset has items"
        )


def is_iterable_dataset(value: Any) -> bool:
    """Whether this is a dataset of ours, or of a class that a program derived from torch's IterableDataset.

    >>> is_iterable_dataset(["a.tar"])
    False
    """
    iterable = _torch_class()
    return isinstance(value, TorchIterable) or (iterable is not None and isinstance(value, iterable))


def _torch_class() -> Any:
    return getattr(sys.modules.get("torch.utils.data"), "IterableDataset", None)


def register(cls: type) -> None:
    """Make `cls` a virtual subclass of torch's IterableDataset, as soon as torch has been imported."""
    if cls in _registered:
        return
    iterable = _torch_class()
    if iterable is not None:
        iterable.register(cls)
        _registered.add(cls)
