"""Decoding and caches."""

import pickle
from pathlib import Path

import pytest

import webdataset as wds
from webdataset import shardlists
from webdataset.cache import FileCache, StreamingOpen
from webdataset.stores import open_write

from .room import of


@of("Decoder.handlers", "Decoder.pre", "Decoder.post")
def _(room):
    def mine(key, data):
        return "mine" if key == ".x" else None

    assert wds.Decoder([mine])({"x": b"1", "cls": b"1"}) == {"x": "mine", "cls": 1}
    assert wds.Decoder([], pre=[mine])({"x": b"1"}) == {"x": "mine"}
    assert wds.Decoder([], post=[mine])({"x": b"1", "cls": b"1"}) == {"x": "mine", "cls": b"1"}


@of("Decoder.only", "Decoder.partial")
def _(room):
    assert wds.Decoder([], only="a.cls")({"a.cls": b"1", "cls": b"1"}) == {"a.cls": 1, "cls": b"1"}
    assert wds.Decoder([], partial=True)({"cls": 5}) == {"cls": 5}
    with pytest.raises(wds.DecodingError):
        wds.Decoder([])({"cls": 5})


@of("LMDBCached.fname", "LMDBCached.map_size", "LMDBCached.pickler", "LMDBCached.chunksize")
def _(room):
    class Pickler:
        dumps = staticmethod(lambda value, protocol=None: b"!" + pickle.dumps(value, protocol))
        loads = staticmethod(lambda data: pickle.loads(data[1:]))

    stage = wds.LMDBCached(str(room.path / "db"), map_size=1e7, pickler=Pickler, chunksize=2)
    assert list(stage(iter("abcde"))) == list(stage(iter("never"))) == list("abcde")
    with pytest.raises(ValueError, match="map_size"):
        wds.LMDBCached(str(room.path / "db2"), map_size=0)


@of("LRUCleanup.cache_dir", "LRUCleanup.cache_size", "LRUCleanup.keyfn", "LRUCleanup.verbose", "LRUCleanup.interval")
def _(room):
    cleanup = wds.LRUCleanup(room.path, cache_size=25_000, keyfn=lambda path: path, verbose=True, interval=None)
    assert "a-0.tar" in room.logged(cleanup.cleanup)
    assert sorted(path.name for path in room.path.iterdir()) == ["a-1.tar", "a-2.tar"]
    rare = wds.LRUCleanup(room.path, cache_size=25_000, interval=1e6)
    rare.cleanup()
    rare.cache_size = 0
    rare.cleanup()
    assert len(list(room.path.iterdir())) == 2


@of("FileCache.cache_dir", "FileCache.url_to_name", "FileCache.verbose", "FileCache.cache_cleanup_interval")
def _(room):
    cache = FileCache(room.path / "cache", url_to_name=lambda url: "name", verbose=True, cache_cleanup_interval=0)
    url = room.put("far.tar")
    assert "far.tar" in room.logged(lambda: cache.get_file(url))
    assert cache.get_file(url) == str(room.path / "cache" / "name")


@of("FileCache.validator", "FileCache.handler")
def _(room):
    with open_write(f"memory://{room.path.name}/bad.tar") as stream:
        stream.write(b"<html>" * 200)
    url = f"memory://{room.path.name}/bad.tar"
    strict = FileCache(room.path / "cache")
    with pytest.raises(ValueError, match=r"bad\.tar"):
        strict.get_file(url)
    loose = FileCache(room.path / "loose", validator=None)
    assert Path(loose.get_file(url)).exists()
    forgiving = FileCache(room.path / "cache", handler=wds.ignore_and_continue)
    assert list(forgiving(["memory://nowhere/x.tar"])) == []


@of("FileCache.cache_size")
def _(room):
    url = room.put("far.tar")
    with pytest.raises(wds.StoreError, match="cache_size"):
        FileCache(room.path / "cache", cache_size=100).get_file(url)
    assert Path(FileCache(room.path / "cache", cache_size=1e9).get_file(url)).exists()


@of("StreamingOpen.verbose", "StreamingOpen.handler")
def _(room):
    for shard in StreamingOpen(verbose=True)(shardlists.expand_urls(room.urls)[:1]):
        with shard["stream"] as stream:
            assert stream.read(2) == b"00"
        assert shard["local_path"] == shard["url"]
    assert list(StreamingOpen(handler=wds.ignore_and_continue)(["missing.tar"])) == []
