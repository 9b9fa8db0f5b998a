from collections import Counter

import pytest

from webdataset.stages._random_draws import Draws


@pytest.mark.parametrize("step", [0, 1, 511, 512, 513, 1024, 5000])
def test_goes_on_from_any_step(step):
    draws = Draws(3)
    for _ in range(step):
        draws.below(10)
    assert draws.save() == step
    again = Draws(3)
    again.load(step)
    assert [again.below(1000) for _ in range(600)] == [draws.below(1000) for _ in range(600)]


def test_draws_are_even_over_the_borders_of_blocks():
    draws = Draws(1)
    counts = Counter(draws.below(4) for _ in range(8000))
    assert all(1800 < counts[number] < 2200 for number in range(4))


def test_the_sequence_is_pinned():
    """Another sequence would change the order of everybody's epochs: say so in the changelog (ORDER)."""
    draws = Draws(0)
    assert [draws.below(1000) for _ in range(6)] == [159, 171, 778, 420, 675, 200]
