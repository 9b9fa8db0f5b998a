"""Which functions run on threads, how many threads there are, and that neither changes what comes out."""

import pytest

import webdataset as wds
from webdataset.errors import SpecError
from webdataset.loader import _thread_pool
from webdataset.loader._thread_choice import ThreadChoice, available_processors
from webdataset.pipeline import DataPipeline

from .sources import numbers, threads


@pytest.fixture
def restless(monkeypatch):
    """The number of threads is another one after every chunk."""
    given = iter(range(10**9))

    def note(self, seconds, on_processor):
        self.threads = 1 + next(given) % 3
        return True

    monkeypatch.setattr(ThreadChoice, "note", note)


def leave_out(number):
    return None if number % 7 == 3 else number


@pytest.mark.parametrize("shuffled", [False, True])
@pytest.mark.parametrize("wanted", [1, 3, "auto"])
def test_the_same_comes_out_and_is_resumed_while_the_number_changes(restless, wanted, shuffled):
    """Mutation: leave a pool before its chunks are handed on."""

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
def test_a_failure_comes_in_its_turn_for_any_number(restless, bad):
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


def test_a_handler_that_stops_ends_the_stream_for_any_number(restless):
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
    found = [choice.note(seconds=1.0, on_processor=0.001) for _ in range(100)]
    assert choice.threads == 32 and any(found) and not found[-1]
    assert "wait for 100% of their time" in str(choice)
    fixed = ThreadChoice(2)
    assert not any(fixed.note(seconds=1.0, on_processor=0.001) for _ in range(100))
    assert fixed.threads == 2


def test_functions_that_compute_keep_their_threads():
    choice = ThreadChoice("auto")
    assert not any(choice.note(seconds=1.0, on_processor=0.9) for _ in range(100))
    assert choice.threads == available_processors()


def test_a_pool_of_the_new_size_goes_on_when_another_number_was_chosen(monkeypatch):
    made, executor = [], _thread_pool.ThreadPoolExecutor
    monkeypatch.setattr(ThreadChoice, "note", grow)
    monkeypatch.setattr(
        _thread_pool, "ThreadPoolExecutor", lambda size, **names: made.append(size) or executor(size, **names)
    )
    assert list(threads(numbers(70).map(abs), "auto")) == list(range(70))
    assert made == [available_processors(), 30]


def grow(self, seconds, on_processor):
    changed, self.threads = self.threads != 30, 30
    return changed


def test_stats_say_what_was_chosen():
    loader = threads(numbers(300).map(abs), "auto")
    assert len(list(loader)) == 300
    assert " threads: " in loader.stats().choice
    assert loader.stats().choice in str(loader.stats())
    loader = threads(numbers(300).map(abs), 2)
    list(loader)
    assert loader.stats().choice == "2 threads: as num_workers= says"
    loader = threads(numbers(300), 2)
    list(loader)
    assert loader.stats().choice.startswith("0 threads: ")


def test_dropped_items_stay_dropped(restless):
    assert list(threads(numbers(60).compose(wds.select(lambda number: number % 4)), 2)) == [
        number for number in range(60) if number % 4
    ]


@pytest.mark.parametrize("wanted", ["many", -1, 1.5, True])
def test_other_words_are_refused(wanted):
    with pytest.raises(SpecError, match="num_workers"):
        threads(numbers(3), wanted)
