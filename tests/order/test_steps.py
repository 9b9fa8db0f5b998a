import pytest
from hypothesis import given, settings, strategies as st

from webdataset.errors import SpecError
from webdataset.order import Reader, Remaining, Steps, numbers_of

from .reference import part


def taken_by(steps, rank, worker, workers):
    """The numbers that a reader takes, in its order."""
    turns = len(steps.of_worker(worker, workers)) * steps.batch
    return numbers_of(Reader(rank, steps.ranks, worker, workers, steps.batch, 0), range(turns)).tolist()


def delivered(steps, workers):
    """Numbers in the order in which a loader returns them: step by step, rank by rank, workers in turn."""
    queues = {(r, w): taken_by(steps, r, w, workers) for r in range(steps.ranks) for w in range(workers)}
    numbers = []
    for step in range(len(steps)):
        for rank in range(steps.ranks):
            queue = queues[rank, step % workers]
            numbers += queue[: steps.batch]
            del queue[: steps.batch]
    assert not any(queues.values())
    return numbers


@given(st.integers(0, 200), st.integers(1, 6), st.integers(1, 5), st.integers(1, 4))
@settings(max_examples=200)
def test_every_number_once_in_order_with_padding_in_the_last_step_only(samples, batch, ranks, workers):
    steps = Steps(samples, batch, ranks)
    numbers = delivered(steps, workers)
    assert numbers == list(range(len(steps) * batch * ranks))
    assert 0 <= len(numbers) - samples < batch * ranks


@given(st.integers(1, 200), st.integers(1, 6), st.integers(1, 5), st.integers(1, 4))
def test_a_reader_takes_what_the_definition_says(samples, batch, ranks, workers):
    steps = Steps(samples, batch, ranks)
    for rank in range(ranks):
        for worker in range(workers):
            expected = [n for step in steps.of_worker(worker, workers) for n in part(step, rank, batch, ranks)]
            assert taken_by(steps, rank, worker, workers) == expected


def test_one_step_more_or_less_for_every_n_and_every_world():
    for batch in (1, 3):
        for ranks in range(1, 17):
            for samples in range(501):
                padded, dropped = len(Steps(samples, batch, ranks)), len(Steps(samples, batch, ranks, last="drop"))
                assert dropped * batch * ranks <= samples <= padded * batch * ranks
                assert padded - dropped == (samples % (batch * ranks) > 0)


@given(st.integers(0, 100), st.integers(1, 8))
def test_workers_take_turns(steps, workers):
    turns = [list(Steps(steps).of_worker(worker, workers)) for worker in range(workers)]
    asked_in_turn = [turns[step % workers][step // workers] for step in range(steps)]
    assert asked_in_turn == list(range(steps)) and sum(map(len, turns)) == steps


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


# 1,003 samples; no worker at all is one reader.
TOPOLOGIES = sorted({(ranks, max(1, workers)) for ranks in (1, 2, 3, 4, 6, 8) for workers in (0, 1, 2, 3)})


@pytest.mark.parametrize(("ranks", "workers"), TOPOLOGIES)
def test_any_stop_point_resumes_on_any_topology(ranks, workers):
    """A checkpoint is a position. So: every stop of this topology saves the number of samples done, and this topology
    goes on correctly from every position that any topology may have saved. Together these are all pairs."""
    for position in [*range(0, 1003, 97), 1001, 1002, 1003]:
        rest = Remaining(1003, position)
        steps = rest.steps(5, ranks, "pad")
        numbers = [number for number in delivered(steps, workers) if number < len(rest)]
        assert rest.positions(numbers).tolist() == list(range(position, 1003))
        for stop in {0, 1, len(steps) // 2, len(steps)}:
            readers = [
                Reader(rank, ranks, worker, workers, 5, 5 * len(range(worker, stop, workers)))
                for rank in range(ranks)
                for worker in range(workers)
            ]
            assert rest.after(readers) == Remaining(1003, min(position + stop * 5 * ranks, 1003))
