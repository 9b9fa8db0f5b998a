"""`WebLoader`: torch's `DataLoader` as the first stage of a pipeline."""

from __future__ import annotations

from typing import Any

from webdataset.errors import MissingDependency
from webdataset.pipeline import DataPipeline, FluidInterface


class WebLoader(DataPipeline, FluidInterface):
    """A dataset read by worker processes, with the methods of the fluid interface for what comes after.

    >>> from webdataset import DataPipeline
    >>> dataset = DataPipeline(range(6))
    >>> [batch.tolist() for batch in WebLoader(dataset, batch_size=2)]
    [[0, 1], [2, 3], [4, 5]]

    All arguments go to `torch.utils.data.DataLoader`. Batch in the dataset (`.batched(64)`) and pass `batch_size=None`:
    then whole batches travel from the workers.
    """

    def __init__(self, *args: Any, **kw: Any) -> None:
        try:
            from torch.utils.data import DataLoader
        except ImportError as error:
            raise MissingDependency("torch", extra="torch", why="to start worker processes") from error
        super().__init__(DataLoader(*args, **kw))
