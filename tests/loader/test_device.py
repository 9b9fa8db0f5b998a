"""Batches on a device. There is no device with streams in most places: see streams.py for what then stands in for one."""

import gc
import json
import multiprocessing
import sys
import threading
import weakref
from itertools import islice

import numpy as np
import pytest
import torch
from torch.utils.data import Dataset

from webdataset.errors import MissingDependency, SpecError, StageError
from webdataset.loader import WebLoader, profile

from .sources import numbers
from .streams import streams  # noqa: F401  # a fixture

pytestmark = [
    pytest.mark.filterwarnings("ignore:This DataLoader will create"),
    pytest.mark.filterwarnings("ignore:'pin_memory' argument is set as true but no accelerator is found"),
]

LOADERS = [("threads", 0), ("threads", 2), ("processes", 0), ("processes", 2)]
every_loader = pytest.mark.parametrize(("workers", "n"), LOADERS)


@pytest.fixture(params=[False, True], ids=["no streams", "streams"])
def maybe_ahead(request):
    """With and without streams, which is with and without a batch ahead."""
    if request.param:
        request.getfixturevalue("streams")


def sample(i):
    return {"__key__": f"{i:03d}", "x": np.full((2, 3), i, np.float32), "y": i}


def batches(n=23):
    return numbers(n, by_epoch=True).shuffle(4).map(sample).batched(2)


def load(dataset, workers, n, device="cpu", **kw):
    return WebLoader(dataset, batch_size=None, num_workers=n, workers=workers, device=device, **kw)


def seen(items):
    return [(batch["__key__"], batch["x"].tolist(), torch.as_tensor(batch["y"]).tolist()) for batch in items]


def assert_nobody_works():
    """Threads that feed torch's queues may still be on their way out."""
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("webdataset")]
    assert not multiprocessing.active_children()


@every_loader
def test_arrays_are_tensors_there_and_everything_else_stays(workers, n):
    dataset = numbers(4).map(lambda i: {"__key__": f"{i}", "x": np.full(3, i), "t": (torch.tensor([i]), ["a"])})
    found = list(load(dataset, workers, n))
    assert [batch["__key__"] for batch in found] == ["0", "1", "2", "3"]
    assert all(type(batch["x"]) is torch.Tensor and batch["x"].device.type == "cpu" for batch in found)
    assert [batch["x"].tolist() for batch in found] == [[i] * 3 for i in range(4)]
    assert [(batch["t"][0].tolist(), batch["t"][1]) for batch in found] == [([i], ["a"]) for i in range(4)]


@every_loader
def test_without_a_device_batches_come_as_they_were(workers, n):
    without = WebLoader(batches(4), batch_size=None, num_workers=n, workers=workers)
    (batch, _) = load(batches(4), workers, n, device=None)
    assert {name: type(value) for name, value in batch.items()} == {k: type(v) for k, v in next(iter(without)).items()}


@every_loader
@pytest.mark.parametrize("device", ["meta", torch.device("meta")])
def test_another_device(workers, n, device):
    found = list(load(batches(5), workers, n, device))
    assert [batch["x"].shape for batch in found] == [(2, 2, 3)] * 2 + [(1, 2, 3)] or n == 2
    assert all(batch["x"].is_meta and batch["y"].is_meta and batch["x"].dtype == torch.float32 for batch in found)
    assert sorted(key for batch in found for key in batch["__key__"]) == [f"{i:03d}" for i in range(5)]


@every_loader
@pytest.mark.usefixtures("maybe_ahead")
def test_resume_is_exact_at_every_batch(workers, n):
    first = load(batches(), workers, n)
    expected = seen(first), seen(first)
    without = load(batches(), workers, n, None)
    assert expected == (seen(without), seen(without))
    stops = range(len(expected[0]) + 1) if (workers, n) != ("processes", 2) else [0, 1, 2, 7, 11, 12]
    for stop in stops:
        loader = load(batches(), workers, n)
        items = iter(loader)
        head = seen(islice(items, stop))
        saved = json.loads(json.dumps(loader.state_dict()))
        items.close()
        again = load(batches(), workers, n, device="cpu" if stop % 2 else None)  # a checkpoint knows no device
        again.load_state_dict(saved)
        assert head + seen(again) == expected[0]
        assert seen(again) == expected[1]


@every_loader
def test_an_epoch_left_early_loses_nothing_that_was_copied_ahead(workers, n, streams):
    dataset = numbers(100).map(np.array).with_epoch(10)
    loader, found = load(dataset, workers, n), []
    for item in loader:
        found.append(int(item))
        if len(found) == 5:
            break
    found += map(int, loader)
    assert sorted(found) == list(range(len(found)))
    dataset.close()


@every_loader
def test_nothing_is_left_after_break(workers, n, streams):
    for _ in load(batches(1000), workers, n):
        break
    assert_nobody_works()
    assert all(event.ended for event in streams.events) and len(streams.events) == 2


@every_loader
@pytest.mark.usefixtures("maybe_ahead")
def test_an_error_of_the_dataset_comes_in_its_turn(workers, n):

    def fails(i):
        if i == 6:
            raise KeyError("six")
        return np.array(i)

    found, loader = [], load(numbers(20).map(fails), workers, n)
    with pytest.raises(KeyError, match="six"):
        for item in loader:
            found.append(int(item))
    assert found == [0, 1, 2, 3, 4, 5]


@every_loader
@pytest.mark.usefixtures("maybe_ahead")
def test_an_error_of_the_copy_comes_in_its_turn_and_is_ours(workers, n, monkeypatch):
    to = torch.Tensor.to

    def fails(tensor, *args, **kw):
        if tensor.flatten()[0] == 6:
            raise torch.OutOfMemoryError("out of memory")
        return to(tensor, *args, **kw)

    monkeypatch.setattr(torch.Tensor, "to", fails)
    found, loader = [], load(numbers(300).map(np.array), workers, n)
    with pytest.raises(StageError, match="a batch cannot be copied to cpu: out of memory – without device=") as caught:
        for item in loader:
            found.append(int(item))
    assert isinstance(caught.value.__cause__, torch.OutOfMemoryError)
    assert found == [0, 1, 2, 3, 4, 5]
    assert_nobody_works()  # at once, though the traceback still holds the frames
    saved = loader.state_dict()
    monkeypatch.setattr(torch.Tensor, "to", to)
    again = load(numbers(300).map(np.array), workers, n)
    again.load_state_dict(saved)
    assert list(map(int, again)) == list(range(6, 300))


def test_a_failed_iteration_goes_with_its_error(streams):
    class Noticed:
        pass

    def fails(i):
        if i == 2:
            raise KeyError("two")
        return [np.array(i), held]

    held = Noticed()
    gone = weakref.ref(held)
    loader = load(numbers(5).map(fails), "threads", 0)
    gc.collect()
    gc.disable()
    try:
        with pytest.raises(KeyError):
            list(loader)
        loader = fails = held = None
        assert gone() is None
    finally:
        gc.enable()


@pytest.mark.parametrize("workers", ["threads", "processes"])
def test_a_batch_is_copied_while_the_one_before_is_used(workers, streams):
    dataset = numbers(3).map(lambda i: (np.array([i]), torch.tensor([10 * i]), "text"))
    for number, (a, b, text) in enumerate(load(dataset, workers, 0)):
        assert (a.tolist(), b.tolist(), text) == ([number], [10 * number], "text")
        streams.log.append(f"batch {number}")
    copied = ["side copies", "side copies", "side event"]
    handed = ["program waits", "program uses", "program uses"]
    pins = ["pin"] * (4 if workers == "threads" else 2)  # no thread has pinned it before; a second time costs nothing
    assert streams.log == [
        "stream on cpu:0",
        *(pins + copied),
        *(pins + copied + handed),
        "batch 0",
        *(pins + copied + handed),
        "batch 1",
        *handed,
        "batch 2",
        *["sync", "sync"],  # nothing is let go of before its copy has ended
    ]


def test_epochs_and_loaders_share_one_stream(streams):
    loader = load(batches(4), "threads", 1)
    list(loader), list(loader), list(load(batches(4), "processes", 0))
    assert [entry for entry in streams.log if entry.startswith("stream on")] == ["stream on cpu:0"]


def test_pinned_memory_is_kept_until_its_copy_has_ended(streams, monkeypatch):
    sources = []

    def pin(tensor):
        copy = tensor.clone()
        sources.append(weakref.ref(copy))
        return copy

    monkeypatch.setattr(torch.Tensor, "pin_memory", pin)
    monkeypatch.setattr("webdataset.loader._device._Streamed.end", lambda self, copy: copy.there)  # nobody waits
    items = iter(load(numbers(5).map(lambda i: np.array([i])), "processes", 0))
    next(items), next(items)
    gc.collect()
    assert len(sources) == 3 and all(source() is not None for source in sources)
    streams.events[0].come()
    next(items)
    assert [source() is None for source in sources] == [True, False, False, False]
    items.close()
    assert [source() is None for source in sources] == [True] * 4
    assert streams.log[-3:] == ["sync"] * 3


@every_loader
def test_a_device_that_does_not_wake_is_an_error_and_leaves_nothing(workers, n, streams, monkeypatch):
    def fails(*_):
        raise RuntimeError("busy or unavailable")

    monkeypatch.setattr(type(torch.Stream), "__call__", fails)
    with pytest.raises(StageError, match="cannot be copied to cpu: busy or unavailable"):
        next(iter(load(batches(), workers, n)))


def test_a_copy_that_fails_halfway_is_waited_for(streams, monkeypatch):
    copy = streams.copy

    def fails(tensor, *args, **kw):
        if kw.get("non_blocking") and tensor.tolist() == [1]:
            raise torch.OutOfMemoryError("full")
        return copy(tensor, *args, **kw)

    monkeypatch.setattr(streams, "copy", fails)
    with pytest.raises(StageError, match="full"):
        list(load(numbers(1).map(lambda i: (np.array([0]), np.array([1]))), "processes", 0))
    assert streams.log[-2:] == ["side copies", "side sync"]


def test_what_does_not_lie_in_plain_memory_is_moved_and_not_pinned(streams):
    dense = torch.tensor([[0.0, 2.0]])
    (batch,) = load(numbers(1).map(lambda _: {"sparse": dense.to_sparse(), "x": dense}), "threads", 0)
    assert batch["sparse"].is_sparse and torch.equal(batch["sparse"].to_dense(), dense)
    assert streams.log.count("side copies") == streams.log.count("program uses") == 1


@pytest.mark.parametrize("workers", ["threads", "processes"])
def test_batches_are_pinned_where_they_are_made(workers, streams):
    assert getattr(load(batches(), workers, 1).pipeline[0], "_pins" if workers == "threads" else "pin_memory")
    assert not getattr(load(batches(), workers, 1, "meta").pipeline[0], "pin_memory")


def test_a_batch_is_not_kept_when_the_program_let_it_go(streams):
    items = iter(load(numbers(4).map(lambda i: np.array([i])), "processes", 0))
    batch = next(items)
    gone = weakref.ref(batch)
    streams.events.clear()
    del batch
    assert gone() is None
    items.close()


@pytest.mark.parametrize("device", ["gpu", "", "cuda:-1", "cpu:x"])
def test_a_wrong_name_is_refused_with_what_there_is(device):
    with pytest.raises(SpecError, match=r"device='.* – choose one of cpu, meta"):
        load(batches(), "threads", 1, device)


@pytest.mark.parametrize("device", [0, True, 1.5, ["cpu"]])
def test_what_is_no_name_is_refused(device):
    with pytest.raises(SpecError, match="device=.*: expected a name such as 'cuda"):
        load(batches(), "processes", 1, device)


@pytest.mark.parametrize("device", ["cuda", "cuda:0", "mps", "xpu", "xla", "hpu", torch.device("cuda", 3)])
@pytest.mark.parametrize("workers", ["threads", "processes"])
def test_a_missing_device_is_refused_with_what_there_is(workers, device):
    if torch.device(device).type == getattr(torch.accelerator.current_accelerator(), "type", None):
        pytest.skip("it is there")
    with pytest.raises(SpecError, match=rf"device='{device}' was not found – choose one of cpu, meta"):
        load(batches(), workers, 1, device)


def test_a_device_beyond_those_that_are_there_is_refused(streams):
    with pytest.raises(SpecError, match="device='cpu:1' was not found – choose one of cpu, meta, cpu:0"):
        load(batches(), "threads", 1, "cpu:1")


def test_without_torch_the_package_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(MissingDependency, match="'torch' is needed to put batches on 'cuda'"):
        load(batches(), "threads", 1, "cuda")


@every_loader
def test_what_comes_after_the_loader_sees_the_device(workers, n):
    loader = load(batches(), workers, n, "meta").map(lambda batch: batch["x"]).shuffle(3).with_epoch(5)
    assert all(x.is_meta for x in loader)
    loader.close()
    rows = load(batches(), workers, n, "cpu").unbatched().batched(5)
    assert sum(len(batch["y"]) for batch in rows) == 23


@pytest.mark.parametrize("workers", ["threads", "processes"])
def test_batches_made_by_the_loader(workers):
    loader = WebLoader(numbers(5).map(sample), 2, num_workers=1, workers=workers, device="meta")
    assert [batch["x"].shape[0] for batch in loader if batch["x"].is_meta] == [2, 2, 1]


class Squares(Dataset):
    def __len__(self):
        return 5

    def __getitem__(self, i):
        return i * i


@pytest.mark.parametrize("n", [0, 1])
@pytest.mark.usefixtures("maybe_ahead")
def test_other_datasets(n):
    loader = WebLoader(Squares(), batch_size=2, num_workers=n, device="cpu")
    assert len(loader) == 3
    assert [batch.tolist() for batch in loader] == [[0, 1], [4, 9], [16]]
    items = iter(loader)
    assert next(items).tolist() == [0, 1]
    again = WebLoader(Squares(), batch_size=2, num_workers=n)
    again.load_state_dict(loader.state_dict())
    items.close()
    assert [batch.tolist() for batch in again] == [[4, 9], [16]]


@every_loader
@pytest.mark.usefixtures("maybe_ahead")
def test_the_copy_is_a_part_of_its_own(workers, n):
    loader = load(batches(), workers, n)
    list(loader)
    for stats in (loader.stats(), profile(loader)):
        (part,) = [part for part in stats.parts if part.name == "copying to the device"]
        assert (part.items, part.kind, stats.items) == (stats.items, "copying", stats.items)
        assert stats.parts[-1].name == "consumer" and str(stats)
    without = load(batches(), workers, n, None)
    list(without)
    assert "copying to the device" not in [part.name for part in without.stats().parts]


def test_a_slow_copy_is_the_bottleneck(monkeypatch):
    monkeypatch.setattr(torch.Tensor, "to", lambda tensor, device: threading.Event().wait(0.01) or tensor)
    loader = load(numbers(20).map(np.array), "threads", 1)
    list(loader)
    assert loader.stats().bottleneck == "copying to the device" and "few large arrays" in loader.stats().advice


@pytest.mark.skipif(not torch.accelerator.is_available(), reason="torch finds no accelerator on this machine")
@every_loader
def test_a_real_device(workers, n):
    """The values of a thousand batches are right when the device reads them, however far the program is ahead of it."""
    device = torch.accelerator.current_accelerator()
    dataset = numbers(1000).map(lambda i: {"x": np.full((64, 1000), i, np.float32), "__key__": str(i)})
    sums, keys = [], []
    for batch in load(dataset, workers, n, device):
        assert batch["x"].device.type == device.type
        sums.append(batch["x"].sum(dtype=torch.float32) / 64_000)
        keys.append(int(batch["__key__"]))
        del batch  # its memory may be given to the next copy, but not before the sum
    assert torch.stack(sums).cpu().tolist() == pytest.approx(keys)
    assert sorted(keys) == list(range(1000))
