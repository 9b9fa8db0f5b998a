"""`webdataset.pytorch`: names of torch, or stand-ins without torch. Importing it imports torch."""

from __future__ import annotations

from typing import Any

__all__ = ["DataLoader", "IterableDataset", "TorchTensor"]

try:
    from torch import Tensor as TorchTensor
    from torch.utils.data import DataLoader, IterableDataset
except ImportError:
    from webdataset.errors import MissingDependency

    class IterableDataset:  # type: ignore[no-redef]  # a stand-in, so that classes can be derived from it
        """A dataset without torch."""

    class TorchTensor:  # type: ignore[no-redef]
        """No value is an instance of this."""

    class DataLoader:  # type: ignore[no-redef]
        """Raises an error that names torch when it is used."""

        def __init__(self, *_: Any, **__: Any) -> None:
            raise MissingDependency("torch", extra="torch", why="to start worker processes")
