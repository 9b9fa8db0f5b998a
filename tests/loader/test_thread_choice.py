"""Which functions run on threads, how many threads there are, and that neither changes what comes out."""

import pytest

import webdataset as wds
from webdataset.errors import SpecError
from webdataset.loader import _thread_choice, _thread_pool
from webdataset.loader._thread_choice import ThreadChoice, available_processors
from webdataset.pipeline import DataPipeline

from .sources import numbers, threads


@pytest.fixture(autouse=True)
def as_users_have_it(monkeypatch):
    monkeypatch.setattr(_thread_choice, "_EXPENSIVE", 5e-4)  # tests/conftest.py changes it


@pytest.fixture
def restless(monkeypatch):
    """The number of threads is another one after every chunk; none is in place."""
    given = iter(range(10**9))

    def other(self, **measured):
        self.threads = next(given) % 4
        return True

    monkeypatch.setattr(ThreadChoice, "in_place", other)
    monkeypatch.setattr(ThreadChoice, "on_threads", other)


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


def in_place(choice, each, wall, times=100):
    """Whether functions were to run elsewhere, after items that take so long."""
    return any(choice.in_place(items=1, seconds=each, wall=wall) for _ in range(times))


def on_threads(choice, each, wall, share=1.0, times=100):
    return any(choice.on_threads(items=1, seconds=each, on_processor=share * each, wall=wall) for _ in range(times))


def test_expensive_functions_go_to_threads_at_once():
    choice = ThreadChoice(2)
    assert choice.threads == 0
    assert not in_place(choice, each=0.5, wall=0.5, times=1)  # the first call may import something
    assert in_place(choice, each=0.001, wall=0.001, times=1)
    assert choice.threads == 2 and "takes 1.0 ms" in str(choice)
    assert not on_threads(choice, each=0.001, wall=0.0005)


@pytest.mark.parametrize("came", [0.0003, 0.0001])
def test_cheap_functions_stay_where_the_items_come_sooner(came):
    """Mutation: never compare."""
    choice = ThreadChoice(2)
    assert not in_place(choice, each=0.0001, wall=0.0002, times=50)
    assert in_place(choice, each=0.0001, wall=0.0002)
    assert choice.threads == 2
    assert on_threads(choice, each=0.0001, wall=came, times=1000) == (came > 0.0002)
    assert choice.threads == (0 if came > 0.0002 else 2)
    assert ("50% longer" if came > 0.0002 else "100% longer") in choice.reason
    stays = on_threads if choice.threads else in_place
    assert not stays(choice, each=0.0001, wall=came, times=1000)


def test_functions_that_become_dear_are_compared_again():
    choice = ThreadChoice(2)
    in_place(choice, each=1e-5, wall=1e-4, times=1000)
    on_threads(choice, each=1e-5, wall=2e-4, times=1000)
    assert choice.threads == 0
    assert in_place(choice, each=2e-4, wall=3e-4, times=1000)
    assert choice.threads == 2


def test_functions_that_were_dear_at_first_are_measured_again():
    choice = ThreadChoice(2)
    assert in_place(choice, each=0.01, wall=0.01)
    assert on_threads(choice, each=0.0001, wall=0.001)
    assert choice.threads == 0 and choice.is_trial


def test_functions_that_wait_get_more_threads_if_the_number_is_left_open():
    choice = ThreadChoice("auto")
    in_place(choice, each=0.001, wall=0.001)
    assert choice.threads == available_processors()
    for _ in range(6):
        on_threads(choice, each=0.001, wall=0.001, share=0.001, times=1000)
    assert choice.threads == 32 and not on_threads(choice, each=0.001, wall=0.001, share=0.001)
    assert "on 32 threads: they wait for 100% of their time" in str(choice)
    fixed = ThreadChoice(2)
    in_place(fixed, each=0.001, wall=0.001)
    assert not on_threads(fixed, each=0.001, wall=0.001, share=0.001, times=1000)
    assert fixed.threads == 2


def test_functions_that_compute_keep_their_threads():
    choice = ThreadChoice("auto")
    in_place(choice, each=0.001, wall=0.001)
    assert not on_threads(choice, each=0.001, wall=0.001, share=0.9, times=1000)
    assert choice.threads == available_processors()


def test_a_pool_of_the_new_size_goes_on_when_another_number_was_chosen(monkeypatch):
    made, executor = [], _thread_pool.ThreadPoolExecutor

    def grow(self, **measured):
        changed, self.threads = self.threads != 30, {0: 2, 2: 30}.get(self.threads, 30)
        return changed

    monkeypatch.setattr(ThreadChoice, "in_place", grow)
    monkeypatch.setattr(ThreadChoice, "on_threads", grow)
    monkeypatch.setattr(
        _thread_pool, "ThreadPoolExecutor", lambda size, **names: made.append(size) or executor(size, **names)
    )
    assert list(threads(numbers(70).map(abs), "auto")) == list(range(70))
    assert made == [2, 30]


@pytest.mark.parametrize("wanted", ["auto", 2])
def test_stats_say_what_was_chosen(wanted):
    loader = threads(numbers(300).map(abs), wanted)
    assert len(list(loader)) == 300
    assert loader.stats().choice.startswith("functions run ")
    assert loader.stats().choice in str(loader.stats())
    loader = threads(numbers(300), wanted)
    list(loader)
    assert loader.stats().choice.startswith("no functions ")


def test_dropped_items_stay_dropped(restless):
    assert list(threads(numbers(60).compose(wds.select(lambda number: number % 4)), 2)) == [
        number for number in range(60) if number % 4
    ]


@pytest.mark.parametrize("wanted", ["many", -1, 1.5, True])
def test_other_words_are_refused(wanted):
    with pytest.raises(SpecError, match="num_workers"):
        threads(numbers(3), wanted)
