"""Several streams as one: in turn, or at random with a private generator."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from webdataset.order import check_weights, pick

_EMPTY: Any = object()


def round_robin_shortest(*sources: Iterable[Any]) -> Iterator[Any]:
    """One of each in turn, until the first of them has no more.

    >>> list(round_robin_shortest("abc", "12"))
    ['a', '1', 'b', '2', 'c']
    """
    iterators = [iter(source) for source in sources]
    while iterators:
        for iterator in iterators:
            item = next(iterator, _EMPTY)
            if item is _EMPTY:
                return
            yield item


def round_robin_longest(*sources: Iterable[Any]) -> Iterator[Any]:
    """One of each in turn, leaving out those that have no more.

    >>> list(round_robin_longest("abc", "1"))
    ['a', '1', 'b', 'c']
    """
    iterators = [iter(source) for source in sources]
    while iterators:
        going = []
        for iterator in iterators:
            item = next(iterator, _EMPTY)
            if item is not _EMPTY:
                going.append(iterator)
                yield item
        iterators = going


def random_samples(
    sources: Sequence[Iterable[Any]],
    probs: Sequence[float] | None = None,
    longest: bool = False,
    rng: random.Random | None = None,
) -> Iterator[Any]:
    """One of a randomly picked source, again and again, until the picked one has no more.

    >>> "".join(random_samples(["aaaa", "bbbb"], [3, 1]))
    'bbaaaab'

    Args:
        sources: anything to iterate over.
        probs: weights, which need not sum to 1; a source of weight 0 is never read.
        longest: go on without the exhausted source instead of stopping.
        rng: by default a private one that always starts the same way.
    """
    weights = check_weights([1.0] * len(sources) if probs is None else probs, len(sources))
    iterators = [iter(source) for source in sources]
    rng = random.Random(0) if rng is None else rng
    while any(weights):
        which = pick(weights, rng.random())
        item = next(iterators[which], _EMPTY)
        if item is not _EMPTY:
            yield item
        elif longest:
            weights[which] = 0.0
        else:
            return


def compute_sample_weights(pairs: Sequence[tuple[int, float]]) -> Any:
    """Weights for resampling sources of n samples each so that w decides: n·w over the largest.

    >>> compute_sample_weights([(100, 1), (10, 2)])
    array([1. , 0.2])
    """
    import numpy as np

    products = np.array([count * weight for count, weight in pairs], dtype=float)
    return products / products.max()
