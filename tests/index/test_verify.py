"""Shards of a description that are streamed as a whole: their size and MD5 are compared as the bytes pass."""

import gzip
import hashlib
import io
import json
import pickle
import tarfile

import pytest

import webdataset as wds
from webdataset import stores
from webdataset.errors import FormatError, StaleIndex
from webdataset.index import read_description
from webdataset.testing import FaultServer


def archive(samples=5, size=12000, fill=b"x"):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for number in range(samples):
            info = tarfile.TarInfo(f"{number}.bin")
            info.size = size
            tar.addfile(info, io.BytesIO(fill * size))
    return out.getvalue()


GOOD = archive()
# What may lie in the place of the described shard; each is a sound archive.
OTHERS = {
    "another byte": archive(fill=b"y"),
    "a sample more": archive(6),
    "a sample less": archive(4),
    "longer padding": GOOD + bytes(10240),
}


def described(folder, data, name="a.tar", **facts):
    facts = {"filesize": len(data), "md5sum": hashlib.md5(data).hexdigest()} | facts
    path = folder / "all.json"
    path.write_text(json.dumps({"wids_version": 1, "shardlist": [{"url": name, "nsamples": 5, **facts}]}))
    return str(path)


WAYS = {
    "streamed": {},
    "ahead": {"read_ahead": 3},
    "in memory": {"in_memory": True},
    "selected": {"select_files": "*.bin"},
}


@pytest.fixture(params=["md5", "size"])
def level(request, monkeypatch):
    monkeypatch.setenv("WDS_VERIFY_MD5", "1" if request.param == "md5" else "0")
    return request.param


def read(description, **options):
    with wds.WebDataset(description, index=False, **options) as dataset:
        return [sample["__key__"] for sample in dataset]


@pytest.mark.parametrize("other", [None, *OTHERS])
@pytest.mark.parametrize("way", WAYS)
def test_every_way_of_reading(way, other, level, tmp_path):
    description = described(tmp_path, GOOD)
    (tmp_path / "a.tar").write_bytes(GOOD if other is None else OTHERS[other])
    if other is None or (other == "another byte" and level == "size"):
        assert read(description, **WAYS[way]) == list("01234")
    else:
        with pytest.raises(StaleIndex, match="expected a shard") as caught:
            read(description, **WAYS[way])
        assert caught.value.where.shard.endswith("a.tar")


@pytest.mark.parametrize("other", [None, *OTHERS])
def test_over_http_and_from_a_cache(other, tmp_path, monkeypatch):
    monkeypatch.setenv("WDS_VERIFY_MD5", "1")
    with FaultServer() as server:
        url = server.add("a.tar", GOOD if other is None else OTHERS[other])
        description = described(tmp_path, GOOD, url)
        (tmp_path / "cache").mkdir()
        for options in ({}, {"cache_dir": tmp_path / "cache"}, {"cache_dir": tmp_path / "cache"}):
            if other is None:
                assert read(description, **options) == list("01234")
            else:
                with pytest.raises(StaleIndex):
                    read(description, **options)
        stores.close_connections()


@pytest.mark.parametrize("good", [True, False])
def test_a_compressed_shard_is_compared_as_it_is_stored(good, level, tmp_path):
    stored = gzip.compress(GOOD, mtime=0)
    (tmp_path / "a.tar.gz").write_bytes(stored)
    description = described(tmp_path, stored if good else stored + b"x", "a.tar.gz")
    if good:
        assert read(description) == list("01234")
    else:
        with pytest.raises(StaleIndex):
            read(description)


def test_a_handler_decides(tmp_path):
    (tmp_path / "a.tar").write_bytes(OTHERS["a sample more"])
    seen = []
    assert len(read(described(tmp_path, GOOD), handler=lambda error: seen.append(error) or True)) < 6
    assert [type(error) for error in seen] == [StaleIndex]


def test_resampled_shards_are_compared(tmp_path):
    (tmp_path / "a.tar").write_bytes(OTHERS["a sample less"])
    items = iter(wds.WebDataset(described(tmp_path, GOOD), index=False, resampled=True))
    with pytest.raises(StaleIndex):
        for _ in range(10):
            next(items)


def test_a_resumed_shard_is_read_to_its_end(tmp_path, level):
    """Not from its beginning: nothing can be compared, and nothing is refused."""
    (tmp_path / "a.tar").write_bytes(GOOD)
    description = described(tmp_path, GOOD)
    make = lambda: wds.WebDataset(description, index=False)
    first = make()
    items = iter(first)
    begun = [next(items)["__key__"] for _ in range(2)]
    second = pickle.loads(pickle.dumps(make()))
    second.load_state_dict(first.state_dict())
    first.close()
    assert begun + [sample["__key__"] for sample in second] == list("01234")


def test_the_level_is_no_part_of_a_checkpoint(tmp_path):
    (tmp_path / "a.tar").write_bytes(GOOD)
    dataset = wds.WebDataset(described(tmp_path, GOOD), index=False)
    assert "verify" not in repr(dataset)


@pytest.mark.parametrize("wrong", [7, "", "xyz", ["a"], "0" * 31, "g" * 32])
def test_what_is_no_md5_is_refused(wrong):
    with pytest.raises(FormatError, match="MD5"):
        read_description({"wids_version": 1, "shardlist": [{"url": "a.tar", "nsamples": 1, "md5sum": wrong}]})
