import gc
import os
import pickle
from pathlib import Path

import pytest
import torch
from torch.utils.data import DataLoader

from webdataset.pipeline import DataPipeline, EpochCounter

from .numbers import Numbers


class Epochs(Numbers):
    """Yields the number of the pass."""

    def start(self, during):
        at = super().start(during)
        at.epoch = during.epoch
        return at

    def run(self, items, at, /):
        yield at.epoch


@pytest.mark.parametrize(
    ("method", "persistent"),
    [("fork", False), ("fork", True), ("spawn", True), pytest.param("spawn", False, marks=pytest.mark.long)],
)
def test_D44_every_worker_counts_the_same_epochs(method, persistent):
    dataset = DataPipeline(Epochs(1))
    loader = DataLoader(
        dataset, batch_size=None, num_workers=2, multiprocessing_context=method, persistent_workers=persistent
    )
    seen = [[int(epoch) for epoch in loader] for _ in range(2)]
    assert seen == [[0, 0], [1, 1]]
    if persistent or method == "fork":  # starting spawned workers once more proves nothing new
        dataset.set_epoch(7)
        assert [int(epoch) for epoch in loader] == [7, 7]
    del loader


@pytest.mark.parametrize("workers", [1, 3])
def test_another_number_of_workers_counts_on(workers):
    dataset = DataPipeline(Epochs(1))
    assert [int(e) for e in DataLoader(dataset, batch_size=None, num_workers=2)] == [0, 0]
    assert [int(e) for e in DataLoader(dataset, batch_size=None, num_workers=workers)] == [1] * workers
    assert [int(e) for e in dataset] == [2]


def test_workers_that_repeat_at_different_speeds_agree():
    dataset = DataPipeline(Epochs(1)).repeat(3)
    epochs = [int(e) for e in DataLoader(dataset, batch_size=None, num_workers=2)]
    assert sorted(epochs) == [0, 0, 1, 1, 2, 2]


def test_a_pickled_counter_goes_on_from_its_number():
    counter = EpochCounter()
    counter.next()
    assert pickle.loads(pickle.dumps(counter)).next() == 1
    assert counter.next() == 1


def test_more_iterations_than_entries_are_counted_too(monkeypatch):
    import webdataset.pipeline._epoch_counter as module

    monkeypatch.setattr(module, "_ENTRIES", 2)
    dataset = DataPipeline(Epochs(1))
    loader = DataLoader(dataset, batch_size=None, num_workers=2, persistent_workers=True)
    assert [[int(epoch) for epoch in loader] for _ in range(5)] == [[epoch, epoch] for epoch in range(5)]
    del loader


def test_a_counter_is_shared_when_a_process_is_started_and_not_before():
    dataset = DataPipeline(Epochs(1)).repeat(1)
    assert [int(epoch) for epoch in dataset] == [0] and not dataset._epochs.is_shared
    assert [int(epoch) for epoch in DataLoader(dataset, batch_size=None, num_workers=1)] == [1]
    assert dataset._epochs.is_shared and [int(epoch) for epoch in dataset] == [2]


@pytest.mark.parametrize("method", ["fork", pytest.param("spawn", marks=pytest.mark.long)])
def test_seeding_torch_anew_for_every_epoch_does_not_repeat_the_epoch(method):
    dataset = DataPipeline(Epochs(1))
    seen = []
    for _ in range(2):
        torch.manual_seed(0)
        loader = DataLoader(dataset, batch_size=None, num_workers=3, multiprocessing_context=method)
        seen.append([int(epoch) for epoch in loader])
    assert seen == [[0, 0, 0], [1, 1, 1]]


def test_a_shared_counter_is_closed_with_its_dataset():
    def shared():
        links = (os.readlink(entry) for entry in Path("/proc/self/fd").iterdir() if entry.is_symlink())
        return sorted(target for target in links if "wds-epochs-" in target)

    gc.collect()
    before = shared()
    for _ in range(3):
        dataset = DataPipeline([1, 2]).compose(iter)
        assert list(DataLoader(dataset, batch_size=None, num_workers=1, multiprocessing_context="fork")) == [1, 2]
    del dataset
    gc.collect()
    assert shared() == before
