import threading
import time
from types import SimpleNamespace

import numpy as np
import pytest

import webdataset as wds
from webdataset.loader import WebLoader, _thread_pool
from webdataset.loader._thread_pool import Pool
from webdataset.pipeline import DataPipeline

from .sources import numbers, threads


def test_reading_goes_on_while_functions_run():
    """Four functions wait for each other: they only end if four items are in flight."""
    together = threading.Barrier(4, timeout=20)

    def wait(number):
        if number < 4:
            together.wait()
        return number

    assert list(threads(numbers(8).map(wait), 4)) == list(range(8))


def test_what_is_in_flight_is_bounded_by_memory():
    alive, most = 0, 0
    release = threading.Event()

    class Big:
        nbytes = 1_000_000

    def source():
        nonlocal alive, most
        for _ in range(60):
            alive += 1
            most = max(most, alive)
            if alive >= 12:
                release.set()
            yield Big()

    def slow(item):
        release.wait(0.05)
        return 1

    loader = WebLoader(
        DataPipeline(source, wds.map(slow)), batch_size=None, num_workers=2, workers="threads", memory=4_000_000
    )
    for _ in loader:
        alive -= 1
    assert most <= 6


class Large:
    nbytes = 1_000_000


@pytest.mark.parametrize(
    "stages",
    [
        [],
        [wds.map(lambda sample: 1 if sample["n"] % 16 == 0 else sample)],
        [wds.select(lambda sample: sample["n"] % 16)],
    ],
    ids=["large", "now and then a small one", "now and then none"],
)
def test_what_functions_make_of_small_items_is_bounded_by_memory(stages):
    made, most = 0, 0

    def grow(number):
        nonlocal made
        made += 1
        return {"n": number, "x": Large()}

    loader = threads(numbers(2000).compose(wds.map(grow), *stages), 2, memory=20_000_000)
    for taken, sample in enumerate(loader, 1):
        most = max(most, made - (sample["n"] if isinstance(sample, dict) else taken))
    assert most <= 40


def test_a_slow_consumer_holds_the_reader_back():
    read = []

    def source():
        for number in range(1000):
            read.append(number)
            yield np.zeros(100_000)

    loader = WebLoader(
        DataPipeline(source), batch_size=None, num_workers=1, workers="threads", prefetch_factor=2, memory=10_000_000
    )
    items = iter(loader)
    next(items)
    time.sleep(0.2)
    assert len(read) < 20
    items.close()


def clock(monkeypatch, *, on_processor):
    """Everything is cheap, and time goes by on a processor, or never does."""
    monkeypatch.setattr(_thread_pool, "_CHEAP", 1e9)
    runs = time.perf_counter if on_processor else lambda: 0.0
    monkeypatch.setattr(_thread_pool, "time", SimpleNamespace(perf_counter=time.perf_counter, thread_time=runs))


def threads_of(function, count):
    seen = []
    results = Pool(2, memory=1 << 20).stage([lambda item: seen.append(threading.get_ident()) or function(item)])
    assert list(results(range(count))) == list(range(count))
    return seen


def test_cheap_functions_stay_in_the_thread_that_asks(monkeypatch):
    clock(monkeypatch, on_processor=True)
    seen = threads_of(int, 300)
    assert seen[0] != threading.get_ident()  # nobody knows yet what it costs
    assert seen[-1] == threading.get_ident()


def test_functions_that_wait_leave_it(monkeypatch):
    """Whether they wait for more than the GIL shows only here; so they are tried here, one at a time, ever less often."""
    clock(monkeypatch, on_processor=False)
    assert 1 <= threads_of(int, 3000).count(threading.get_ident()) <= 8


def test_what_was_slow_in_threads_alone_comes_back(monkeypatch):
    """In threads they seem to wait, as functions do that wait for the GIL; here they do not."""
    me = threading.get_ident()
    runs = lambda: time.perf_counter() if threading.get_ident() == me else 0.0
    monkeypatch.setattr(_thread_pool, "_CHEAP", 1e9)
    monkeypatch.setattr(_thread_pool, "time", SimpleNamespace(perf_counter=time.perf_counter, thread_time=runs))
    assert threads_of(int, 300)[-100:] == [me] * 100


def test_an_error_of_a_cheap_function_comes_in_its_turn(monkeypatch):
    clock(monkeypatch, on_processor=True)
    taken = []
    with pytest.raises(ZeroDivisionError):
        taken.extend(Pool(2, memory=1 << 20).stage([lambda number: 1 / (250 - number) and number])(range(300)))
    assert taken == list(range(250))
