import os
import pickle

import pytest
from tests.index.archives import make, many

from webdataset import index
from webdataset.index import IndexedShards, build
from webdataset.index._recent_indexes import RecentIndexes


def index_of(samples):
    return build([(f"{n:06d}.jpg", 512 + 1024 * n, 100) for n in range(samples)])


@pytest.fixture
def shards(tmp_path):
    urls = []
    for number in range(100):
        urls.append(str(tmp_path / f"{number:03d}.tar"))
        with open(urls[-1], "wb") as file:
            file.write(make(many(10, start=10 * number)))
        index.save_index(index.build_index(urls[-1]), urls[-1])
    return urls


def test_the_one_used_longest_ago_goes_first():
    size = index_of(100).nbytes
    recent = RecentIndexes(limit=3 * size)
    for shard in range(3):
        assert recent.put(shard, index_of(100)) == []
    assert recent.get(0) is not None
    assert recent.put(3, index_of(100)) == [1] and recent.get(0) is not None and recent.get(1) is None


def test_what_does_not_fit_alone_is_kept_alone():
    recent = RecentIndexes(limit=10)
    assert recent.put(7, index_of(1000)) == [] and recent.get(7) is not None
    assert recent.put(8, index_of(1000)) == [7] and len(recent) == 1


def test_a_table_of_keys_counts():
    one = index_of(1000)
    before = one.nbytes
    recent = RecentIndexes(limit=before + 1000)
    recent.put(0, index_of(2))
    recent.put(1, one)
    assert len(recent) == 2
    one.find("000500")
    assert one.nbytes > 5 * before and recent.put(1, one) == [0]


def test_memory_and_descriptors_stay_bounded_over_many_shards(shards, monkeypatch):
    """Mutation: with a plain dictionary all hundred indexes stay."""
    size = index.build_index(shards[0]).nbytes
    monkeypatch.setenv("WDS_INDEX_MEMORY", str(5 * size + size // 2))
    with IndexedShards(shards) as dataset:
        before = len(os.listdir("/proc/self/fd"))
        numbers = [*range(0, 1000, 10), *range(5, 1000, 10)]
        assert [dataset[number]["__key__"] for number in numbers] == [f"dir/{number:06d}" for number in numbers]
        held = dataset._shards
        assert len(held._indexes) <= 6 and len(held._readers) <= 6
        assert len(os.listdir("/proc/self/fd")) - before <= 6
        assert dataset.find("dir/000995") == 995 and dataset.find("dir/000003") == 3
        assert len(held._indexes) <= 6


def test_open_shards_stay_bounded_when_there_is_memory(shards, monkeypatch):
    monkeypatch.setattr("webdataset.index._indexed_shards._OPEN_SHARDS", 8)
    with IndexedShards(shards) as dataset:
        assert len(dataset.__getitems__(list(range(0, 1000, 7)))) == 143
        assert len(dataset._shards._readers) <= 8


def test_another_process_starts_with_none(shards):
    with IndexedShards(shards) as dataset:
        dataset[0]
        again = pickle.loads(pickle.dumps(dataset))
        assert len(again._shards._indexes) == 0 and again[999]["__key__"] == "dir/000999"
        again.close()
