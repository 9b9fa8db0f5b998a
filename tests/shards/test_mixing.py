import random

import numpy as np
import pytest

from webdataset.errors import SpecError
from webdataset.order import pick
from webdataset.shards import compute_sample_weights, random_samples, round_robin_longest, round_robin_shortest


def test_round_robin():
    assert list(round_robin_shortest([1, 2, 3], [4, 5])) == [1, 4, 2, 5, 3]
    assert list(round_robin_longest([1, 2, 3], [4], [5, 6])) == [1, 4, 5, 2, 6, 3]
    assert list(round_robin_longest(range(2), np.arange(3))) == [0, 0, 1, 1, 2]


def test_D53_no_sources_give_an_empty_stream():
    assert list(round_robin_shortest()) == list(round_robin_longest()) == list(random_samples([])) == []


def test_D53_weight_zero_is_never_drained():
    assert list(random_samples(["aaa", "bbb"], [1, 0], longest=True)) == ["a"] * 3
    assert list(random_samples(["aaa", "bbb"], [0, 1], longest=True)) == ["b"] * 3


def test_longest_gives_everything_and_shortest_stops():
    everything = list(random_samples(["a" * 20, "b" * 5], longest=True))
    assert sorted(everything) == sorted("a" * 20 + "b" * 5)
    short = list(random_samples(["a" * 20, "b" * 5]))
    assert short == everything[: len(short)] and len(short) < 25


def test_D52_private_and_reproducible():
    random.seed(0)
    before = random.getstate()
    first = list(random_samples(["a" * 50, "b" * 50]))
    assert random.getstate() == before and first == list(random_samples(["a" * 50, "b" * 50]))
    assert first != list(random_samples(["a" * 50, "b" * 50], rng=random.Random(1)))


def test_probabilities_are_followed():
    rng = random.Random(3)
    counts = np.bincount([pick([1, 0, 3], rng.random()) for _ in range(20_000)], minlength=3)
    assert counts[1] == 0 and abs(counts[2] / 20_000 - 0.75) < 0.02


def test_a_point_at_the_end_falls_on_the_last_source_with_weight():
    assert pick([0.1, 0.2, 0.0], 1.0) == 1 and pick([0.0, 0.3], 0.0) == 1


@pytest.mark.parametrize("wrong", [[0, 0], [1], [1, -1], [1, float("nan")]])
def test_impossible_probabilities(wrong):
    with pytest.raises(SpecError):
        list(random_samples(["a", "b"], wrong))


def test_sample_weights():
    assert compute_sample_weights([(100, 1), (10, 2)]).tolist() == [1.0, 0.2]
