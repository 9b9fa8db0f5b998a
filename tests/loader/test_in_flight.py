"""Where items came from while they are in flight on threads, or were when a checkpoint was saved."""

import json

import pytest

import webdataset as wds
from webdataset.loader import _thread_choice, _thread_pool
from webdataset.pipeline import DataPipeline

from .sources import numbers, threads

ON_THREADS, IN_PLACE = 0.0, float("inf")  # from how many seconds on a function goes to threads


def use(monkeypatch, expensive, chunk=128):
    monkeypatch.setattr(_thread_choice, "_EXPENSIVE", expensive)
    monkeypatch.setattr(_thread_choice, "_TRIAL", float("inf"))
    monkeypatch.setattr(_thread_pool, "_LARGEST_CHUNK", chunk)


def states_of(loader):
    """The items, and the state after each."""
    items, states = [], []
    for item in loader:
        items.append(item)
        states.append(json.dumps(loader.state_dict()))
    return items, states


@pytest.mark.parametrize("then", [IN_PLACE, ON_THREADS], ids=["in place", "on threads"])
def test_a_run_that_was_resumed_with_items_in_flight_saves_where_its_items_came_from(monkeypatch, then):
    """Mutation: go on in place with the origin of the last item that was in flight."""

    def build():
        return threads(numbers(24).map(abs).shuffle(4), 2)

    use(monkeypatch, ON_THREADS, chunk=2)
    whole, states = states_of(build())
    use(monkeypatch, then, chunk=2)
    for number in range(0, len(whole), 5):
        resumed = build()
        resumed.load_state_dict(json.loads(states[number]))
        rest, later = states_of(resumed)
        assert rest == whole[number + 1 :]
        for taken, state in enumerate(later, number + 2):
            again = build()
            again.load_state_dict(json.loads(state))
            assert list(again) == whole[taken:], (number, taken)


@pytest.mark.parametrize("expensive", [IN_PLACE, ON_THREADS], ids=["in place", "on threads"])
def test_an_item_of_unknown_origin_does_not_get_that_of_another(monkeypatch, expensive):
    """Mutation: ask upstream where the origin of an item in flight is not known."""
    use(monkeypatch, expensive, chunk=1)

    def generated():
        yield from (100, 101)

    def build():
        mixed = wds.RoundRobin([numbers(14), DataPipeline(generated)], longest=True)
        return threads(DataPipeline(mixed, wds.map(abs), wds.shuffle(6)), 1)

    whole, states = states_of(build())
    for taken, state in enumerate(states, 1):
        resumed = build()
        resumed.load_state_dict(json.loads(state))
        assert list(resumed) == whole[taken:], taken


@pytest.mark.parametrize("count", range(4))
def test_a_stream_may_end_before_an_item_was_timed(monkeypatch, count):
    monkeypatch.setattr(_thread_choice, "_TRIAL", 0.0)
    monkeypatch.setattr(_thread_choice, "_EXPENSIVE", 5e-4)
    assert list(threads(numbers(count).map(abs), 2)) == list(range(count))
