import multiprocessing
import pickle
import threading
from pathlib import Path

import pytest
from tests.index.archives import expected, make, many

from webdataset import stores
from webdataset.errors import SpecError, StaleIndex
from webdataset.index import Description, IndexedShards, ShardEntry, build_index, index_url, save_index

COUNTS = (7, 0, 3, 12)


@pytest.fixture
def urls(tmp_path):
    names, start = [], 0
    for number, count in enumerate(COUNTS):
        names.append(str(tmp_path / f"{number}.tar"))
        (tmp_path / f"{number}.tar").write_bytes(make(many(count, start)))
        start += count
    return names


@pytest.fixture
def dataset(urls):
    with IndexedShards(urls) as dataset:
        yield dataset


def bare(sample):
    return {key: value for key, value in sample.items() if not key.startswith("__")}


def test_length_numbers_and_order(dataset):
    assert len(dataset) == 22 and dataset.counts == list(COUNTS)
    wanted = list(expected(many(22)).items())
    assert [(s["__key__"], bare(s)) for s in dataset] == wanted
    assert dataset[-1]["__key__"] == wanted[-1][0]
    for outside in (22, -23):
        with pytest.raises(IndexError):
            dataset[outside]


def test_slices_are_views(dataset):
    view = dataset[5:15][::2]
    assert len(view) == 5 and [s["__key__"] for s in view] == [f"dir/{n:06d}" for n in range(5, 15, 2)]
    assert [s["__key__"] for s in dataset[::-1]][:2] == ["dir/000021", "dir/000020"]
    assert view.find("dir/000007") == 1 and view["dir/000007"]["__key__"] == "dir/000007"
    with pytest.raises(KeyError):
        view["dir/000006"]
    with pytest.raises(IndexError):
        view[5]


def test_by_key(dataset):
    assert dataset.find("dir/000008") == 8 and dataset["dir/000021"]["jpg"] == expected(many(22))["dir/000021"]["jpg"]
    with pytest.raises(KeyError):
        dataset["nope"]


def test_many_at_once_in_the_order_asked_for(dataset):
    numbers = [21, 0, 8, 8, 3]
    assert [s["__key__"] for s in dataset.__getitems__(numbers)] == [f"dir/{n:06d}" for n in numbers]


def test_projection_transform_and_lazy_fields(urls):
    with IndexedShards(urls, fields=["json"], functions=[lambda s: sorted(bare(s))]) as dataset:
        assert dataset[3] == ["json"]
    with IndexedShards(urls, lazy=True) as dataset:
        sample = dataset[4]
        assert set(sample) == {"__key__", "__url__", "jpg", "json"} and len(sample) == 4 and not sample._known
        assert sample["jpg"] == expected(many(22))["dir/000004"]["jpg"] and "json" not in sample._known
        assert sample["__key__"] == "dir/000004" and "nope" not in sample
        with pytest.raises(KeyError):
            sample["nope"]
    with IndexedShards(urls, lazy=True, fields=["jpg"]) as dataset:
        assert "json" not in dataset[0]


def test_where_without_reading(dataset):
    place = dataset.where(9)
    assert (place.key, place.number) == ("dir/000009", 2) and place.url.endswith("2.tar")
    data = Path(place.url).read_bytes()
    assert {e.field: data[e.offset : e.stop] for e in place.extents} == expected(many(22))["dir/000009"]


def test_stored_indexes_are_used_and_counts_come_from_their_first_lines(urls, tmp_path):
    for url in urls:
        save_index(build_index(url), url, str(tmp_path / "idx"))
    for url, count in zip(urls, COUNTS):
        if count:  # an index without samples is compared with its shard
            (tmp_path / url).rename(url + ".away")
    dataset = IndexedShards(urls, index=str(tmp_path / "idx"))
    assert len(dataset) == 22 and dataset.where(0).key == "dir/000000"
    (tmp_path / "idx").joinpath(index_url(urls[0], "x").rpartition("/")[2]).unlink()
    assert dataset.where(0).key == "dir/000000"


def test_a_description_gives_the_length_without_looking(urls):
    description = Description([ShardEntry(url, count) for url, count in zip(urls, COUNTS)])
    with IndexedShards(description) as dataset:
        assert len(dataset) == 22 and dataset[10]["__key__"] == "dir/000010"
    with IndexedShards(Description([ShardEntry("nowhere.tar", 5)])) as dataset:
        assert len(dataset) == 5


def test_counts_that_do_not_match_are_noticed(urls):
    with (
        IndexedShards(Description([ShardEntry(urls[0], 9)])) as dataset,
        pytest.raises(StaleIndex, match="counts 9 samples, the index 7"),
    ):
        dataset[0]


def test_a_changed_shard_is_noticed(urls, tmp_path):
    for url in urls:
        save_index(build_index(url), url)
    (tmp_path / "0.tar").write_bytes(make(many(7, start=500)))
    with IndexedShards(urls) as dataset:
        assert dataset[8]["__key__"] == "dir/000008"
        with pytest.raises(StaleIndex, match="0.tar"):
            dataset[0]


def test_pickles_and_works_in_spawned_processes(dataset):
    dataset[0]
    again = pickle.loads(pickle.dumps(dataset[3:9]))
    assert [s["__key__"] for s in again] == [f"dir/{n:06d}" for n in range(3, 9)]
    again.close()
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        assert pool.map(dataset.__getitem__, [5])[0]["__key__"] == "dir/000005"
        pool.close()
        pool.join()


def test_many_threads_at_once(dataset):
    wrong = []

    def work(seed):
        for step in range(200):
            number = (step * 7 + seed * 5) % 22
            if dataset[number]["__key__"] != f"dir/{number:06d}":
                wrong.append(number)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(6)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    assert not wrong


def test_open_shards_are_limited(tmp_path, monkeypatch):
    monkeypatch.setattr("webdataset.index._indexed_shards._OPEN_SHARDS", 2)
    urls = []
    for number in range(5):
        urls.append(str(tmp_path / f"{number}.tar"))
        (tmp_path / f"{number}.tar").write_bytes(make(many(2, 2 * number)))
    with IndexedShards(urls) as dataset:
        assert [s["__key__"] for s in dataset] == [f"dir/{n:06d}" for n in range(10)]
        assert len(dataset._shards._readers) == 2


def test_torch_samplers_and_loaders_take_it(dataset):
    data = pytest.importorskip("torch.utils.data")
    sampler = data.DistributedSampler(dataset, num_replicas=3, rank=1, shuffle=True, seed=4)
    loader = data.DataLoader(dataset, batch_size=4, sampler=sampler, collate_fn=list)
    keys = [s["__key__"] for batch in loader for s in batch]
    assert len(keys) == 8 and set(keys) <= set(expected(many(22)))
    assert [s["__key__"] for s in data.Subset(dataset, [3, 1])] == ["dir/000003", "dir/000001"]


def test_remote_shards():
    with stores.open_write("memory://dataset/a.tar") as stream:
        stream.write(make(many(5)))
    with IndexedShards(["memory://dataset/a.tar"]) as dataset:
        assert dataset[4]["__key__"] == "dir/000004" and "__local_path__" not in dataset[4]


def test_wrong_arguments():
    for wrong in ({"shards": "a.tar"}, {"shards": [], "functions": [3]}):
        with pytest.raises(SpecError):
            IndexedShards(**wrong)
    assert len(IndexedShards([])) == 0 and "0 samples" in repr(IndexedShards([]))


def test_a_key_that_is_not_there_is_named_with_one_that_is(tmp_path):
    from webdataset import tar
    from webdataset.index import IndexedShards

    path = tmp_path / "a.tar"
    path.write_bytes(tar.encode_header("0001.txt", 3) + b"abc" + tar.padding(3) + tar.END_OF_ARCHIVE)
    with IndexedShards([str(path)]) as dataset:
        assert dataset["0001"]["txt"] == b"abc"
        with pytest.raises(KeyError, match=r"no sample '1' among these 1; the first one is '0001'"):
            dataset["1"]
