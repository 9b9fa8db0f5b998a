"""Messages travel in groups of any size: what the loader hands on, and its state, are the same."""

import json
import os
import pickle
import resource
from itertools import islice, product
from types import SimpleNamespace

import numpy as np
import pytest

from webdataset.loader import _message_groups, _worker
from webdataset.loader._message_groups import GroupSize, in_turns
from webdataset.loader._move_batching import as_it_is
from webdataset.loader._shared_memory import Blocks
from webdataset.loader._transfer import Transfer, pack
from webdataset.loader._worker import Message, Unpacked, WorkerDataset

from .sources import numbers
from .test_processes import batches, plain, processes

pytestmark = pytest.mark.filterwarnings("ignore:This DataLoader will create")


def messages(worker, count):
    """What a worker sends: items, then where it begins next, then the last message."""
    yield from (Message(worker, Unpacked((worker, number))) for number in range(count))
    yield Message(worker)
    yield Message(worker, is_last=True)


def grouped(stream, sizes):
    stream = iter(stream)
    for size in sizes:
        if not (group := list(islice(stream, size))):
            return
        yield group


def round_robin(streams):
    """As torch asks the workers."""
    streams = list(streams)
    while streams:
        for stream in list(streams):
            group = next(stream, None)
            if group is None:
                streams.remove(stream)
            else:
                yield group


def items(found):
    return [message.content.value for message in found if message.content is not None]


def in_single_messages(counts, turn):
    left = [iter(range(count)) for count in counts]
    order = [*range(turn, len(counts)), *range(turn)]
    found = []
    while order:
        for worker in list(order):
            number = next(left[worker], None)
            if number is None:
                order.remove(worker)
            else:
                found.append((worker, number))
    return found


@pytest.mark.parametrize("counts", [(5,), (4, 4), (0, 7), (9, 1), (3, 8, 0), (2, 6, 5)])
def test_the_order_does_not_depend_on_the_groups(counts):
    schedules = [[1] * 20, [3] * 20, [16] * 20, [1, 1, 8, 8, 8], [8, 8, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1]]
    for turn in range(len(counts)):
        for chosen in product(schedules, repeat=len(counts)):
            workers = [grouped(messages(w, n), sizes) for w, (n, sizes) in enumerate(zip(counts, chosen, strict=True))]
            found = list(in_turns(round_robin(workers), len(counts), turn, GroupSize()))
            assert items(found) == in_single_messages(counts, turn)
            assert sum(message.is_last for message in found) == len(counts)


def with_groups_of(size, loader):
    together = loader.pipeline[0]._group_size
    together._shared.set(size)
    together._final = True
    return loader


@pytest.mark.parametrize("size", [5, *(pytest.param(size, marks=pytest.mark.long) for size in (2, 50))])
def test_a_loader_hands_on_and_resumes_the_same(size):
    reference = processes(batches(), 3)
    expected = plain(reference), plain(reference)
    for stop in (0, 1, 4, 7, len(expected[0])):
        loader = with_groups_of(size, processes(batches(), 3))
        taken = iter(loader)
        head = plain(islice(taken, stop))
        saved = json.loads(json.dumps(loader.state_dict()))
        taken.close()
        again = with_groups_of(size, processes(batches(), 3, persistent_workers=stop % 2 == 0))
        again.load_state_dict(saved)
        assert head + plain(again) == expected[0]
        assert plain(again) == expected[1]


def test_an_error_comes_after_the_items_before_it():
    def fails(number):
        if number == 5:
            raise ValueError("five")
        return number

    seen = []
    with pytest.raises(ValueError, match="five"):
        for item in with_groups_of(4, processes(numbers(10).map(fails), 2)):
            seen.append(item)
    assert seen == [0, 1, 2, 3, 4]


def test_a_group_does_not_wait_for_items_that_have_become_slow(monkeypatch):
    """The loader would take the worker for dead: `timeout` counts the seconds until a message comes."""
    together = GroupSize()
    together._shared.set(16)
    monkeypatch.setattr(_worker.world, "torch_worker", lambda: SimpleNamespace(id=0, num_workers=1))
    for longest, sizes in ((float("inf"), [16, 6]), (-1, [1] * 22)):
        monkeypatch.setattr(_worker, "LONGEST", longest)
        worker = WorkerDataset(numbers(20), as_it_is, group_size=together)
        assert [len(group) for group in worker] == sizes  # 20 items, where the next epoch begins, and the last message


@pytest.mark.parametrize("keep", [False, True])
def test_groups_need_no_more_descriptors_than_there_are(keep):
    """Each batch of a group is a block with descriptors, in the worker and in the loader."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    used = len(os.listdir("/proc/self/fd"))
    resource.setrlimit(resource.RLIMIT_NOFILE, (2 * used + 40, hard))
    try:
        loader = with_groups_of(16, processes(numbers(150).map(large), 2))
        kept = []
        for number, batch in enumerate(loader):
            assert batch["x"][0] == batch["x"][-1] == number
            kept += [batch] * keep
        assert [int(batch["x"][-1]) for batch in kept] == list(range(150)) * keep
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def large(number):
    return {"x": np.full(10_000, number, np.float64)}


def group_of(count, size=100):
    return [Message(0, Transfer(b"", [(0, size)], None)) for _ in range(count)]


def clock(monkeypatch, times):
    times = iter(times)
    monkeypatch.setattr(_message_groups.time, "perf_counter", lambda: next(times))


@pytest.mark.parametrize(
    ("milliseconds", "size", "chosen"), [(1, 100, 16), (4, 100, 5), (30, 100, 1), (1, 1 << 20, 4), (1, 1 << 24, 1)]
)
def test_small_items_that_come_quickly_travel_together(monkeypatch, milliseconds, size, chosen):
    together = GroupSize()
    clock(monkeypatch, [number * milliseconds / 1000 for number in range(100)])
    for _ in range(100):
        together.note(group_of(1, size), 0.0)
        if int(together) > 1 or together._final:
            break
    assert int(together) == chosen


@pytest.mark.parametrize(("size", "waited"), [(100, 0.3), (1 << 21, 0.0)])
def test_items_that_become_slow_or_large_travel_alone_for_good(monkeypatch, size, waited):
    together = GroupSize()
    clock(monkeypatch, [number / 1000 for number in range(200)])
    for _ in range(60):
        together.note(group_of(1), 0.0)
    assert int(together) == 16
    together.note(group_of(16, size), waited)
    assert int(together) == 1
    for _ in range(60):
        together.note(group_of(1), 0.0)
    assert int(together) == 1


@pytest.mark.parametrize("value", [["text " * 20_000] * 3, [bytes(range(256)) * 1000], {"a": ["b" * 70_000, 1]}])
def test_large_objects_that_are_not_arrays_travel_in_shared_memory(value):
    blocks = Blocks(2)
    transfer = pack(value, blocks)
    assert len(pickle.dumps(transfer)) < 1000
    assert pickle.loads(pickle.dumps(transfer)).unpack() == value
