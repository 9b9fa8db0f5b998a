import contextlib
import copy
import gc
import itertools
import json
import multiprocessing
import os
import pickle
import signal
from itertools import islice
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, Dataset

import webdataset as wds
from webdataset.errors import DecodingError, StageError, StateError
from webdataset.loader import WebLoader
from webdataset.pipeline import DataPipeline

from .sources import assert_nothing_new_in_shared_memory, in_shared_memory, numbers

pytestmark = pytest.mark.filterwarnings("ignore:This DataLoader will create")


def processes(dataset, n, **kw):
    kw.setdefault("batch_size", None)
    return WebLoader(dataset, num_workers=n, **kw)


def batches(n=23):
    return numbers(n, by_epoch=True).shuffle(4).batched(2, collation_fn=None)


def plain(items):
    return [list(map(int, item)) for item in items]


@pytest.mark.parametrize("n", [1, 3])
def test_the_order_is_that_of_torch_and_epochs_have_numbers(n):
    dataset = numbers(10, by_epoch=True)
    expected = [list(map(int, DataLoader(numbers(10), batch_size=None, num_workers=n)))]
    expected.append([1000 + number for number in expected[0]])
    assert [list(processes(dataset, n)) for _ in range(2)] == expected
    dataset.set_epoch(0)
    persistent = processes(dataset, n, persistent_workers=True)
    assert [list(persistent) for _ in range(2)] == expected


@pytest.mark.parametrize(("n", "stops"), [(0, range(13)), (1, [0, 5, 12]), (3, [0, 1, 4, 8, 11, 13])])
def test_resume_is_exact_on_the_same_number_of_workers(n, stops):
    first = processes(batches(), n)
    expected = plain(first), plain(first)
    for stop in stops:
        loader = processes(batches(), n)
        items = iter(loader)
        head = plain(islice(items, min(stop, len(expected[0]))))
        saved = json.loads(json.dumps(loader.state_dict()))
        items.close()
        again = processes(batches(), n, persistent_workers=n > 0 and stop % 2 == 0)
        again.load_state_dict(saved)
        assert head + plain(again) == expected[0]
        assert plain(again) == expected[1]


class SecondWorkerWaits:
    """Until it is told to go on; what it reads first must have been decided before."""

    def __init__(self):
        self.event = multiprocessing.get_context("fork").Event()

    def __call__(self, worker):
        assert worker == 0 or self.event.wait(60)


@pytest.mark.parametrize("persistent", [False, True])
@pytest.mark.parametrize("again", [lambda loader: loader, lambda loader: loader.compose()], ids=["same", "copy"])
def test_two_iterations_at_once_do_not_share_workers(persistent, again):
    """Mutation: let both use the workers that live, or one number of the pass."""
    expected = [plain(epoch) for epoch in itertools.repeat(processes(batches(), 2), 3)]
    start = SecondWorkerWaits()
    context = "fork"  # the event is one of forked processes
    loader = processes(
        batches(), 2, persistent_workers=persistent, worker_init_fn=start, multiprocessing_context=context
    )
    other = again(loader)
    first = iter(loader)
    found = [plain([next(first)])]
    second = iter(other)
    found.append(plain([next(second)]))
    start.event.set()
    found[0] += plain(islice(first, 2))
    found[1] += plain(second)
    found[0] += plain(first)
    assert [*found, plain(other)] == expected
    loader.close()
    other.close()


@pytest.mark.parametrize("again", [copy.deepcopy, lambda loader: pickle.loads(pickle.dumps(loader))])
def test_a_copy_of_a_loader_whose_workers_live_starts_its_own(again):
    loader = processes(batches(), 2, persistent_workers=True)
    list(loader)
    other = again(loader)
    assert plain(other) == plain(loader)


def test_another_number_of_workers_is_refused_with_a_sentence():
    loader = processes(batches(), 2)
    items = iter(loader)
    next(items)
    saved = loader.state_dict()
    items.close()
    with pytest.raises(StateError, match="made with 2 worker processes, this loader has 1"):
        processes(batches(), 1).load_state_dict(saved)
    with pytest.raises(StateError, match="workers=processes.*workers=threads"):
        WebLoader(batches(), batch_size=None, workers="threads").load_state_dict(saved)


def test_workers_that_have_not_handed_on_anything_start_in_the_same_epoch():
    loader = processes(numbers(9, by_epoch=True), 3)
    list(loader)
    items = iter(loader)
    head = [next(items)]
    saved = loader.state_dict()
    items.close()
    again = processes(numbers(9, by_epoch=True), 3)
    again.load_state_dict(saved)
    assert head + list(again) == list(range(1000, 1009))


@pytest.mark.parametrize("persistent", [False, True])
def test_epochs_of_a_dataset_go_on_in_its_workers(persistent):
    loader = processes(numbers(100).with_epoch(3), 2, persistent_workers=persistent)
    assert list(loader) == [0, 1, 2, 3, 4, 5]
    assert list(loader) == [6, 7, 8, 9, 10, 11]
    for item in loader:
        if item == 14:
            break
    assert list(loader) == [15, 16, 17, 18, 19, 20]


def test_epochs_of_a_loader_keep_the_workers():
    loader = processes(numbers(100).map(lambda _: os.getpid()), 2).with_epoch(4)
    assert set(loader) == set(loader)
    loader.close()


def test_batches_made_by_the_loader_are_those_of_torch_and_resume():
    dataset = numbers(10).map(lambda i: (np.full(3, i), i))
    expected = list(DataLoader(dataset, batch_size=3, num_workers=2))
    loader = processes(dataset, 2, batch_size=3)
    items = iter(loader)
    head = [next(items)]
    saved = loader.state_dict()
    items.close()
    again = processes(dataset, 2, batch_size=3)
    again.load_state_dict(saved)
    found = head + list(again)
    assert len(found) == len(expected)
    for ours, theirs in zip(found, expected, strict=True):
        assert all(torch.equal(a, b) for a, b in zip(ours, theirs, strict=True))


def fields(i, count=100):
    return {f"field{k}": np.full(1000, i + k, np.float32) for k in range(count)}


def memfds(pid="self"):
    found = []
    for entry in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):  # the descriptor that lists the others
            found += [entry] if "webdataset-batch" in os.readlink(entry) else []
    return found


def mappings(pid="self"):
    return [line for line in Path(f"/proc/{pid}/maps").read_text().splitlines() if "webdataset-batch" in line]


def test_a_batch_of_a_hundred_fields_is_one_object_in_shared_memory():
    before = in_shared_memory()
    loader = processes(numbers(20).map(fields), 1)
    items = iter(loader)
    batch = next(items)
    assert len(batch) == 100 and all(isinstance(value, torch.Tensor) for value in batch.values())
    assert len(mappings()) == 1 and len(memfds()) == 1
    assert_nothing_new_in_shared_memory(before)
    del batch
    assert not mappings()
    items.close()


def test_memory_is_used_again_only_when_nobody_looks_at_it_any_more():
    loader = processes(numbers(30).map(fields), 2)
    kept = [batch["field7"][:10] for batch in loader]  # views of views of the blocks
    gc.collect()
    assert [set(view.tolist()) for view in kept] == [{number + 7.0} for number in range(30)]
    del kept
    assert not mappings()


def test_a_consumer_may_keep_more_batches_than_there_are_descriptors(monkeypatch):
    monkeypatch.setattr("webdataset.loader._shared_memory._MOST_OPEN", 5)
    kept = list(processes(numbers(30).map(fields), 1))
    assert [int(batch["field0"][-1]) for batch in kept] == list(range(30))
    assert len(memfds()) == 5


def test_blocks_are_used_again(monkeypatch):
    monkeypatch.setattr("webdataset.loader._message_groups._MOST", 1)  # how many travel together depends on the time

    def block_number(i):
        return {"x": np.zeros(100_000), "open": len(memfds())}

    assert max(int(batch["open"]) for batch in processes(numbers(50).map(block_number), 1)) <= 8  # two descriptors each


def test_without_shared_memory_batches_travel_through_the_pipe():
    loader = processes(numbers(3).map(fields), 1, shared_memory=False)
    assert [int(batch["field0"][0]) for batch in loader] == [0, 1, 2]


@pytest.mark.parametrize(
    "dtype",
    [torch.bfloat16, torch.float16, torch.float8_e4m3fn, torch.bool, torch.complex64, torch.int8]
    + [torch.uint8, torch.uint16, torch.uint32, torch.uint64],
)
def test_tensors_of_every_kind_travel(dtype):
    from webdataset.loader._transfer import pack
    from webdataset.loader._shared_memory import Blocks

    tensor = torch.arange(60_000).reshape(200, 300).to(dtype)
    values = {
        "plain": tensor,
        "turned": tensor.T,
        "empty": tensor[:0],
        "one": tensor[0, 0],
        "numpy": np.arange(60_000).reshape(200, 300)[::2, ::3],
    }
    blocks = Blocks(2)
    found = pickle.loads(pickle.dumps(pack(values, blocks))).unpack()
    assert all(torch.equal(torch.as_tensor(found[name]), torch.as_tensor(value)) for name, value in values.items())
    gradient = torch.ones(100_000, requires_grad=True)
    assert pickle.loads(pickle.dumps(pack(gradient, blocks))).unpack().requires_grad


def test_an_error_of_a_worker_is_raised_as_it_was():
    def fails(i):
        if i == 4:
            raise DecodingError("a.tar", "0004", "jpg", what="not a JPEG")
        return i

    seen = []
    with pytest.raises(DecodingError, match="not a JPEG – .*field jpg, sample 0004, a.tar") as caught:
        for item in processes(numbers(10).map(fails), 2):
            seen.append(item)
    assert seen == [0, 1, 2, 3]
    assert caught.value.k == "jpg"
    assert "in fails" in caught.value.__notes__[-1] and "worker process 0" in caught.value.__notes__[-1]


class Unpicklable(Exception):
    def __init__(self, a, b):
        super().__init__(a)


def test_an_error_that_cannot_travel_is_described():
    def fails(i):
        raise Unpicklable("odd", 1)

    with pytest.raises(StageError, match="Unpicklable in worker process 0"):
        list(processes(numbers(10).map(fails), 1))


def test_an_item_that_cannot_travel_is_named():
    with pytest.raises(StageError, match="type function cannot be sent"):
        list(processes(numbers(3).map(lambda i: lambda: i), 1))


@pytest.mark.parametrize("signal_number", [signal.SIGKILL, signal.SIGSEGV])
def test_a_killed_worker_is_an_error_and_not_a_hang(signal_number):
    def dies(i):
        if i == 5:
            os.kill(os.getpid(), signal_number)
        return np.zeros(100_000)

    before = in_shared_memory()
    with pytest.raises(StageError, match="worker .* (killed|exited).*probably out of memory"):
        list(processes(numbers(10).map(dies), 2))
    assert_nothing_new_in_shared_memory(before)


def limit_memory(worker):
    import resource

    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000, resource.RLIM_INFINITY))


def test_no_memory_for_a_batch_is_an_error_with_its_size():
    loader = processes(numbers(4).map(lambda _: np.zeros(1_000_000)), 1, worker_init_fn=limit_memory)
    with pytest.raises(StageError, match="not enough memory for a batch of 8,000,000 bytes"):
        list(loader)


def test_shapes_that_do_not_match_are_an_error():
    dataset = numbers(4).map(lambda i: {"x": np.zeros(i)}).batched(2)
    with pytest.raises(ValueError, match="shape"):
        list(processes(dataset, 1))


def test_spawned_workers():
    dataset = DataPipeline(range(4), wds.map(abs), wds.batched(2, collation_fn=None))
    loader = WebLoader(
        dataset, batch_size=None, num_workers=1, multiprocessing_context="spawn", persistent_workers=True
    )
    items = iter(loader)
    assert next(items) == [0, 1]
    saved = loader.state_dict()
    assert next(items) == [2, 3]
    items.close()
    assert saved["at"]["stages"][0]["workers"][0]["$cursor"]["epoch"] == 0
    assert list(loader) == [[0, 1], [2, 3]]
    assert loader.state_dict()["at"]["epoch"] == 2


class Squares(Dataset):
    def __len__(self):
        return 4

    def __getitem__(self, i):
        return i * i


def test_other_datasets_get_a_plain_data_loader():
    loader = WebLoader(Squares(), batch_size=2, num_workers=1)
    assert type(loader.pipeline[0]) is DataLoader
    assert [batch.tolist() for batch in loader] == [[0, 1], [4, 9]]


def test_what_trainers_ask_for():
    dataset = numbers(8).batched(2, collation_fn=None).with_length(4)
    loader = processes(dataset, 2)
    assert isinstance(loader.pipeline[0], DataLoader)
    assert loader.pipeline[0].dataset is dataset and loader.pipeline[0].num_workers == 2
    assert len(loader) == 4
    assert len(loader.with_epoch(3).with_length(3)) == 3
    with pytest.raises(TypeError):
        len(loader.unbatched())
    with pytest.raises(TypeError):
        len(processes(numbers(8), 0))
    loader.num_batches = 7  # open_clip
    assert loader.num_batches == 7
    assert plain(loader.pipeline[0]) == [[0, 2], [1, 3], [4, 6], [5, 7]]


@pytest.mark.filterwarnings("ignore:'set_vital' is deprecated")
def test_torchdata_reads_and_resumes_our_datasets():
    from torchdata.stateful_dataloader import StatefulDataLoader

    def loader():
        return StatefulDataLoader(batches(), batch_size=None, num_workers=2)

    expected = plain(loader())
    first = loader()
    items = iter(first)
    head = plain(islice(items, 5))
    saved = first.state_dict()
    del items
    again = loader()
    again.load_state_dict(saved)
    assert head + plain(again) == expected


def test_default_collation_and_conversion_are_those_of_torch():
    dataset = numbers(4).map(lambda i: {"x": np.full(2, i), "s": "a", "t": (i, 2.0)})
    for settings in ({"batch_size": None}, {"batch_size": 2}):
        ours, theirs = list(WebLoader(dataset, **settings)), list(DataLoader(dataset, **settings))
        assert str(ours) == str(theirs)


def test_workers_that_are_told_to_be_one_worker_are_refused(monkeypatch):
    """Mutation: let a loader go by the numbers in the environment: it waits for a worker that is not there, and ends."""
    monkeypatch.setenv("WORKER", "1")
    monkeypatch.setenv("NUM_WORKERS", "2")
    dataset = wds.DataPipeline(range(4), wds.split_by_worker)
    # A server of forks may have been started before, with another environment.
    settings = {"batch_size": None, "multiprocessing_context": "fork"}
    assert list(wds.WebLoader(dataset, num_workers=1, **settings)) == [1, 3]
    with pytest.raises(wds.SpecError, match="worker process 0 of 2 has the number 1 of 2"):
        list(wds.WebLoader(dataset, num_workers=2, **settings))
