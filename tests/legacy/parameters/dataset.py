"""WebDataset."""

import os
import tarfile
from itertools import islice

import pytest

import webdataset as wds
from webdataset import shardlists
from webdataset.world import World, pretend

from .room import of


@of("WebDataset.urls")
def _(room):
    folder = f"{room.path}/"
    for urls in (
        room.urls,
        shardlists.expand_urls(room.urls),
        folder,
        folder + "a-*.tar",
        wds.SimpleShardList(room.urls),
    ):
        assert room.read(urls) == room.keys
    assert room.read(room.path / "a-1.tar") == room.keys[4:8]


@of("WebDataset.handler")
def _(room):
    (room.path / "a-1.tar").write_bytes(b"x" * 3000)
    with pytest.raises(tarfile.ReadError):
        room.read()
    assert len(room.read(handler=wds.ignore_and_continue)) == 8
    assert len(room.read(handler=wds.ignore_and_stop)) == 4


@of("WebDataset.mode", "WebDataset.resampled")
def _(room):
    for options in ({"mode": "resampled"}, {"resampled": True}):
        dataset = wds.WebDataset(room.urls, seed=1, **options)
        assert len(list(islice(dataset, 40))) == 40


@of("WebDataset.repeat")
def _(room):
    dataset = wds.WebDataset(room.urls, shardshuffle=False, repeat=True)
    assert [s["__key__"] for s in islice(dataset, 30)] == (room.keys * 3)[:30]


@of("WebDataset.shardshuffle", "WebDataset.detshuffle")
def _(room):
    for options in ({"shardshuffle": True}, {"shardshuffle": 100}, {"shardshuffle": 100, "detshuffle": True}):
        dataset = wds.WebDataset(room.urls, **options)
        orders = {tuple(s["__key__"] for s in dataset) for _ in range(10)}
        assert len(orders) > 1
    assert room.read(shardshuffle=0) == room.read(shardshuffle=None) == room.keys


@of("WebDataset.seed")
def _(room):
    def orders(seed):
        dataset = wds.WebDataset(room.urls, shardshuffle=True, seed=seed)
        return [[s["__key__"] for s in dataset] for _ in range(4)]

    assert orders(1) == orders(1)
    assert orders(1) != orders(2)
    assert wds.WebDataset(room.urls, seed=5).seed == 5


@of("WebDataset.cache_dir", "WebDataset.url_to_name")
def _(room):
    cache = room.path / "cache"
    cache.mkdir()
    url = room.put("far.tar")
    assert len(room.read(url, cache_dir=cache)) == 4
    assert [name for name in os.listdir(cache) if name.endswith("-far.tar")]
    assert len(room.read(url, cache_dir=str(cache), url_to_name=lambda url: "mine")) == 4
    assert (cache / "mine").exists()


@of("WebDataset.cache_size")
def _(room):
    cache = room.path / "cache"
    cache.mkdir()
    room.read(room.put("far.tar"), cache_dir=cache, cache_size=0)
    assert list(cache.iterdir()) == []
    room.read(room.put("far.tar"), cache_dir=cache, cache_size=100)  # smaller than the shard
    assert not [path for path in cache.rglob("*") if path.is_file() and path.stat().st_size > 100]


@of("WebDataset.verbose")
def _(room):
    cache = room.path / "cache"
    cache.mkdir()
    url = room.put("far.tar")
    assert "far.tar" in room.logged(lambda: room.read(url, cache_dir=cache, verbose=True))
    assert "far.tar" not in room.logged(lambda: room.read(url, cache_dir=cache))


@of("WebDataset.nodesplitter")
def _(room):
    with pretend(World(rank=1, ranks=3)):
        assert room.read() == ["10", "11", "12", "13"]
        assert room.read(nodesplitter=None) == room.keys
        with pytest.raises(ValueError, match="explicit nodesplitter"):
            room.read(nodesplitter=wds.single_node_only)


@of("WebDataset.workersplitter")
def _(room):
    with pretend(World(worker=2, workers=3)):
        assert room.read() == ["20", "21", "22", "23"]
        assert room.read(workersplitter=None) == room.keys


@of("WebDataset.select_files", "WebDataset.rename_files")
def _(room):
    dataset = wds.WebDataset(
        room.urls,
        shardshuffle=False,
        rename_files=lambda name: name.replace(".cls", ".label"),
        select_files=lambda name: name.endswith("label"),
    )
    assert {tuple(set(s) - {"__key__", "__url__", "__local_path__"}) for s in dataset} == {("label",)}


@of("WebDataset.empty_check")
def _(room):
    (room.path / "empty.tar").write_bytes(bytes(1024))
    with pytest.raises(ValueError, match="^No samples found in dataset"):
        room.read(room.path / "empty.tar")
    assert room.read(room.path / "empty.tar", empty_check=False) == []
