import threading
import time

import numpy as np
import pytest

import webdataset as wds
from webdataset.loader import WebLoader
from webdataset.loader._thread_pool import Pool
from webdataset.pipeline import DataPipeline

from .sources import numbers, threads


def test_reading_goes_on_while_functions_run():
    """Four functions wait for each other: they only end if four items are in flight."""
    together = threading.Barrier(4, timeout=20)

    def wait(number):
        if 3 <= number < 7:  # those before run in place
            together.wait()
        return number

    assert list(threads(numbers(20).map(wait), 4)) == list(range(20))


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


def test_an_error_of_a_cheap_function_comes_in_its_turn():
    taken = []
    with pytest.raises(ZeroDivisionError):
        taken.extend(Pool(2, memory=1 << 20).stage([lambda number: 1 / (250 - number) and number])(range(300)))
    assert taken == list(range(250))
