import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from webdataset.errors import SpecError, StateError
from webdataset.order import Steps


def all_parts(steps):
    return [[steps.part(step, rank) for rank in range(steps.ranks)] for step in range(len(steps))]


def test_weights_sum_to_n_for_every_n_and_every_world():
    """N in 1..500 x world 1..16 x batch 1 and 3, all of it; only the last step can hold padding."""
    for batch in (1, 3):
        for ranks in range(1, 17):
            for samples in range(1, 501):
                steps = Steps(samples, batch, ranks)
                last = len(steps) - 1
                weights = sum(steps.part(last, rank).weights.sum() for rank in range(ranks))
                assert last * batch * ranks + weights == samples and 0 < weights <= batch * ranks
                if last:
                    assert steps.part(last - 1, ranks - 1).weights.all()


@given(st.integers(1, 60), st.integers(1, 5), st.integers(1, 5), st.data())
@settings(max_examples=200)
def test_every_position_exactly_once_whatever_came_before(samples, batch, ranks, data):
    start = data.draw(st.integers(0, samples))
    parts = [part for row in all_parts(Steps(samples, batch, ranks, start)) for part in row]
    real = [p for part in parts for p, w in zip(part.positions.tolist(), part.weights.tolist()) if w]
    assert real == list(range(start, samples))
    assert all(
        len(part.positions) == batch and (0 <= part.positions).all() and (part.positions < samples).all()
        for part in parts
    )


@given(st.integers(1, 60), st.integers(1, 4), st.integers(1, 4), st.integers(1, 4), st.integers(1, 4), st.data())
@settings(max_examples=200)
def test_stopping_and_going_on_with_another_world_changes_nothing(samples, batch, ranks, batch2, ranks2, data):
    before = Steps(samples, batch, ranks)
    stop = data.draw(st.integers(0, len(before)))
    done = [p for row in all_parts(before)[:stop] for part in row for p, w in zip(part.positions, part.weights) if w]
    after = Steps(samples, batch2, ranks2, start=before.after(stop - 1) if stop else 0)
    rest = [p for row in all_parts(after) for part in row for p, w in zip(part.positions, part.weights) if w]
    assert done + rest == list(range(samples))


@given(st.integers(0, 200), st.integers(1, 7), st.integers(1, 5))
def test_dropping_keeps_whole_steps_only(samples, batch, ranks):
    steps = Steps(samples, batch, ranks, last="drop")
    parts = [part for row in all_parts(steps) for part in row]
    assert not any(part.padding.any() for part in parts)
    assert [p for part in parts for p in part.positions] == list(range(samples // (batch * ranks) * batch * ranks))


@given(st.integers(0, 100), st.integers(1, 8))
def test_workers_take_turns(steps, workers):
    plan = Steps(steps)
    turns = [list(plan.of_worker(worker, workers)) for worker in range(workers)]
    asked_in_turn = [turns[step % workers][step // workers] for step in range(steps)]
    assert asked_in_turn == list(range(steps)) and sum(map(len, turns)) == steps


def test_one_shard_of_one_sample_on_eight_ranks():
    parts = all_parts(Steps(1, 4, 8))
    assert len(parts) == 1 and sum(part.weights.sum() for part in parts[0]) == 1


def test_impossible_plans():
    for wrong in (
        {"samples": -1},
        {"samples": 1, "batch": 0},
        {"samples": 1, "ranks": 0},
        {"samples": 1, "last": "guess"},
    ):
        with pytest.raises(SpecError):
            Steps(**wrong)
    with pytest.raises(SpecError):
        Steps(4).of_worker(2, 2)
    for step, rank in ((3, 0), (-1, 0), (0, 1)):
        with pytest.raises(IndexError):
            Steps(3).part(step, rank)


@pytest.mark.parametrize("start", [-1, 11])
def test_resuming_past_the_end_is_refused(start):
    with pytest.raises(StateError, match="10 samples"):
        Steps(10, start=start)


# 1,003 samples; no worker at all is one reader.
TOPOLOGIES = sorted({(ranks, max(1, workers)) for ranks in (1, 2, 3, 4, 6, 8) for workers in (0, 1, 2, 3)})


def delivered(steps, workers):
    """Positions in the order in which a loader hands them out: step by step, rank by rank, workers asked in turn."""
    turns = [iter(steps.of_worker(worker, workers)) for worker in range(workers)]
    rows = []
    for step in range(len(steps)):
        assert next(turns[step % workers]) == step
        rows += [steps.part(step, rank) for rank in range(steps.ranks)]
    return [p for part in rows for p, pad in zip(part.positions.tolist(), part.padding.tolist()) if not pad]


@pytest.mark.parametrize(("ranks", "workers"), TOPOLOGIES)
def test_any_stop_point_resumes_on_any_topology(ranks, workers):
    """A checkpoint is a position. So: every stop of this topology saves the number of samples done, and this topology
    goes on correctly from every position that any topology may have saved. Together these are all pairs."""
    steps = Steps(1003, 5, ranks)
    assert delivered(steps, workers) == list(range(1003))
    assert [steps.after(step) for step in range(len(steps))] == [
        min((s + 1) * 5 * ranks, 1003) for s in range(len(steps))
    ]
    for position in [*range(0, 1003, 97), 1001, 1002, 1003]:
        assert delivered(Steps(1003, 5, ranks, start=position), workers) == list(range(position, 1003))
