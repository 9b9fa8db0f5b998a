"""The same source again and again, until enough epochs, batches or samples were seen."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import count, islice
from typing import Any


def guess_batchsize(batch: Any) -> int:
    """The length of a batch's first column.

    >>> guess_batchsize(([1, 2, 3], ["a", "b", "c"])), guess_batchsize({"x": [1, 2]})
    (3, 2)
    """
    return len(next(iter(batch.values())) if isinstance(batch, Mapping) else batch[0])


def repeatedly(
    source: Iterable[Any],
    nepochs: int | None = None,
    nbatches: int | None = None,
    nsamples: int | None = None,
    batchsize: Callable[[Any], int] = guess_batchsize,
) -> Iterator[Any]:
    """Go through the source again and again, up to so many passes, items or samples in all.

    >>> list(repeatedly([1, 2], nbatches=5))
    [1, 2, 1, 2, 1]
    >>> list(repeatedly([], nbatches=5))
    []
    """
    items = samples = 0
    for epoch in count():
        if nepochs is not None and epoch >= nepochs:
            return
        before = items
        for item in source:
            if nbatches is not None and items >= nbatches:
                return
            yield item
            items += 1
            if nsamples is not None:
                samples += batchsize(item)
                if samples >= nsamples:
                    return
        if items == before:
            return  # a pass without items would be followed by another one like it


def repeatedly0(loader: Iterable[Any], nepochs: int = sys.maxsize, nbatches: int = sys.maxsize) -> Iterator[Any]:
    """Go through a loader so many times, taking at most `nbatches` items of each pass.

    >>> list(repeatedly0([1, 2, 3], nepochs=2, nbatches=2))
    [1, 2, 1, 2]
    """
    for _ in range(nepochs):
        empty = True
        for item in islice(loader, nbatches):
            empty = False
            yield item
        if empty:
            return
