"""A keyed permutation of 0 … n-1 that is computed, not stored: any element, either way, at any time.

A Feistel network over two digits: a number is written as (left, right) in mixed radix a x b, with a and b next to √n
and a·b ≥ n. A round adds to one digit a keyed hash of the other, modulo its radix, which can be undone. Where the
result is not below n (a·b exceeds n by about √n at most, so seldom) the network is applied again until it is: a walk
along a cycle that must come back below n. Both the scalar and the NumPy form use 64-bit arithmetic and give the same
numbers on every platform.

Not a cipher against an adversary: it shuffles data.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import isqrt
from typing import TYPE_CHECKING, Any

import numpy as np

from webdataset.errors import SpecError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

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


@dataclass(frozen=True, slots=True)
class Permutation:
    """One keyed order of `size` things.

    >>> order = Permutation(5, key=1)
    >>> [order(i) for i in range(5)]
    [1, 3, 0, 2, 4]
    >>> [order.inverse(order(i)) for i in range(5)]
    [0, 1, 2, 3, 4]
    """

    size: int
    key: int

    def __post_init__(self) -> None:
        if not 0 <= self.size < MAX_SIZE:
            raise SpecError(f"a permutation of {self.size} things is not possible", hint=f"0 … {MAX_SIZE - 1}")

    def __call__(self, position: int) -> int:
        """The thing at this position."""
        if not 0 <= position < self.size:
            raise IndexError(f"position {position} is not in 0 … {self.size - 1}")
        radix_a, radix_b = _radices(self.size)
        keys = tuple(round_keys(self.key))
        while True:
            position = _forward(position, radix_a, radix_b, keys)
            if position < self.size:
                return position

    def inverse(self, thing: int) -> int:
        """The position of this thing."""
        if not 0 <= thing < self.size:
            raise IndexError(f"thing {thing} is not in 0 … {self.size - 1}")
        radix_a, radix_b = _radices(self.size)
        keys = tuple(round_keys(self.key))
        while True:
            thing = _backward(thing, radix_a, radix_b, keys)
            if thing < self.size:
                return thing

    def table(self) -> NDArray[np.int64]:
        """The things at all positions.

        >>> Permutation(5, key=1).table()
        array([1, 3, 0, 2, 4])
        """
        return permute(np.arange(self.size), self.size, self.key)


def permute(positions: Any, sizes: Any, keys: Any, *, inverse: bool = False) -> NDArray[np.int64]:
    """Many at once; `sizes` and `keys` are one number each or one per position, so many permutations mix freely.

    >>> permute([0, 1, 2], 5, 1), permute([1, 0, 2], 5, 1, inverse=True)
    (array([1, 3, 0]), array([0, 2, 3]))
    """
    network = _backward_many if inverse else _forward_many
    todo = np.atleast_1d(np.asarray(positions, dtype=np.uint64)).copy()
    size = np.broadcast_to(np.asarray(sizes, dtype=np.uint64), todo.shape)
    if todo.size and not bool((todo < size).all()):
        raise IndexError("a position is outside its permutation")
    radix_a, radix_b = _radices_many(size)
    key = np.asarray(keys, dtype=np.uint64)
    result = network(todo, radix_a, radix_b, key)
    outside = np.flatnonzero(result >= size)
    while outside.size:
        again = key if key.ndim == 0 else key[outside]
        result[outside] = network(result[outside], radix_a[outside], radix_b[outside], again)
        outside = outside[result[outside] >= size[outside]]
    return result.astype(np.int64)


def derive_keys(key: int, numbers: NDArray[Any]) -> NDArray[np.uint64]:
    """A key of its own for every number, out of one key.

    >>> derive_keys(1, np.arange(2))
    array([12994781566227106604, 16572613472718614229], dtype=uint64)
    """
    return _mix_many(numbers.astype(np.uint64) * np.uint64(_WEYL) + np.uint64(key & _MASK))


def round_keys(key: int) -> Iterator[int]:
    """The keys of the rounds."""
    base = _mix(key & _MASK)
    for number in range(1, ROUNDS + 1):
        yield _mix((base + number * _WEYL) & _MASK)


def _round_keys_many(key: NDArray[np.uint64]) -> Iterator[Any]:
    if key.ndim == 0:
        yield from (np.uint64(each) for each in round_keys(int(key)))
        return
    base = _mix_many(key)
    for number in range(1, ROUNDS + 1):
        yield _mix_many(base + np.uint64(number * _WEYL & _MASK))


def _radices(size: int) -> tuple[int, int]:
    radix_a = isqrt(max(size, 1) - 1) + 1
    radix_a += radix_a % 2  # on odd x odd every round is an even permutation, and half of all orders would never come
    return radix_a, -(-max(size, 1) // radix_a)


def _radices_many(size: NDArray[np.uint64]) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
    if not size.size or bool((size == size.flat[0]).all()):
        radix_a, radix_b = _radices(int(size.flat[0])) if size.size else (1, 1)
        return np.full(size.shape, radix_a, np.uint64), np.full(size.shape, radix_b, np.uint64)
    distinct, which = np.unique(size, return_inverse=True)
    radices = np.array([_radices(int(each)) for each in distinct], dtype=np.uint64)
    return radices[which, 0], radices[which, 1]


def _mix(number: int) -> int:
    """64 bits to 64 well-mixed bits."""
    number = ((number ^ (number >> 33)) * _MIX_1) & _MASK
    number = ((number ^ (number >> 33)) * _MIX_2) & _MASK
    return number ^ (number >> 33)


def _mix_many(numbers: NDArray[np.uint64]) -> NDArray[np.uint64]:
    shift = np.uint64(33)
    numbers = (numbers ^ (numbers >> shift)) * np.uint64(_MIX_1)
    numbers = (numbers ^ (numbers >> shift)) * np.uint64(_MIX_2)
    return numbers ^ (numbers >> shift)


def _below(digit: int, key: int, radix: int) -> int:
    """A hash of a digit below the radix: the high half of a 32 x 32 bit product, which needs no division."""
    number = ((digit ^ key) * _MIX_1) & _MASK
    number = ((number ^ (number >> 32)) * _MIX_2) & _MASK
    return ((number >> 32) * radix) >> 32


def _below_many(digits: NDArray[np.uint64], key: Any, radix: NDArray[np.uint64]) -> NDArray[np.uint64]:
    half = np.uint64(32)
    numbers: NDArray[np.uint64] = (digits ^ key) * np.uint64(_MIX_1)
    numbers = (numbers ^ (numbers >> half)) * np.uint64(_MIX_2)
    return ((numbers >> half) * radix) >> half


def _forward(number: int, radix_a: int, radix_b: int, keys: tuple[int, ...]) -> int:
    left, right = divmod(number, radix_b)
    for even, odd in zip(keys[::2], keys[1::2], strict=True):
        left = (left + _below(right, even, radix_a)) % radix_a
        right = (right + _below(left, odd, radix_b)) % radix_b
    return left * radix_b + right


def _backward(number: int, radix_a: int, radix_b: int, keys: tuple[int, ...]) -> int:
    left, right = divmod(number, radix_b)
    for even, odd in zip(reversed(keys[::2]), reversed(keys[1::2]), strict=True):
        right = (right - _below(left, odd, radix_b)) % radix_b
        left = (left - _below(right, even, radix_a)) % radix_a
    return left * radix_b + right


def _forward_many(
    numbers: NDArray[np.uint64], radix_a: NDArray[np.uint64], radix_b: NDArray[np.uint64], key: NDArray[np.uint64]
) -> NDArray[np.uint64]:
    left, right = np.divmod(numbers, radix_b)
    keys = _round_keys_many(key)
    for even, odd in zip(keys, keys, strict=True):
        left += _below_many(right, even, radix_a)
        left -= radix_a * (left >= radix_a)
        right += _below_many(left, odd, radix_b)
        right -= radix_b * (right >= radix_b)
    return left * radix_b + right


def _backward_many(
    numbers: NDArray[np.uint64], radix_a: NDArray[np.uint64], radix_b: NDArray[np.uint64], key: NDArray[np.uint64]
) -> NDArray[np.uint64]:
    left, right = np.divmod(numbers, radix_b)
    keys = list(_round_keys_many(key))
    for even, odd in zip(reversed(keys[::2]), reversed(keys[1::2]), strict=True):
        right += radix_b - _below_many(left, odd, radix_b)
        right -= radix_b * (right >= radix_b)
        left += radix_a - _below_many(right, even, radix_a)
        left -= radix_a * (left >= radix_a)
    return left * radix_b + right
