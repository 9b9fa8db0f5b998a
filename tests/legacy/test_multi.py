"""Worker processes without torch."""

import os
import signal

import pytest

import webdataset as wds
from webdataset.multi import MultiLoader
from webdataset.older import MultiDataset


def numbers(count=12):
    return wds.DataPipeline(range(count), wds.split_by_worker)


@pytest.mark.parametrize("workers", [1, 3])
def test_every_item_comes_once(workers):
    loader = MultiLoader(numbers(), workers=workers)
    assert sorted(loader) == list(range(12))
    assert sorted(loader) == list(range(12)), "a second time"


def fails(items):
    for item in items:
        if item == 5:
            raise ValueError("five")
        yield item


def test_an_error_in_a_worker_is_raised_here():
    with pytest.raises(ValueError, match="five"):
        list(MultiLoader(numbers().compose(fails), workers=2))


def dies(items):
    for item in items:
        if item == 4:
            os.kill(os.getpid(), signal.SIGKILL)
        yield item


def test_D36_a_worker_that_dies_is_an_error_and_no_hang():
    with pytest.raises(wds.StageError, match="status -9"):
        list(MultiLoader(numbers().compose(dies), workers=2))


def endless(items):
    while True:
        yield os.getpid()


def test_D36_leaving_early_ends_the_workers():
    items = iter(MultiLoader(numbers().compose(endless), workers=2))
    processes = {next(items) for _ in range(20)}
    items.close()
    for process in processes:
        with pytest.raises(ProcessLookupError):
            os.kill(process, 0)


def test_a_new_iteration_ends_the_old_one_unless_told_otherwise():
    loader = MultiLoader(numbers().compose(endless), workers=1)
    first = iter(loader)
    old = next(first)
    second = iter(loader)
    assert next(second) != old
    with pytest.raises(ProcessLookupError):
        os.kill(old, 0)
    second.close()
    first.close()
    patient = MultiLoader(numbers().compose(endless), workers=1, nokill=True)
    first, second = iter(patient), iter(patient)
    assert next(first) != next(second)
    assert next(first)
    first.close()
    second.close()


def test_kill_ends_all_workers():
    loader = MultiLoader(numbers().compose(endless), workers=2)
    items = iter(loader)
    process = next(items)
    loader.kill()
    with pytest.raises(ProcessLookupError):
        os.kill(process, 0)
    items.close()


@pytest.mark.parametrize("workers", [0, -1, True, "2", 1.5])
def test_wrong_numbers_of_workers_are_refused(workers):
    with pytest.raises(wds.SpecError):
        MultiLoader(numbers(), workers=workers)


def test_multi_dataset_has_a_nominal_length():
    dataset = MultiDataset(numbers(), workers=2, nominal=12)
    assert len(dataset) == 12
    assert sorted(dataset) == list(range(12))
    with pytest.raises(TypeError, match="nominal"):
        len(MultiDataset(numbers()))
