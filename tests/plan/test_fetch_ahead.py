"""A plan over remote shards with a cache: shards are fetched ahead, and an unfinished pass leaves no thread."""

import threading

import numpy as np
import pytest

from webdataset import WebDataset, stores
from webdataset.errors import StoreError
from webdataset.plan._fetch_ahead import Block, FetchAhead
from webdataset.testing import FaultServer, make_shard

SHARDS, SAMPLES = 6, 20


@pytest.fixture
def server():
    with FaultServer() as server:
        for shard in range(SHARDS):
            url = f"memory://fetch-ahead/{shard}.tar"
            make_shard(url, [{"__key__": f"{shard}-{n}", "txt": f"{shard}-{n}"} for n in range(SAMPLES)])
            with stores.open_read(url) as stream:
                server.add(f"{shard}.tar", stream.read())
        yield server


@pytest.fixture
def remote(server):
    return [server.url(f"{shard}.tar") for shard in range(SHARDS)]


@pytest.fixture
def places(tmp_path):
    for name in ("index", "cache"):
        (tmp_path / name).mkdir()
    return {"index": str(tmp_path / "index"), "cache_dir": str(tmp_path / "cache")}


def threads():
    return [
        each.name for each in threading.enumerate() if each.name.startswith(("webdataset-fetch", "webdataset-fill"))
    ]


def test_every_sample_once_and_each_shard_sent_once(server, remote, places):
    with WebDataset(remote, index=places["index"], shardshuffle=True) as indexed:
        assert len(indexed) == SHARDS * SAMPLES
    sizes = {f"{shard}.tar": server.sent(f"{shard}.tar") for shard in range(SHARDS)}
    with WebDataset(remote, shardshuffle=True, seed=1, **places) as dataset:
        keys = [sample["__key__"] for sample in dataset]
    assert {name: server.sent(name) - size for name, size in sizes.items()} == sizes
    assert sorted(keys) == sorted(f"{shard}-{n}" for shard in range(SHARDS) for n in range(SAMPLES))
    with WebDataset(remote, shardshuffle=True, seed=1, index=places["index"]) as uncached:
        assert [sample["__key__"] for sample in uncached] == keys
    assert not threads()


def test_a_pass_that_ends_early_leaves_nothing_running(remote, places):
    with WebDataset(remote, shardshuffle=True, **places) as dataset:
        next(iter(dataset))
    assert not threads()


def blocks(*shards):
    return iter([Block(np.array(some), [0] * len(some), [False] * len(some)) for some in shards])


def test_the_next_block_is_fetched_before_this_one_is_read():
    begun, asked = [], threading.Condition()

    class Nothing:
        def close(self):
            pass

    def open_soon(url):
        with asked:
            begun.append(url)
            asked.notify_all()
        return Nothing()

    urls = [f"https://h/{n}.tar" for n in range(5)]
    with FetchAhead(open_soon, urls) as ahead:
        next(ahead.over(blocks([3, 1, 3], [1, 4], [0])))
        with asked:
            assert asked.wait_for(lambda: len(begun) == 3, timeout=60)
        assert sorted(begun) == [urls[1], urls[3], urls[4]]


def test_local_shards_are_not_fetched():
    with FetchAhead(pytest.fail, ["a.tar", "b.tar"]) as ahead:
        assert len(list(ahead.over(blocks([0], [1])))) == 2


def test_a_failure_is_left_to_the_reader():
    def open_soon(url):
        raise StoreError("no")

    with FetchAhead(open_soon, ["https://h/a.tar"]) as ahead:
        assert len(list(ahead.over(blocks([0])))) == 1


def test_what_is_not_wanted_any_more_is_closed():
    closed, opened = threading.Event(), threading.Event()

    class Endless:
        def await_copy(self, seconds):
            opened.set()
            return False

        def close(self):
            closed.set()

    with FetchAhead(lambda url: Endless(), ["https://h/a.tar"]) as ahead:
        list(ahead.over(blocks([0])))
        assert opened.wait(60)
    assert closed.is_set()
