"""`wds.IndexedDataset`: whatever names shards, through samplers, loaders and processes."""

import multiprocessing
import os
import pickle
from pathlib import Path

import pytest

import webdataset as wds
from webdataset.errors import SpecError


@pytest.fixture
def data(tmp_path):
    with wds.ShardWriter(
        f"{tmp_path}/train-%d.tar", maxcount=4, index=True, description=tmp_path / "dataset.json"
    ) as sink:
        for number in range(10):
            sink.write({"__key__": f"{number:03d}", "cls": number, "txt": f"number {number}"})
    return tmp_path


def numbers(dataset):
    return [sample["cls"] for sample in dataset]


@pytest.mark.parametrize(
    "spec",
    [
        lambda data: f"{data}/train-{{0..2}}.tar",
        lambda data: f"{data}/train-0.tar::{data}/train-1.tar::{data}/train-2.tar",
        lambda data: f"{data}/*.tar",
        lambda data: f"{data}/",
        lambda data: Path(data),
        lambda data: [data / f"train-{n}.tar" for n in range(3)],
        lambda data: [f"{data}/train-{{0..2}}.tar"],
        lambda data: f"{data}/dataset.json",
        lambda data: data / "dataset.json",
        lambda data: wds.SimpleShardList(f"{data}/train-{{0..2}}.tar"),
        lambda data: {
            "wids_version": 1,
            "shardlist": [{"url": f"{data}/train-{n}.tar", "nsamples": (4, 4, 2)[n]} for n in range(3)],
        },
    ],
)
def test_everything_that_names_shards(data, spec):
    with wds.IndexedDataset(spec(data)).decode() as dataset:
        assert len(dataset) == 10 and numbers(dataset) == list(range(10))
        assert dataset["007"]["txt"] == "number 7"


def test_map_and_decode_add_up_and_leave_the_original_alone(data):
    with wds.IndexedDataset(data / "dataset.json") as plain:
        twice = plain.decode(only=["cls"]).map(lambda sample: sample["cls"]).map(lambda number: 2 * number)
        assert twice[3] == 6 and list(twice[::-3]) == [18, 12, 6, 0]
        assert plain[3]["cls"] == b"3"


def test_what_is_wrong_is_refused_at_once(data):
    with pytest.raises(SpecError, match="fields"):
        wds.IndexedDataset(data / "dataset.json", fields="cls")
    with pytest.raises(SpecError, match="expected a function"):
        wds.IndexedDataset(data / "dataset.json").map(3)
    with pytest.raises(SpecError, match="lazy"):
        wds.IndexedDataset(data / "dataset.json", lazy=True).decode()
    with pytest.raises(SpecError):
        wds.IndexedDataset(3)
    with pytest.raises(SpecError, match="no shard matches"):
        wds.IndexedDataset(f"{data}/*.nothing")


def test_indexes_that_had_to_be_built_are_kept_on_request(data, tmp_path):
    for path in data.glob("*.idx"):
        path.unlink()
    wds.IndexedDataset(f"{data}/*.tar").close()
    assert not list(data.glob("*.idx"))
    wds.IndexedDataset(f"{data}/*.tar", index=tmp_path / "indexes", store_index=True).close()
    assert len(list((tmp_path / "indexes").iterdir())) == 3
    wds.IndexedDataset(f"{data}/*.tar", store_index=True).close()
    assert len(list(data.glob("*.idx"))) == 3


def test_pickled(data):
    dataset = wds.IndexedDataset(data / "dataset.json").decode()
    again = pickle.loads(pickle.dumps(dataset))
    assert numbers(again) == list(range(10))
    again.close()


def _sum(dataset):
    return os.getpid(), sum(numbers(dataset))


def test_spawned(data):
    dataset = wds.IndexedDataset(data / "dataset.json").decode()
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        process, total = pool.apply(_sum, (dataset,))
        pool.close()
        pool.join()
    assert process != os.getpid() and total == 45


@pytest.mark.parametrize("workers", [0, 2])
def test_torch_loaders_and_samplers(data, workers):
    data_room = pytest.importorskip("torch.utils.data")
    with wds.IndexedDataset(data / "dataset.json").decode() as dataset:
        sampler = data_room.BatchSampler(data_room.RandomSampler(dataset), 4, drop_last=False)
        loader = data_room.DataLoader(dataset, batch_sampler=sampler, num_workers=workers, collate_fn=numbers)
        batches = list(loader)
        assert sorted(n for batch in batches for n in batch) == list(range(10)) and len(batches) == 3
        subset = data_room.Subset(dataset, [9, 0])
        assert numbers(subset) == [9, 0]


def test_a_key_is_in_the_dataset_if_it_has_that_sample(data):
    """Python would compare the key with every sample otherwise, and never find it."""
    whole = wds.IndexedDataset(data)
    keys = [whole.where(number).key for number in range(len(whole))]
    part = whole[1:4]
    assert all(key in whole for key in keys) and [key for key in keys if key in part] == keys[1:4]
    assert "no such key" not in whole and "no such key" not in part and 0 not in whole
