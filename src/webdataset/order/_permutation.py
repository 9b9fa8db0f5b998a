"""A keyed permutation of 0 … n-1 that is computed, not stored: any element at any time.

A Feistel network over two digits: a number is written as (left, right) in mixed radix a x b, with a and b next to √n
and a·b ≥ n. A round adds to one digit a keyed hash of the other, modulo its radix, which can be undone; so each round
is a permutation. If the result is not below n (a·b exceeds n by about √n at most, so seldom) the network is applied
again until it is: it follows a cycle that returns below n. The arithmetic has 64 bits and gives the same numbers on
every platform.

Not a cipher against an adversary: it shuffles data.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import isqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Words = NDArray[np.uint64]

# Sizes below this fit two 32-bit digits, which is what the multiply-high in `_below` needs.
MAX_SIZE = 1 << 62
# Over 200,000 keys, all orders of 3 … 9 things are equally frequent (chi-square) from 18 rounds on; at 16 the 4 x 2
# grid of 7 and 8 things still shows. Large sizes would do with 8. A million positions take about 0.2 s.
ROUNDS = 20

_MASK = (1 << 64) - 1
# Odd 64-bit constants of well-known mixers: the golden ratio (Weyl sequence) and the two of murmur3's finaliser.
_WEYL = 0x9E3779B97F4A7C15
_MIX_1 = 0xFF51AFD7ED558CCD
_MIX_2 = 0xC4CEB9FE1A85EC53


def permutation(size: int, key: int) -> Ints:
    """All of 0 … size-1 in the order of this key.

    >>> permutation(5, key=1)
    array([1, 3, 0, 2, 4])
    """
    return permute(np.arange(size), size, key)


def permute(positions: Any, sizes: Any, keys: Any) -> Ints:
    """Many positions at once. `sizes` and `keys` are one number each, or one per position for many permutations.

    >>> permute([0, 1, 2], 5, 1)
    array([1, 3, 0])
    """
    todo = np.atleast_1d(np.asarray(positions, dtype=np.uint64))
    size = np.broadcast_to(np.asarray(sizes, dtype=np.uint64), todo.shape)
    if todo.size and not (bool((todo < size).all()) and int(size.max()) < MAX_SIZE):
        raise IndexError(f"expected positions inside of their permutations, and these smaller than {MAX_SIZE}")
    radix_a, radix_b = _radices_many(size)
    key = np.atleast_1d(np.asarray(keys, dtype=np.uint64))
    result = _network(todo, radix_a, radix_b, key)
    outside = np.flatnonzero(result >= size)
    while outside.size:
        again = key if len(key) == 1 else key[outside]
        result[outside] = _network(result[outside], radix_a[outside], radix_b[outside], again)
        outside = outside[result[outside] >= size[outside]]
    return result.astype(np.int64)


def derive_keys(key: int, numbers: NDArray[Any]) -> Words:
    """A key of its own for every number, out of one key.

    >>> derive_keys(1, np.arange(2))
    array([12994781566227106604, 16572613472718614229], dtype=uint64)
    """
    return _mix(numbers.astype(np.uint64) * np.uint64(_WEYL) + np.uint64(key & _MASK))


def _round_keys(key: Words) -> Iterator[Any]:
    base, steps = _mix(key), np.arange(1, ROUNDS + 1, dtype=np.uint64) * np.uint64(_WEYL)
    if len(key) == 1:  # all rounds at once: half of the time of 64 positions
        return iter(_mix(base + steps))
    return (_mix(base + step) for step in steps)


def _radices(size: int) -> tuple[int, int]:
    radix_a = isqrt(max(size, 1) - 1) + 1
    radix_a += radix_a % 2  # on odd x odd every round is an even permutation, and half of all orders would never come
    return radix_a, -(-max(size, 1) // radix_a)


def _radices_many(size: Words) -> tuple[Words, Words]:
    if not size.size or bool((size == size.flat[0]).all()):
        radix_a, radix_b = _radices(int(size.flat[0])) if size.size else (1, 1)
        return np.full(size.shape, radix_a, np.uint64), np.full(size.shape, radix_b, np.uint64)
    distinct, which = np.unique(size, return_inverse=True)
    radices = np.array([_radices(int(each)) for each in distinct], dtype=np.uint64)
    return radices[which, 0], radices[which, 1]


def _mix(numbers: Words) -> Words:
    """64 bits to 64 well-mixed bits."""
    shift = np.uint64(33)
    numbers = (numbers ^ (numbers >> shift)) * np.uint64(_MIX_1)
    numbers = (numbers ^ (numbers >> shift)) * np.uint64(_MIX_2)
    return numbers ^ (numbers >> shift)


def _below(digits: Words, key: Any, radix: Words) -> Words:
    """Hashes of digits below the radix: the high half of a 32 x 32 bit product, which needs no division."""
    half = np.uint64(32)
    numbers: Words = (digits ^ key) * np.uint64(_MIX_1)
    numbers = (numbers ^ (numbers >> half)) * np.uint64(_MIX_2)
    return ((numbers >> half) * radix) >> half


def _network(numbers: Words, radix_a: Words, radix_b: Words, key: Words) -> Words:
    left, right = np.divmod(numbers, radix_b)
    keys = _round_keys(key)
    for even, odd in zip(keys, keys, strict=True):
        left += _below(right, even, radix_a)
        left -= radix_a * (left >= radix_a)
        right += _below(left, odd, radix_b)
        right -= radix_b * (right >= radix_b)
    return left * radix_b + right
