"""Several streams into one: in turn, or by chance with a private generator."""

from __future__ import annotations

from itertools import accumulate
from math import isfinite
from typing import TYPE_CHECKING, Any

from webdataset.errors import SpecError
from webdataset.flow import digest

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
    sources: Sequence[Iterable[Any]], probs: Sequence[float] | None = None, longest: bool = False, *, seed: int = 0
) -> Iterator[Any]:
    """One of a randomly picked source, again and again, until the picked one has no more.

    >>> "".join(random_samples(["aaaa", "bbbb"], [3, 1]))
    'babbaaa'

    Args:
        sources: anything to iterate over.
        probs: weights, normalised here; a source of weight 0 is never asked.
        longest: go on without the exhausted source instead of stopping.
        seed: which of all sequences; the generator is private and every pick depends on its number alone.
    """
    weights = check_weights([1.0] * len(sources) if probs is None else probs, len(sources))
    iterators = [iter(source) for source in sources]
    step = 0
    while any(weights):
        which = pick(weights, seed, step)
        step += 1
        item = next(iterators[which], _EMPTY)
        if item is not _EMPTY:
            yield item
        elif longest:
            weights[which] = 0.0
        else:
            return


def pick(weights: Sequence[float], seed: int, step: int) -> int:
    """Which source the draw number `step` takes: a function of its arguments, so a mix resumes with one number.

    >>> [pick([1, 0, 1], seed=0, step=step) for step in range(6)]
    [2, 0, 2, 2, 0, 0]
    """
    sums = list(accumulate(weights))
    point = digest("pick", seed, step) / 2**64 * sums[-1]
    return next(i for i, upto in enumerate(sums) if point < upto)


def check_weights(weights: Sequence[float], sources: int) -> list[float]:
    """The weights as floats, or an error that says which one cannot be.

    >>> check_weights([1, 3], 2)
    [1.0, 3.0]
    >>> check_weights([0, 0], 2)
    Traceback (most recent call last):
    webdataset.errors.SpecError: the weights [0, 0] sum to 0 – give at least one source a weight above 0
    """
    if len(weights) != sources:
        raise SpecError(f"{len(weights)} weights for {sources} sources", hint="give one weight per source")
    numbers = [float(weight) for weight in weights]
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
