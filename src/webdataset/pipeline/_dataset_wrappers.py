"""`with_epoch`, `with_length` and `repeatedly` for any iterable dataset, and a dataset of one constant sample."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from webdataset.arguments import require_count

from ._pipeline import DataPipeline
from ._torch_iterable import TorchIterable


class MockDataset(TorchIterable):
    """The same sample again and again, for testing and for measuring everything but the data.

    >>> list(MockDataset("sample", 2))
    ['sample', 'sample']
    """

    def __init__(self, sample: Any, length: int) -> None:
        self.sample = sample
        self.length = require_count("MockDataset", "length", length, least=0)

    def __iter__(self) -> Iterator[Any]:
        return (self.sample for _ in range(self.length))


class with_epoch(DataPipeline):  # noqa: N801  # the public name
    """Any iterable dataset, cut into epochs of `length` items that continue each other.

    >>> dataset = with_epoch([0, 1, 2], 2)
    >>> list(dataset), list(dataset), len(dataset)
    ([0, 1], [2, 0], 2)
    """

    def __init__(self, dataset: Any, length: int) -> None:
        super().__init__(dataset)
        self.__dict__.update(self.with_epoch(length).__dict__)
        self.size = length


class with_length(DataPipeline):  # noqa: N801  # the public name
    """Any iterable dataset, with an answer to `len()`.

    >>> dataset = with_length([0, 1, 2], 3)
    >>> len(dataset), list(dataset)
    (3, [0, 1, 2])
    """

    def __init__(self, dataset: Any, length: int) -> None:
        super().__init__(dataset)
        self.__dict__.update(self.with_length(length).__dict__)


class repeatedly(DataPipeline):  # noqa: N801  # the public name
    """Any iterable dataset, several times over.

    >>> list(repeatedly([0, 1], nepochs=2))
    [0, 1, 0, 1]
    >>> list(repeatedly([0, 1], nbatches=3))
    [0, 1, 0]
    """

    def __init__(
        self, source: Any, nepochs: int | None = None, nbatches: int | None = None, length: int | None = None
    ) -> None:
        super().__init__(source)
        self.__dict__.update(self.repeat(nepochs or -1, nbatches or -1).__dict__)
        self.size = length
