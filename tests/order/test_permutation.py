from math import factorial, sqrt

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from webdataset.order import derive_keys, permutation, permute

from .reference import permuted, position_of

KEYS = st.integers(0, 2**64 - 1)


@given(st.integers(0, 3000), KEYS)
@settings(max_examples=60)
def test_every_number_once(size, key):
    assert sorted(permutation(size, key).tolist()) == list(range(size))


@given(st.integers(1, 2**62 - 1), KEYS, st.data())
def test_any_size_is_a_permutation(size, key, data):
    position = data.draw(st.integers(0, size - 1))
    (thing,) = permute([position], size, key).tolist()
    assert thing == permuted(position, size, key)
    assert 0 <= thing < size and position_of(thing, size, key) == position


@given(st.lists(st.tuples(st.integers(1, 10**12), KEYS, st.floats(0, 0.999)), min_size=1, max_size=30))
@settings(max_examples=50)
def test_many_permutations_at_once_are_the_single_ones(rows):
    sizes = [size for size, _, _ in rows]
    keys = np.array([key for _, key, _ in rows], dtype=np.uint64)
    positions = [int(size * where) for size, _, where in rows]
    expected = [permuted(position, size, key) for (size, key, _), position in zip(rows, positions)]
    assert permute(positions, sizes, keys).tolist() == expected


def test_numbers_are_pinned():
    """All epochs of all users depend on these numbers: a change here changes the order and needs a changelog entry."""
    assert permutation(10, 0).tolist() == [8, 5, 0, 2, 4, 1, 6, 9, 3, 7]
    assert permute(range(3), 10**12, 12345).tolist() == [510578045054, 398649886643, 114039442242]
    assert permute([0], 2**62 - 1, 2**64 - 1).tolist() == [4373465042554237028]


@pytest.mark.parametrize("size", [2, 3, 4, 5, 6, 7])
def test_all_orders_of_few_things_are_equally_likely(size):
    trials = 60_000
    keys = derive_keys(size, np.arange(trials)).repeat(size)
    orders = permute(np.tile(np.arange(size), trials), size, keys).reshape(trials, size)
    counts = np.unique((orders * 10 ** np.arange(size)).sum(1), return_counts=True)[1]
    assert len(counts) == factorial(size)
    expected = trials / len(counts)
    chi_square, freedom = ((counts - expected) ** 2 / expected).sum(), len(counts) - 1
    assert (chi_square - freedom) / sqrt(2 * freedom) < 4


@pytest.mark.parametrize("size", [1000, 123_457])
def test_neighbours_are_torn_apart(size):
    table = permutation(size, 7)
    assert abs(np.corrcoef(np.arange(size), table)[0, 1]) < 4 / sqrt(size)
    assert abs(np.corrcoef(table[:-1], table[1:])[0, 1]) < 4 / sqrt(size)
    distance = np.abs(np.diff(table)).mean() / size
    assert abs(distance - 1 / 3) < 0.02  # the mean distance of two random points of a line


def test_keys_next_to_each_other_give_unrelated_orders():
    tables = [permutation(5000, key) for key in range(20)]
    same = [np.mean(a == b) for i, a in enumerate(tables) for b in tables[:i]]
    assert np.mean(same) < 5 / 5000 * 4


@pytest.mark.parametrize(("position", "size"), [(0, 2**62), (0, 0), (5, 5)])
def test_impossible_positions_and_sizes(position, size):
    with pytest.raises(IndexError):
        permute([position], size, 0)


def test_no_positions():
    assert permute([], 0, 0).tolist() == []
