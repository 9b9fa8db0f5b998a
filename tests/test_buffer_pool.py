"""Memory is used again, and never while there is a view of it."""

import gc
import threading

import numpy as np
import torch

from webdataset.buffer_pool import _KEPT, _LEAST, _SIZES, Recycler
from webdataset.stages import batched, default_collation_fn

FLOAT = np.dtype(np.float32)


def place(array):
    return array.__array_interface__["data"][0]


def test_memory_comes_back_when_the_last_view_is_gone():
    recycler = Recycler()
    array = recycler.empty((4, 256, 256), FLOAT)
    first = place(array)
    for view in (lambda a: a[1:], lambda a: a.T, lambda a: torch.from_numpy(a)[2], lambda a: memoryview(a)[1:2]):
        kept = view(array)
        del array
        other = recycler.empty((4, 256, 256), FLOAT)
        assert place(other) != first
        del kept, other
        array = recycler.empty((4, 256, 256), FLOAT)
        while place(array) != first:  # one of the two that are spare
            array = recycler.empty((4, 256, 256), FLOAT)


def test_small_arrays_and_objects_are_numpys():
    recycler = Recycler()
    assert recycler.empty((_LEAST // 4 - 1,), FLOAT).base is None
    assert recycler.empty((1 << 20,), np.dtype(object))[0] is None


def test_little_is_kept():
    recycler = Recycler()
    many = [recycler.empty((_LEAST,), np.dtype("u1")) for _ in range(2 * _KEPT // _LEAST)]
    del many[:]
    assert sum(map(len, recycler._spare[_LEAST])) <= _KEPT
    for size in range(_LEAST, _LEAST + 20):
        recycler.empty((size,), np.dtype("u1"))
    assert len(recycler._spare) == _SIZES


def test_threads_get_memory_of_their_own():
    recycler, wrong = Recycler(), []

    def work(number):
        for _ in range(300):
            array = recycler.empty((_LEAST + number % 2,), np.dtype("u1"))
            array[:] = number
            if not (array == number).all():
                wrong.append(number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_batches_that_are_kept_stay_as_they_are():
    samples = [(np.full((64, 64, 32), number, FLOAT),) for number in range(12)]
    batches = list(batched(2)(samples))
    gc.collect()
    assert len({place(batch) for (batch,) in batches}) == 6
    for number, (batch,) in enumerate(batches):
        assert (batch[0] == 2 * number).all()
        assert (batch[1] == 2 * number + 1).all()
    assert default_collation_fn(samples)[0].flags.writeable
