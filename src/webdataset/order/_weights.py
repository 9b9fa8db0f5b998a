"""Weights of several sources: checked, and the source that a random number picks."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from itertools import accumulate
from math import isfinite

from webdataset.errors import SpecError


def pick(weights: Sequence[float], point: float) -> int:
    """Return the source for a point from 0 to 1, on a line divided among the sources by their weights.

    >>> [pick([1, 0, 1], point) for point in (0.0, 0.49, 0.5, 0.99)]
    [0, 0, 2, 2]
    """
    sums = list(accumulate(weights))
    # Rounding may put a point on the end of the line, which belongs to the last source with a weight above 0.
    return min(bisect_right(sums, point * sums[-1]), bisect_left(sums, sums[-1]))


def check_weights(weights: Sequence[float], sources: int) -> list[float]:
    """Return the weights as floats, or raise an error that says what is wrong with them.

    >>> check_weights([1, 3], 2)
    [1.0, 3.0]
    >>> check_weights([0, 0], 2)
    Traceback (most recent call last):
    webdataset.errors.SpecError: the weights [0, 0] sum to 0 – give at least one source a weight above 0
    """
    try:
        numbers = [float(weight) for weight in weights]
    except (TypeError, ValueError) as error:
        raise SpecError(f"expected a list of weights, got {weights!r:.100}") from error
    if len(numbers) != sources:
        raise SpecError(f"expected one weight for each of {sources} sources, got {len(numbers)}")
    if not all(isfinite(number) and number >= 0 for number in numbers):
        raise SpecError(f"expected finite weights of at least 0, got {list(weights)}")
    if sources and not any(numbers):
        raise SpecError(f"the weights {list(weights)} sum to 0", hint="give at least one source a weight above 0")
    return numbers
