"""A cache keeps the index: the same order, length and elastic resume as without it, and each shard is fetched once."""

import itertools
import json
from contextlib import closing

import pytest

import webdataset as wds
from tests.pipeline.indexed import write_shards
from webdataset import world
from webdataset.index import build_index
from webdataset.stores import counters
from webdataset.testing import FaultServer

COUNTS = (5, 1, 4, 3)
N = sum(COUNTS)
KINDS = ["cache_dir", "WDS_CACHE", "in_memory"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("indexed-cache")
    write_shards(folder, COUNTS, size=2000)
    return folder


@pytest.fixture
def server(folder):
    with FaultServer() as server:
        for path in folder.iterdir():
            server.add(path.name, path.read_bytes())
        yield server


@pytest.fixture
def options(request, tmp_path, monkeypatch):
    if request.param == "WDS_CACHE":
        monkeypatch.setenv("WDS_CACHE", str(tmp_path))
        return {}
    return {"cache_dir": tmp_path} if request.param == "cache_dir" else {"in_memory": True}


def urls_of(server):
    return [server.url(f"part-{number:03d}.tar") for number in range(len(COUNTS))]


def keys_of(items):
    return [sample["__key__"] for sample in items]


@pytest.mark.parametrize("options", KINDS, indirect=True)
@pytest.mark.parametrize("order", ["sequential", "random", "quasi-random"])
def test_the_order_and_the_length_are_those_without_a_cache(server, options, order):
    plain = wds.WebDataset(urls_of(server), index=True, order=order, seed=3, cache_size=0)
    cached = wds.WebDataset(urls_of(server), index=True, order=order, seed=3, **options)
    with closing(plain), closing(cached):
        for _ in range(2):
            found = keys_of(cached)
            assert found == keys_of(plain) and len(cached) == len(found) == N


@pytest.mark.parametrize("options", KINDS, indirect=True)
@pytest.mark.parametrize("order", ["sequential", "random"])
def test_each_shard_is_fetched_once_and_then_read_from_the_copy(server, folder, options, order):
    dataset = wds.WebDataset(urls_of(server), index=True, order=order, seed=3, **options)
    with closing(dataset):
        before = counters.snapshot()
        first = list(dataset)
        fetched = counters.since(before)["http.bytes"]
        # Once as a whole, with the indexes and a look at each shard's first bytes.
        assert fetched < 1.2 * sum(path.stat().st_size for path in folder.glob("*.tar"))
        before = counters.snapshot()
        assert sorted(keys_of(dataset)) == sorted(keys_of(first))
        assert not counters.since(before).get("http.bytes")


@pytest.mark.parametrize("options", KINDS, indirect=True)
@pytest.mark.parametrize("stop", range(0, 5))
def test_a_checkpoint_goes_on_with_other_ranks_with_and_without_a_cache(server, options, stop):
    make = lambda **kw: wds.WebDataset(urls_of(server), index=True, order="random", seed=3, **kw).batched(
        2, collation_fn=keys_of
    )
    seen = []
    states = []
    for rank in range(2):
        with world.pretend(world.World(rank, 2)), closing(make(**options)) as dataset:
            seen += itertools.chain.from_iterable(itertools.islice(dataset, stop))
            states.append(json.dumps(dataset.state_dict()))
    if stop < 4:
        assert states[0] == states[1]
    with closing(make(cache_size=0)) as again:
        again.load_state_dict(json.loads(states[0]))
        seen += itertools.chain.from_iterable(again)
    assert sorted(set(seen)) == [f"{number:05d}" for number in range(N)]
    assert len(seen) == N or stop == 4


def test_worker_processes_share_the_cache(server, tmp_path):
    dataset = wds.WebDataset(urls_of(server), index=True, order="random", cache_dir=tmp_path)
    loader = wds.WebLoader(dataset.map(_key), batch_size=None, num_workers=2)
    with closing(loader):
        assert sorted(loader) == [f"{number:05d}" for number in range(N)]
    assert len(list(tmp_path.glob("*.tar"))) == len(COUNTS)


def _key(sample):
    return sample["__key__"]


def test_a_copy_that_was_evicted_is_fetched_again(server, tmp_path):
    dataset = wds.WebDataset(urls_of(server), index=True, order="random", cache_dir=tmp_path)
    with closing(dataset):
        first = sorted(keys_of(dataset))
    cache = dataset.plan.opener.cache
    for url in urls_of(server):
        cache.forget(url)
    assert not list(tmp_path.glob("*.tar"))
    with closing(dataset):
        assert sorted(keys_of(dataset)) == first


def test_a_cache_that_holds_one_shard_at_a_time_is_enough(server, tmp_path):
    dataset = wds.WebDataset(urls_of(server), index=True, cache_dir=tmp_path, cache_size=30_000)
    with closing(dataset):
        assert keys_of(dataset) == [f"{number:05d}" for number in range(N)]


def test_a_shard_without_an_index_is_fetched_once(server, folder, tmp_path):
    (tmp_path / "indexes").mkdir()
    (tmp_path / "cache").mkdir()
    dataset = wds.WebDataset(urls_of(server), index=tmp_path / "indexes", cache_dir=tmp_path / "cache")
    with closing(dataset):
        assert len(dataset) == N and len(list((tmp_path / "cache").glob("*.tar"))) == len(COUNTS)
        assert dataset.plan.dataset.where(0) == (
            urls_of(server)[0],
            0,
            "00000",
            build_index(str(folder / "part-000.tar")).extents(0),
        )
