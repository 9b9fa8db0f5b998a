"""Be a `torch.utils.data.IterableDataset` without importing torch.

`import torch` costs seconds, and a program that reads NumPy batches never needs it. torch decides with `isinstance`
whether a dataset is iterable, and `isinstance` asks the object for its `__class__`: at that moment torch is there, and
the pipeline classes are registered with it as virtual subclasses. (docs/decisions/0004-lazy-torch.md)
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
        """The type of this object, by now known to torch."""
        register(type(self))
        return type(self)

    def __getitem__(self, index: Any) -> Any:
        # torch's base class has this method too; without it a foreign sampler would fail with a puzzle.
        raise NotImplementedError(
            f"{type(self).__name__} is read in order; it has no item {index!r}; wds.IndexedDataset has items"
        )


def is_iterable_dataset(value: Any) -> bool:
    """Whether this is a dataset of ours, or of a class that a program derived from torch's IterableDataset.

    >>> is_iterable_dataset(["a.tar"])
    False
    """
    iterable = _torchs_own()
    return isinstance(value, TorchIterable) or (iterable is not None and isinstance(value, iterable))


def _torchs_own() -> Any:
    return getattr(sys.modules.get("torch.utils.data"), "IterableDataset", None)


def register(cls: type) -> None:
    """Make `cls` a virtual subclass of torch's IterableDataset, as soon as torch has been imported."""
    if cls in _registered:
        return
    iterable = _torchs_own()
    if iterable is not None:
        iterable.register(cls)
        _registered.add(cls)
