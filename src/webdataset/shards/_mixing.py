"""Several streams into one: in turn, or by chance with a private generator."""

from __future__ import annotations

import random
from bisect import bisect_left, bisect_right
from itertools import accumulate
from math import isfinite
from typing import TYPE_CHECKING, Any

from webdataset.errors import SpecError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

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
        probs: weights, normalised here; a source of weight 0 is never asked.
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


def pick(weights: Sequence[float], point: float) -> int:
    """The source that a point of 0 … 1 falls on, when each takes up its share of the line.

    >>> [pick([1, 0, 1], point) for point in (0.0, 0.49, 0.5, 0.99)]
    [0, 0, 2, 2]
    """
    sums = list(accumulate(weights))
    # Rounding may put the last point on the end of the line, which is the last source that has any weight.
    return min(bisect_right(sums, point * sums[-1]), bisect_left(sums, sums[-1]))


def check_weights(weights: Sequence[float], sources: int) -> list[float]:
    """The weights as floats, or an error that says which one cannot be.

    >>> check_weights([1, 3], 2)
    [1.0, 3.0]
    >>> check_weights([0, 0], 2)
    Traceback (most recent call last):
    webdataset.errors.SpecError: the weights [0, 0] sum to 0 – give at least one source a weight above 0
    """
    try:
        numbers = [float(weight) for weight in weights]
    except (TypeError, ValueError) as error:
        raise SpecError(f"the weights {weights!r:.100} are no numbers", hint="give one weight per source") from error
    if len(numbers) != sources:
        raise SpecError(f"{len(numbers)} weights for {sources} sources", hint="give one weight per source")
    if not all(isfinite(number) and number >= 0 for number in numbers):
        raise SpecError(f"the weights {list(weights)} are not all numbers from 0 up", hint="give finite weights")
    if sources and not any(numbers):
        raise SpecError(f"the weights {list(weights)} sum to 0", hint="give at least one source a weight above 0")
    return numbers


def compute_sample_weights(pairs: Sequence[tuple[int, float]]) -> Any:
    """Weights for resampling sources of n samples each so that w decides: n·w over the largest.

    >>> compute_sample_weights([(100, 1), (10, 2)])
    array([1. , 0.2])
    """
    import numpy as np

    products = np.array([count * weight for count, weight in pairs], dtype=float)
    return products / products.max()
