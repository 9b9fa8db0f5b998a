import json

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from webdataset.errors import SpecError, StateError
from webdataset.order import MixSchedule

WEIGHTS = st.lists(st.floats(0, 1).map(lambda x: x**4), min_size=1, max_size=12).filter(lambda w: sum(w) > 1e-6)


def draws(schedule, count):
    return np.array([schedule.draw() for _ in range(count)])


def counted(sequence, sources):
    return np.stack([np.concatenate(([0], np.cumsum(sequence == source))) for source in range(sources)])


@given(WEIGHTS)
@settings(max_examples=60, deadline=None)
def test_every_window_of_1000_has_every_share_within_one_sample(weights):
    counts = counted(draws(MixSchedule(weights), 4500), len(weights))
    shares = 1000 * np.array(weights)[:, None] / sum(weights)
    deviation = np.abs(counts[:, 1000:] - counts[:, :-1000] - shares)
    assert deviation.max() < 1 + 1e-6


@given(WEIGHTS)
@settings(max_examples=30, deadline=None)
def test_no_source_falls_behind_in_the_long_run(weights):
    counts = counted(draws(MixSchedule(weights), 12_000), len(weights))
    shares = np.array(weights)[:, None] / sum(weights) * np.arange(12_001)
    assert np.abs(counts - shares).max() < 4


def test_a_source_of_one_in_ten_thousand_is_drawn():
    sequence = draws(MixSchedule([9999, 1]), 100_000)
    assert 9 <= (sequence == 1).sum() <= 11


def test_neighbours_alternate_for_equal_weights():
    assert draws(MixSchedule([1, 1]), 10).tolist() == [0, 1] * 5


def test_D53_weight_zero_is_never_drawn():
    assert set(draws(MixSchedule([1, 0, 2]), 5000).tolist()) == {0, 2}


@given(WEIGHTS, st.integers(0, 2500), st.lists(st.integers(0, 2500), max_size=3), st.data())
@settings(max_examples=40, deadline=None)
def test_resumes_anywhere_through_json_across_weight_changes(weights, stop, changes, data):
    new = [data.draw(st.lists(st.floats(0.01, 1), min_size=len(weights), max_size=len(weights))) for _ in changes]

    def run(schedule, start, count):
        out = []
        for step in range(start, start + count):
            for when, to in zip(changes, new):
                if when == step:
                    schedule.reweight(to)
            out.append(schedule.draw())
        return out

    whole = run(MixSchedule(weights), 0, 3000)
    first = MixSchedule(weights)
    head = run(first, 0, stop)
    again = MixSchedule.load(json.loads(json.dumps(first.save())))
    assert head + run(again, stop, 3000 - stop) == whole


@pytest.mark.parametrize("every", [1, 2, 7, 60, 333])
def test_weights_that_change_all_the_time_are_followed(every):
    rng = np.random.default_rng(every)
    schedule, target, got, worst = MixSchedule([1] * 5), np.zeros(5), np.zeros(5), 0.0
    weights = np.ones(5)
    for step in range(4000):
        if step % every == 0:
            weights = rng.random(5) ** 4
            weights[0] = 1e-3 * weights.sum()
            schedule.reweight(weights.tolist())
        target += weights / weights.sum()
        got[schedule.draw()] += 1
        worst = max(worst, np.abs(target - got).max())
    assert worst < 5 and got[0] >= 3  # about 4 are due


def test_dropping_an_exhausted_source():
    schedule = MixSchedule([1, 1, 2])
    draws(schedule, 7)
    assert schedule.drop(2) and set(draws(schedule, 100).tolist()) == {0, 1}
    assert schedule.drop(0) and set(draws(schedule, 100).tolist()) == {1}
    assert not schedule.drop(1)
    assert schedule.weights == (0.0, 1.0, 0.0)


def test_the_state_is_small():
    schedule = MixSchedule(list(range(1, 21)))
    draws(schedule, 12_345)
    assert len(json.dumps(schedule.save())) < 2000


@pytest.mark.parametrize("wrong", [[0, 0], [-1, 2], [float("nan")], [float("inf"), 1]])
def test_impossible_weights(wrong):
    with pytest.raises(SpecError, match="weights"):
        MixSchedule(wrong)
    schedule = MixSchedule([1] * len(wrong))
    with pytest.raises(SpecError):
        schedule.reweight(wrong)
    with pytest.raises(SpecError):
        schedule.reweight([1] * (len(wrong) + 1))


def test_foreign_states_are_refused():
    for wrong in ({}, {"weights": [1]}, {**MixSchedule([1, 2]).save(), "counts": None}):
        with pytest.raises(StateError):
            MixSchedule.load(wrong)


def test_the_sequence_is_pinned():
    assert "".join(map(str, draws(MixSchedule([5, 3, 2]), 30))) == "012001021001200102100120010210"
