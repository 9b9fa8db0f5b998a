"""Several passes over a source."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from webdataset.errors import SpecError


def guess_batchsize(batch: Any) -> int:
    """How many samples a batch seems to hold: the length of its first column.

    >>> guess_batchsize(([1, 2, 3], "abc")), guess_batchsize({"cls": [1, 2]})
    (3, 2)
    """
    columns = list(batch.values()) if isinstance(batch, dict) else batch
    return len(columns[0])


def repeatedly(
    source: Iterable[Any],
    nepochs: int | None = None,
    nbatches: int | None = None,
    nsamples: int | None = None,
    batchsize: Callable[[Any], int] = guess_batchsize,
) -> Iterator[Any]:
    """Iterate over a source again and again, until one of the limits is reached or a pass brings nothing.

    >>> list(repeatedly([1, 2], nbatches=5))
    [1, 2, 1, 2, 1]

    Args:
        source: anything that can be iterated more than once.
        nepochs: how many passes.
        nbatches: how many items in all.
        nsamples: how many samples in all, as `batchsize` counts them; the batch that reaches the number is the last.
        batchsize: how many samples an item holds.
    """
    for name, limit in {"nepochs": nepochs, "nbatches": nbatches, "nsamples": nsamples}.items():
        if limit is not None and limit < 0:
            raise SpecError(f"repeatedly({name}={limit}): limits must be at least 0")
    return _repeat(source, nepochs, nbatches, nsamples, batchsize)


def _repeat(
    source: Iterable[Any],
    nepochs: int | None,
    nbatches: int | None,
    nsamples: int | None,
    batchsize: Callable[[Any], int],
) -> Iterator[Any]:
    epochs = batches = samples = 0
    while not _reached(epochs, nepochs):
        before = batches
        for batch in () if _reached(batches, nbatches) or _reached(samples, nsamples) else source:
            yield batch
            batches += 1
            samples += batchsize(batch) if nsamples is not None else 0
            if _reached(batches, nbatches) or _reached(samples, nsamples):
                return
        if batches == before:  # an empty source would be read for ever
            return
        epochs += 1


def _reached(count: int, limit: int | None) -> bool:
    return limit is not None and count >= limit
