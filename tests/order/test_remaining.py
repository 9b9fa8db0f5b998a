import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from webdataset.errors import StateError
from webdataset.order import Reader, Remaining

from .reference import part


def sequence(rest, rank, ranks, worker, workers, batch):
    """What one reader takes, in its order: the definition, step by step."""
    steps = rest.steps(batch, ranks, "pad")
    for step in steps.of_worker(worker, workers):
        for number in part(step, rank, batch, ranks):
            padding = number >= len(rest)
            yield None if padding else int(rest.positions([number])[0]), padding


@st.composite
def rests(draw):
    samples = draw(st.integers(0, 60))
    edges = sorted(draw(st.lists(st.integers(0, samples), max_size=5, unique=True)))
    position = edges.pop(0) if edges else 0
    spans = [(a, b) for a, b in zip(edges[::2], edges[1::2], strict=False) if a > position]
    return Remaining(samples, position, tuple(spans))


@given(rests())
def test_positions_are_those_that_are_not_done(rest):
    done = set(range(rest.position)) | {p for a, b in rest.also for p in range(a, b)}
    assert rest.positions(np.arange(len(rest))).tolist() == [p for p in range(rest.samples) if p not in done]


@settings(deadline=None)
@given(rests(), st.integers(1, 4), st.integers(1, 3), st.integers(1, 5), st.data())
def test_what_readers_took_is_done_and_nothing_else(rest, ranks, workers, batch, data):
    done, taken = set(), []
    for rank in range(ranks):
        for worker in range(workers):
            mine = list(sequence(rest, rank, ranks, worker, workers, batch))
            count = data.draw(st.integers(0, len(mine)))
            taken.append(Reader(rank, ranks, worker, workers, batch, count))
            done |= {position for position, padding in mine[:count] if not padding}
    after = rest.after(taken)
    assert Remaining.from_json(json.loads(json.dumps(after.to_json()))) == after
    left = after.positions(np.arange(len(after))).tolist()
    before = rest.positions(np.arange(len(rest))).tolist()
    assert left == [position for position in before if position not in done]


def test_readers_in_step_leave_one_number():
    taken = [Reader(rank, 3, worker, 2, 4, 8) for rank in range(3) for worker in range(2)]
    assert Remaining(1000).after(taken) == Remaining(1000, position=48)


@pytest.mark.parametrize("wrong", [(5, 6), (5, -1), (9, 3, ((2, 4),)), (9, 3, ((5, 4),)), (9, 3, ((5, 12),))])
def test_impossible_rests_are_refused(wrong):
    with pytest.raises(StateError, match="malformed checkpoint"):
        Remaining(*wrong)
