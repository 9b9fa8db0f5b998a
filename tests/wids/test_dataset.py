"""`ShardListDataset`, and the defects of its namesake that it does not have."""

import hashlib
import io
import json
import pickle
import tarfile
import threading
import warnings
from pathlib import Path

import numpy as np
import pytest

import webdataset as wds
import wids
from webdataset import stores
from webdataset.errors import (
    DecodingError,
    DuplicateField,
    FormatError,
    ShardNotFound,
    SpecError,
    StaleIndex,
    UnsafeContent,
)
from webdataset.stores._trust import may_send_credentials
from webdataset.testing import FaultServer


def write_tar(path, members, format=tarfile.USTAR_FORMAT):
    with tarfile.open(path, "w", format=format) as archive:
        for name, payload in members:
            info = tarfile.TarInfo(name)
            info.size = len(payload)
            archive.addfile(info, io.BytesIO(payload))
    return str(path)


def described(path, count):
    return [{"url": str(path), "nsamples": count}]


def numbers(dataset):
    return [sample[".cls"] for sample in dataset]


@pytest.mark.parametrize(
    "spec",
    [
        lambda data: str(data / "dataset.json"),
        lambda data: data / "dataset.json",
        lambda data: io.StringIO(
            json.dumps(
                {
                    "wids_version": 1,
                    "shardlist": [{"url": f"{data}/train-{n:06d}.tar", "nsamples": (4, 4, 2)[n]} for n in range(3)],
                }
            )
        ),
        lambda data: f"{data}/train-{{000000..000002}}.tar",
        lambda data: [f"{data}/train-{n:06d}.tar" for n in range(3)],
    ],
)
def test_everything_that_names_shards(data, spec):
    with wids.ShardListDataset(spec(data)) as dataset:
        assert len(dataset) == 10 and dataset.lengths == [4, 4, 2]
        assert numbers(dataset) == list(range(10)) and dataset[-1][".txt"] == "number 9"
        for outside in (10, -11):
            with pytest.raises(IndexError):
                dataset[outside]


def test_relative_addresses_and_base(data):
    shards = [{"url": "train-000000.tar", "nsamples": 4}]
    with wids.ShardListDataset(shards, base=str(data), dataset_name="mine") as dataset:
        sample = dataset[2]
    assert sample["__dataset__"] == "mine" and sample["__shard__"] == f"{data}/train-000000.tar"
    assert (sample["__index__"], sample["__shardindex__"], sample["__key__"]) == (2, 2, "002")


def test_samples_of_several_datasets_say_which(data):
    parts = [{"name": "first", "source_url": "dataset.json"}, {"name": "second", "source_url": "dataset.json"}]
    (data / "both.json").write_text(json.dumps({"wids_version": 1, "datasets": parts}))
    with wids.ShardListDataset(data / "both.json") as dataset:
        assert len(dataset) == 20 and [dataset[n]["__dataset__"] for n in (0, 19)] == ["first", "second"]


def test_streams_until_decoded(data):
    with wids.ShardListDataset(data / "dataset.json", transformations=None) as dataset:
        assert dataset[3][".txt"].read() == b"number 3"
        assert dataset.add_transform(wids.decode_basic) is dataset and dataset[3][".cls"] == 3
        assert dataset.add_transform(lambda sample: sample[".cls"] + 1)[3] == 4


def test_transformations(tmp_path):
    image = np.arange(48, dtype=np.uint8).reshape(4, 4, 3)
    png = wds.TarWriter(tmp_path / "a.tar")
    png.write({"__key__": "a", "png": image, "seg.png": image[:, :, 0], "json": [1], "npy": image, "bin": b"?"})
    png.write({"__key__": "b", "txt.gz": "hello"})
    png.close()
    with wids.ShardListDataset(described(tmp_path / "a.tar", 2), transformations="numpy") as dataset:
        first, second = dataset[0], dataset[1]
    assert (first[".png"] == image).all() and first[".seg.png"].shape == (4, 4) and (first[".npy"] == image).all()
    assert first[".json"] == [1] and first[".bin"].read() == b"?" and second[".txt.gz"] == "hello"
    with wids.ShardListDataset(described(tmp_path / "a.tar", 2)) as dataset:
        picture = dataset[0][".png"]
    assert picture.mode == "RGB" and picture.size == (4, 4) and dataset[0][".seg.png"].mode == "L"
    dataset.close()


def test_a_field_that_cannot_be_decoded_says_where(tmp_path):
    shard = write_tar(tmp_path / "a.tar", [("x.json", b"{")])
    with wids.ShardListDataset(described(shard, 1)) as dataset, pytest.raises(DecodingError, match="sample x"):
        dataset[0]


def test_what_is_wrong_is_refused_at_once(data):
    for wrong in ({"transformations": "torch"}, {"transformations": [3]}, {"lru_size": 0}):
        with pytest.raises(SpecError):
            wids.ShardListDataset(data / "dataset.json", **wrong)
    with pytest.raises(SpecError):
        wids.ShardListDataset({"wids_version": 1, "shardlist": []})
    with pytest.raises(ShardNotFound):
        wids.ShardListDataset(data / "nothing.json")
    with pytest.warns(UserWarning, match="lru_size"):
        wids.ShardListDataset(data / "dataset.json", lru_size=201)


# --- defects of the namesake -------------------------------------------------------------------------------------


@pytest.mark.parametrize("format", [tarfile.GNU_FORMAT, tarfile.PAX_FORMAT, tarfile.USTAR_FORMAT])
def test_long_names_are_not_cut(tmp_path, format):
    names = [f"{'d' * 60}/{'k' * 60}{n}.txt" for n in range(3)]
    shard = write_tar(tmp_path / "a.tar", [(name, name.encode()) for name in names], format)
    with wids.ShardListDataset(described(shard, 3)) as dataset:
        assert [sample["__key__"] + ".txt" for sample in dataset] == names
        assert [sample[".txt"] for sample in dataset] == names


def test_a_name_that_comes_twice_is_an_error_of_its_sample_alone(tmp_path):
    members = [("a.txt", b"1"), ("b.txt", b"2"), ("b.txt", b"3"), ("c.txt", b"4")]
    shard = write_tar(tmp_path / "a.tar", members)
    with wids.ShardListDataset(described(shard, 3)) as dataset:
        assert dataset[0][".txt"] == "1" and dataset[2][".txt"] == "4"
        with pytest.raises(DuplicateField):
            dataset[1]


def test_members_without_a_dot_belong_to_no_sample(tmp_path):
    shard = write_tar(tmp_path / "a.tar", [("README", b"?"), ("a.txt", b"1")])
    with wids.ShardListDataset(described(shard, 1)) as dataset:
        assert dataset[0][".txt"] == "1"


def test_shards_of_the_same_name_do_not_collide_in_the_cache(tmp_path):
    with FaultServer() as server:
        shards = []
        for folder in ("xxx", "yyy"):
            path = write_tar(tmp_path / "0.tar", [("a.txt", folder.encode())])
            shards.append({"url": server.add(f"{folder}/0.tar", open_bytes(path)), "nsamples": 1})
        with wids.ShardListDataset(shards, cache_dir=tmp_path / "cache") as dataset:
            assert [sample[".txt"] for sample in dataset] == ["xxx", "yyy"]


def open_bytes(path):
    with open(path, "rb") as file:
        return file.read()


def test_a_wrong_count_is_said_when_the_shard_is_opened(data):
    with wids.ShardListDataset(described(data / "train-000000.tar", 5)) as dataset:
        for _ in range(2):
            with pytest.raises(StaleIndex, match="counts 5 samples, the shard has 4"):
                dataset[0]


def test_another_size_is_refused(data):
    shards = [{"url": str(data / "train-000000.tar"), "nsamples": 4, "filesize": 17}]
    with wids.ShardListDataset(shards) as dataset, pytest.raises(StaleIndex, match="17 bytes"):
        dataset[0]


@pytest.mark.parametrize("how", ["cache", "localname"])
def test_another_content_is_refused_and_not_kept(data, tmp_path, how):
    content = (data / "train-000000.tar").read_bytes()
    where = (
        {"cache_dir": tmp_path / "c"} if how == "cache" else {"localname": lambda url: str(tmp_path / "c" / "0.tar")}
    )
    with FaultServer() as server:
        url = server.add("a.tar", content)
        entry = {"url": url, "nsamples": 4, "filesize": len(content), "md5sum": "0" * 32}
        with wids.ShardListDataset([entry], **where) as dataset:
            for _ in range(2):
                with pytest.raises(StaleIndex, match="md5"):
                    dataset[0]
        assert server.requests("a.tar") >= 2
    assert not [path for path in (tmp_path / "c").rglob("*.tar")]


@pytest.mark.parametrize("how", ["cache_dir", "localname"])
def test_an_md5_in_capitals_is_the_same(data, tmp_path, how):
    content = (data / "train-000000.tar").read_bytes()
    where = {"cache_dir": tmp_path / "c"} if how == "cache_dir" else {"localname": lambda _: str(tmp_path / "0.tar")}
    with FaultServer() as server:
        url = server.add("a.tar", content)
        entry = {"url": url, "nsamples": 4, "md5sum": hashlib.md5(content).hexdigest().upper()}
        with wids.ShardListDataset([entry], **where) as dataset:
            assert dataset[3][".cls"] == 3


def test_nothing_is_printed(data, capfd):
    with wids.ShardListDataset(data / "dataset.json") as dataset:
        dataset[0]
    assert capfd.readouterr() == ("", "")


def test_more_shards_than_a_hundred(tmp_path):
    shards = []
    for number in range(120):
        path = write_tar(tmp_path / f"{number}.tar", [("a.cls", str(number).encode())])
        shards += described(path, 1)
    with wids.ShardListDataset(shards, lru_size=200) as dataset:
        assert numbers(dataset) == list(range(120))


# --- where shards are read ---------------------------------------------------------------------------------------


@pytest.fixture
def served(data):
    with FaultServer() as server:
        for path in data.iterdir():
            server.add(path.name, path.read_bytes())
        yield server


def test_remote_samples_are_fetched_by_ranges(served, data):
    with wids.ShardListDataset(served.url("dataset.json")) as dataset:
        assert dataset[1][".txt"] == "number 1"
        assert dataset.get_stats() == (1, 1)
    size = (data / "train-000000.tar").stat().st_size
    assert 0 < served.sent("train-000000.tar") < size and served.sent("train-000001.tar") == 0


@pytest.mark.parametrize("how", ["cache_dir", "environment", "localname"])
def test_whole_shards_are_fetched_once(served, data, tmp_path, how, monkeypatch):
    options = {}
    if how == "cache_dir":
        options = {"cache_dir": tmp_path / "cache"}
    elif how == "localname":
        options = {"localname": lambda url: str(tmp_path / "copies" / url.rpartition("/")[2])}
    else:
        monkeypatch.setenv("WIDS_CACHE", str(tmp_path / "cache"))
    for _ in range(2):
        with wids.ShardListDataset(served.url("dataset.json"), **options) as dataset:
            assert numbers(dataset) == list(range(10))
    assert served.sent("train-000000.tar") == (data / "train-000000.tar").stat().st_size


def test_the_cache_has_a_limit(served, data, tmp_path):
    size = (data / "train-000000.tar").stat().st_size
    with wids.ShardListDataset(
        served.url("dataset.json"), cache_dir=tmp_path / "cache", cache_size=1.5 * size, lru_size=1
    ) as dataset:
        assert numbers(dataset) == list(range(10))
    assert len(list((tmp_path / "cache").glob("*.tar"))) == 1


# --- state -------------------------------------------------------------------------------------------------------


def test_few_shards_stay_open_and_misses_are_counted(data):
    with wids.ShardListDataset(data / "dataset.json", lru_size=1) as dataset:
        for index in (0, 1, 5, 0):
            dataset[index]
        assert dataset.get_stats() == (4, 3) and len(dataset._open) == 1


def test_many_misses_are_said_once(data):
    with wids.ShardListDataset(data / "dataset.json", lru_size=1) as dataset:
        with pytest.warns(UserWarning, match="accesses opened a shard again"):
            for _ in range(60):
                dataset[0], dataset[9]
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            dataset[0]


def test_pickled(data):
    with wids.ShardListDataset(data / "dataset.json") as dataset:
        dataset[0]
        again = pickle.loads(pickle.dumps(dataset))
    assert numbers(again) == list(range(10))
    again.close()


def test_from_many_threads(data):
    found = []
    with wids.ShardListDataset(data / "dataset.json", lru_size=1) as dataset:
        threads = [threading.Thread(target=lambda: found.append(numbers(dataset))) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert found == [list(range(10))] * 4


@pytest.mark.parametrize("workers", [0, 2])
def test_torch_loader(data, workers):
    from torch.utils.data import DataLoader

    with wids.ShardListDataset(data / "dataset.json") as dataset:
        sampler = wids.ShardListSampler(dataset)
        loader = DataLoader(dataset, 3, sampler=sampler, num_workers=workers, collate_fn=numbers)
        assert sorted(sum(loader, [])) == list(range(10)) and len(loader) == 4


@pytest.mark.parametrize(
    "url", ["{tmp}/secret.tar", "../secret.tar", "file:{tmp}/secret.tar", "pipe:touch marker", "-"]
)
def test_a_description_in_an_open_file_is_data(tmp_path, monkeypatch, url):
    """As one that is named by its address: the program did not write what is in it."""
    (tmp_path / "secret.tar").touch()
    (tmp_path / "data").mkdir()
    monkeypatch.chdir(tmp_path / "data")
    Path("d.json").write_text(json.dumps({"wids_version": 1, "shardlist": [{"url": url.format(tmp=tmp_path), "nsamples": 1}]}))  # fmt: skip
    for base in (None, str(tmp_path / "data")):
        with open("d.json") as file, pytest.raises((UnsafeContent, ShardNotFound)):
            wids.ShardListDataset(file, base=base)[0]


def test_a_description_in_an_open_file_is_read_as_from_its_folder(data, monkeypatch):
    monkeypatch.chdir("/")
    (data / "d.json").write_text(json.dumps({"wids_version": 1, "shardlist": [{"url": "train-000000.tar", "nsamples": 4}]}))  # fmt: skip
    with open(data / "d.json") as file, wids.ShardListDataset(file) as dataset:
        assert len(numbers(dataset)) == 4


def test_an_open_file_without_a_description_is_an_error_of_ours():
    with pytest.raises(FormatError, match="not JSON"):
        wids.ShardListDataset(io.BytesIO(b"{nonsense"))


def test_addresses_of_an_open_file_get_no_credentials_of_another_host():
    stores.write_bytes("memory://open/d.json", json.dumps({"wids_version": 1, "shardlist": [{"url": "https://other/a.tar", "nsamples": 1}]}).encode())  # fmt: skip
    with wds.gopen("memory://open/d.json") as file:
        file.url = "https://h/d.json"
        (entry,) = wids.ShardListDataset(file).shards
    assert not may_send_credentials(entry.url)
