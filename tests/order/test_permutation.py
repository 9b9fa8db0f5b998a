from math import factorial, sqrt

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from webdataset.errors import SpecError
from webdataset.order import Permutation, derive_keys, permute

KEYS = st.integers(0, 2**64 - 1)


@given(st.integers(0, 3000), KEYS)
@settings(max_examples=60)
def test_every_thing_once(size, key):
    assert sorted(Permutation(size, key).table().tolist()) == list(range(size))


@given(st.integers(1, 2**62 - 1), KEYS, st.data())
def test_there_and_back_at_any_size(size, key, data):
    position = data.draw(st.integers(0, size - 1))
    order = Permutation(size, key)
    thing = order(position)
    assert 0 <= thing < size and order.inverse(thing) == position
    assert permute([position], size, key).tolist() == [thing]
    assert permute([thing], size, key, inverse=True).tolist() == [position]


@given(st.lists(st.tuples(st.integers(1, 10**12), KEYS, st.floats(0, 0.999)), min_size=1, max_size=30))
@settings(max_examples=50)
def test_many_permutations_at_once_are_the_single_ones(rows):
    sizes = [size for size, _, _ in rows]
    keys = np.array([key for _, key, _ in rows], dtype=np.uint64)
    positions = [int(size * where) for size, _, where in rows]
    expected = [Permutation(size, key)(position) for (size, key, _), position in zip(rows, positions)]
    assert permute(positions, sizes, keys).tolist() == expected
    assert permute(expected, sizes, keys, inverse=True).tolist() == positions


def test_numbers_are_pinned():
    """The order of everybody's epochs hangs on these: a change is a change of ORDER."""
    assert Permutation(10, 0).table().tolist() == [8, 5, 0, 2, 4, 1, 6, 9, 3, 7]
    assert [Permutation(10**12, 12345)(i) for i in range(3)] == [510578045054, 398649886643, 114039442242]
    assert Permutation(2**62 - 1, 2**64 - 1)(0) == 4373465042554237028


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
    table = Permutation(size, 7).table()
    assert abs(np.corrcoef(np.arange(size), table)[0, 1]) < 4 / sqrt(size)
    assert abs(np.corrcoef(table[:-1], table[1:])[0, 1]) < 4 / sqrt(size)
    distance = np.abs(np.diff(table)).mean() / size
    assert abs(distance - 1 / 3) < 0.02  # the mean distance of two random points of a line


def test_keys_next_to_each_other_give_unrelated_orders():
    tables = [Permutation(5000, key).table() for key in range(20)]
    same = [np.mean(a == b) for i, a in enumerate(tables) for b in tables[:i]]
    assert np.mean(same) < 5 / 5000 * 4


@pytest.mark.parametrize("wrong", [-1, 2**62])
def test_impossible_sizes(wrong):
    with pytest.raises(SpecError):
        Permutation(wrong, 0)


def test_positions_outside():
    for call in (Permutation(5, 0), Permutation(5, 0).inverse):
        for wrong in (-1, 5):
            with pytest.raises(IndexError):
                call(wrong)
    with pytest.raises(IndexError):
        permute([0, 5], 5, 0)
    assert permute([], 0, 0).tolist() == []
