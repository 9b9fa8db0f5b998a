"""The module names of wids that programs import, used as they use them."""

import fcntl
import gzip
import importlib
import io
import json
import os
import random
import tarfile
import time
from pathlib import Path

import pytest

from webdataset.errors import StaleIndex, TruncatedShard
from webdataset.testing import make_shard
from wids import ShardListDataset, wids, wids_cleanup, wids_decode, wids_dl, wids_lru, wids_mmtar, wids_specs, wids_tar

LONG = "a" * 120 + "/" + "b" * 90


@pytest.fixture
def shard(tmp_path):
    """Long names, a name twice, a name without a dot: what the index of wids mixed up."""
    path = tmp_path / "s.tar"
    with tarfile.open(path, "w", format=tarfile.GNU_FORMAT) as archive:
        for name, text in (
            ("x/1.txt", "one"),
            ("x/1.cls", "1"),
            ("README", "r"),
            (f"{LONG}.txt", "long"),
            ("x/1.txt", "two"),
        ):
            info = tarfile.TarInfo(name)
            info.size = len(text)
            archive.addfile(info, io.BytesIO(text.encode()))
    return str(path)


NAMES = ["x/1.txt", "x/1.cls", "README", f"{LONG}.txt", "x/1.txt"]


def test_samples_of_one_file(shard):
    samples = wids.IndexedTarSamples(path=shard, expected_size=3, md5sum=wids.compute_file_md5sum(shard).upper())
    assert len(samples) == 3 == wids.compute_num_samples(shard) and samples.path == shard
    first = samples[0]
    assert first.pop("__key__") == "x/1" and {name: value.read() for name, value in first.items()} == {
        ".txt": b"one",
        ".cls": b"1",
    }
    assert samples[1]["__key__"] == LONG and samples[2][".txt"].read() == b"two"
    samples.close()
    with open(shard, "rb") as stream:
        assert len(wids.IndexedTarSamples(stream=stream)) == 3


@pytest.mark.parametrize("wrong", [{"md5sum": "0" * 32}, {"expected_size": 4}])
def test_a_wrong_description_is_an_error_at_once(shard, wrong):
    with pytest.raises(StaleIndex, match="expected"):
        wids.IndexedTarSamples(path=shard, **wrong)


def test_names_and_groups():
    assert wids.splitname("a.b/c.d.e") == ("a.b/c", ".d.e")
    with pytest.raises(ValueError, match="no extension"):
        wids.splitname("a.b/c")
    assert wids.group_by_key(NAMES) == [[0, 1], [3], [4]]


def test_ranges():
    assert wids.lengths_to_ranges([3, 2]) == [(0, 3), (3, 5)] and wids.lengths_to_ranges([]) == []
    assert wids.intersect_ranges([(0, 3), (3, 5)], (4, 9)) == [(4, 5)]
    ranges = [(0, 3), (3, 5), (9, 12)]
    rng = random.Random(5)
    order = [0, 1, 2]
    rng.shuffle(order)
    expected = []
    for number in order:
        inside = list(range(*ranges[number]))
        rng.shuffle(inside)
        expected += inside
    assert list(wids.iterate_ranges(ranges, random.Random(5))) == expected
    assert list(wids.iterate_ranges(ranges, random.Random(5), False, False)) == [0, 1, 2, 3, 4, 9, 10, 11]


def test_shards_that_were_used_last(tmp_path):
    urls = [make_shard(f"memory://lru/{n}.tar", [{"__key__": str(n), "txt": "x"}]) for n in range(3)]
    shards = wids.LRUShards(2, localname=wids.cache_localname(str(tmp_path / "copies")))
    for url in (*urls, urls[2]):
        assert shards.get_shard(url)[0]["__key__"] == url[-5]
    assert (len(shards), shards.accesses, shards.misses, shards.last_missed) == (2, 4, 3, urls[2])
    assert urls[0] not in shards.lru
    shards.clear()
    assert len(shards) == 0
    assert wids.default_localname("/d")("s3://b/x/0.tar") != wids.default_localname("/d")("s3://b/y/0.tar")


def test_a_dataset_tells_where_its_shards_are(shard):
    with ShardListDataset([{"url": shard, "nsamples": 3}]) as dataset:
        found, offset, entry = dataset.get_shard(1)
        assert (found.path, offset, entry.url, dataset.total_length) == (shard, 1, shard, 3)
        assert isinstance(dataset.cache, wids.LRUShards)


def test_members_by_number_name_and_offset(shard):
    told = []
    members = wids_mmtar.MMIndexedTar(shard, cleanup_callback=lambda *args: told.append(args[::2]))
    with tarfile.open(shard) as archive:
        infos = archive.getmembers()
    assert members.names() == NAMES and len(members) == 5
    assert [row[::2] for row in members.by_index] == [(info.name, info.size) for info in infos]
    assert list(members) == [
        (name, data) for name, data in zip(NAMES, (b"one", b"1", b"r", b"long", b"two"), strict=True)
    ]
    assert members[0] == members.get_at_index(0) == members.get_at_offset(0) == ("x/1.txt", b"one")
    assert members["README"] == ("README", b"r") and members["x/1.txt"][1] == b"two"
    assert members.get_file(3)[1].read() == b"long"
    members.close()
    assert told == [(shard, "start"), (shard, "end")]


def test_a_file_that_shrinks_is_an_error(shard):
    members = wids_mmtar.MMIndexedTar(shard)
    os.truncate(shard, 100)
    with pytest.raises(TruncatedShard):
        members[4]
    members.close()


def test_a_file_is_kept_while_it_is_read(shard):
    readers = [wids_mmtar.MMIndexedTar(shard, cleanup_callback=wids_mmtar.keep_while_reading) for _ in range(2)]
    readers[0].close()
    assert os.path.exists(shard)
    readers[1].close()
    assert not os.path.exists(shard)
    wids_mmtar.keep_while_reading(None, -1, "end")
    with pytest.raises(ValueError, match="phase"):
        wids_mmtar.keep_while_reading(shard, 0, "middle")


def test_a_reader_without_a_pickle(shard):
    """An index file of wids is a pickle: a stranger's must not be loaded, and none is written."""
    with open(wids_tar.find_index_file(shard), "wb") as file:
        file.write(b"cos\nsystem\n(S'exit 1'\ntR.")
    reader = wids_tar.TarFileReader(shard)
    assert reader.names() == NAMES and len(reader) == 5 and reader.get_file(0)[1].read() == b"one"
    reader.close()


def test_values_by_use():
    gone = []
    cache = wids_lru.LRUCache(2, release_handler=lambda *entry: gone.append(entry))
    cache["a"], cache["b"] = 1, 2
    assert cache["a"] == 1 and cache["z"] is None
    cache["c"] = 3
    assert gone == [("b", 2)] and list(cache.keys()) == ["a", "c"] and "b" not in cache
    del cache["a"]
    cache.clear()
    assert gone == [("b", 2), ("a", 1), ("c", 3)] and len(cache) == 0 == len(cache.items()) == len(cache.values())


def test_downloads(tmp_path):
    url = make_shard("memory://dl/a.tar", [{"__key__": "0", "txt": "x"}])
    target = str(tmp_path / "d" / "a.tar")
    wids_dl.recent_downloads.clear()
    with wids_dl.download_and_open(url, target) as stream:
        assert len(stream.read()) == os.path.getsize(target) > 1024
    assert wids_dl.download_file(url, target) == target
    assert [entry[:2] for entry in wids_dl.recent_downloads] == [(url, target)]
    source = tmp_path / "it's.txt"
    source.write_text("hello")
    copied = wids_dl.download_file(
        f"my:{source}", str(tmp_path / "copy"), {"my": lambda remote, local: os.link(remote[3:], local)}
    )
    assert Path(copied).read_text() == "hello"
    copied = wids_dl.download_file(str(source), str(tmp_path / "copy 2"), {"file": "cp {url} {local}"})
    assert Path(copied).read_text() == "hello"
    with pytest.raises(ValueError, match="no handler"):
        wids_dl.download_file("other:x", str(tmp_path / "c"), {"my": "true"})
    with pytest.raises(OSError, match="status"):
        wids_dl.download_file("my:x", str(tmp_path / "e"), {"my": "echo x > {local}; exit 3"})
    assert not (tmp_path / "e").exists()


@pytest.mark.parametrize(
    ("limits", "left"), [({"maxfiles": 2}, "34"), ({"maxsize": 35}, "234"), ({}, "01234"), ({"maxfiles": 0}, "")]
)
def test_old_files_are_deleted(tmp_path, limits, left):
    now = time.time()
    for n in range(5):
        (tmp_path / f"{n}.tar").write_bytes(bytes(10))
        os.utime(tmp_path / f"{n}.tar", (now + n, now + n))
    wids_cleanup.keep_most_recent_files(str(tmp_path / "*.tar"), **limits)
    assert sorted(path.name[0] for path in tmp_path.glob("*.tar")) == list(left)


def test_one_holder_of_a_lock(tmp_path):
    lock = wids_cleanup.ExclusiveLock(str(tmp_path / "lock"))
    assert lock.try_lock()
    with open(tmp_path / "lock") as file, pytest.raises(BlockingIOError):
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    lock.release_lock()


def test_descriptions(tmp_path):
    assert wids_specs.urlmerge("http://h/x", "a.tar#f") == "http://h/x/a.tar#f"
    (tmp_path / "part.json").write_text(json.dumps({"wids_version": 1, "shardlist": [{"url": "p.tar", "nsamples": 2}]}))
    whole = {
        "wids_version": 1,
        "name": "n",
        "datasets": [{"source_url": "part.json", "weight": 2}, {"shardlist": [{"url": "q.tar", "nsamples": 1}]}],
    }
    (tmp_path / "d.json").write_text(json.dumps(whole))
    found = wids_specs.load_dsdesc_and_resolve(str(tmp_path / "d.json"))
    assert [(entry["url"].rpartition("/")[2], entry["nsamples"]) for entry in found["shardlist"]] == [
        ("p.tar", 2),
        ("q.tar", 1),
    ]
    assert wids_specs.load_remote_dsdesc_raw(str(tmp_path / "d.json")) == whole
    assert wids_specs.rebase_shardlist([{"url": "a.tar"}], "s3://b") == [{"url": "s3://b/a.tar"}]
    for wrong in ([], [{"url": "a"}], None):
        with pytest.raises(ValueError, match="expected"):
            wids_specs.check_shards(wrong)


def test_decoders():
    sample = {"__key__": "0", ".txt.gz": io.BytesIO(gzip.compress(b"hello")), ".cls": io.BytesIO(b"7")}
    assert wids_decode.default_decoder(sample)[".txt.gz"] == "hello" and wids.default_decoder(sample)[".cls"] == 7
    assert len(wids.interpret_transformations("numpy")) == 3


def test_everything_that_the_modules_name_is_there():
    assert all(hasattr(wids, name) for name in wids.__all__)
    importlib.import_module("webdataset.typecheck")
