"""Which functions run on threads, how many threads there are, and that neither changes what comes out."""

import math
import threading

import pytest

import webdataset as wds
from webdataset.errors import SpecError
from webdataset.loader import _thread_choice
from webdataset.loader._thread_choice import ThreadChoice, TimedCalls, available_processors
from webdataset.pipeline import DataPipeline

from .sources import numbers, threads


@pytest.fixture
def everything_is_cheap(monkeypatch):
    monkeypatch.setattr(_thread_choice, "_WORTH_SECONDS", math.inf)


@pytest.fixture
def nothing_is_cheap(monkeypatch):
    monkeypatch.setattr(_thread_choice, "_WORTH_SECONDS", 0.0)


@pytest.fixture
def restless(monkeypatch):
    """Functions go to threads and back again all the time."""
    monkeypatch.setattr(_thread_choice, "_WORTH_SECONDS", math.inf)
    monkeypatch.setattr(_thread_choice, "_CHUNKS", 1)
    calls = iter(range(10**9))
    monkeypatch.setattr(TimedCalls, "costly", property(lambda self: next(calls) % 3 == 2))


def where(_):
    return threading.current_thread().name.split("_")[0]


def test_cheap_functions_move_to_the_thread_that_reads(everything_is_cheap):
    ran = list(threads(numbers(200).map(where), 2))
    assert ran == sorted(ran, reverse=True)  # first on the pool, then ahead
    assert set(ran) == {"webdataset-pool", "webdataset-ahead"}


def test_costly_functions_stay_on_threads(nothing_is_cheap):
    assert set(threads(numbers(200).map(where), 2)) == {"webdataset-pool"}


def leave_out(number):
    return None if number % 7 == 3 else number


@pytest.mark.parametrize("shuffled", [False, True])
@pytest.mark.parametrize("wanted", [1, 3, "auto"])
def test_the_same_comes_out_and_is_resumed_while_functions_move(restless, wanted, shuffled):
    """Mutation: forget to clear `handed` when functions leave the threads, or take an item and drop it."""

    def build(wanted):
        dataset = numbers(40).map(leave_out).map(lambda number: number)
        return threads(dataset.shuffle(5) if shuffled else dataset, wanted)

    whole = list(build(0))
    loader, taken, states = build(wanted), [], []
    for item in loader:
        taken.append(item)
        states.append(loader.state_dict())
    assert taken == whole
    for number in range(0, len(states), 6):
        again = build(wanted)
        again.load_state_dict(states[number])
        assert list(again) == whole[number + 1 :]


@pytest.mark.parametrize("bad", [0, 1, 17, 40, 59])
def test_a_failure_comes_in_its_turn_wherever_the_functions_run(restless, bad):
    def fragile(number):
        if number == bad and broken:
            raise ZeroDivisionError
        return number

    broken, taken = True, []
    loader = threads(numbers(60).map(fragile), 2)
    with pytest.raises(ZeroDivisionError):
        taken.extend(loader)
    assert taken == list(range(bad))
    broken = False
    again = threads(numbers(60).map(fragile), 2)
    again.load_state_dict(loader.state_dict())
    assert taken + list(again) == list(range(60))


def test_a_handler_that_stops_ends_the_stream_wherever_the_functions_run(restless):
    for bad in range(0, 60, 7):
        dataset = numbers(60).map(lambda number, bad=bad: 1 // (number - bad) and number, handler=lambda error: False)
        assert list(threads(dataset, 2)) == list(numbers(60))[:bad]


def test_an_iterator_is_not_asked_again_after_its_end(restless):
    class Once:
        ended = False

        def __iter__(self):
            return self

        left = 10

        def __next__(self):
            assert not self.ended
            self.left -= 1
            self.ended = self.left < 0
            if self.ended:
                raise StopIteration
            return self.left

    assert len(list(threads(DataPipeline(Once(), wds.map(abs)), 2))) == 10


def test_functions_that_wait_get_more_threads_if_the_number_is_left_open():
    choice = ThreadChoice("auto")
    assert choice.threads == available_processors()
    found = [choice.note(calls=1, seconds=1.0, on_processor=0.001) for _ in range(100)]
    assert choice.threads == 32 and any(found) and not found[-1]
    assert "wait for 100% of their time" in choice.reason
    fixed = ThreadChoice(2)
    assert not any(fixed.note(calls=1, seconds=1.0, on_processor=0.001) for _ in range(100))
    assert fixed.threads == 2


def test_functions_that_compute_keep_their_threads():
    choice = ThreadChoice("auto")
    assert not any(choice.note(calls=1, seconds=1.0, on_processor=0.9) for _ in range(100))
    assert choice.threads == available_processors()


def test_one_slow_chunk_among_cheap_ones_is_enough_to_stay():
    choice = ThreadChoice(2)
    assert not any(choice.note(10, seconds, seconds) for seconds in (1e-5, 1e-5, 1e-5, 1.0))
    assert [choice.note(10, 1e-5, 1e-5) for _ in range(4)] == [False, False, False, True]


def test_slow_calls_are_noticed_and_a_single_one_is_not(monkeypatch):
    clock = [0.0]
    monkeypatch.setattr(_thread_choice.time, "perf_counter", lambda: clock[0])

    def take(seconds):
        clock[0] += seconds

    calls = TimedCalls(take)
    for _ in range(100):
        calls(1e-6)
    calls(1.0)
    for _ in range(100):
        calls(1e-6)
    assert not calls.costly
    for _ in range(100):
        calls(1.0)
    assert calls.costly


def test_stats_say_what_was_chosen(everything_is_cheap):
    loader = threads(numbers(300).map(abs), "auto")
    assert len(list(loader)) == 300
    assert loader.stats().choice.startswith("0 threads: a call takes ")
    assert loader.stats().choice in str(loader.stats())
    loader = threads(numbers(300), 2)
    list(loader)
    assert loader.stats().choice.startswith("0 threads: there are no functions")


def test_dropped_items_stay_dropped(restless):
    assert list(threads(numbers(60).compose(wds.select(lambda number: number % 4)), 2)) == [
        number for number in range(60) if number % 4
    ]


@pytest.mark.parametrize("wanted", ["many", -1, 1.5, True])
def test_other_words_are_refused(wanted):
    with pytest.raises(SpecError, match="num_workers"):
        threads(numbers(3), wanted)
