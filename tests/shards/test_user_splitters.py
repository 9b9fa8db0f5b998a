"""Every pair of splitters, on every small topology: every sample once, or an error."""

import os
import random
from collections import Counter
from contextlib import contextmanager
from itertools import product

import pytest
import torch.utils.data

import webdataset as wds
from webdataset import world
from webdataset.testing import make_shard
from webdataset.world import World


def by_rank_of_the_environment(shards):
    yield from list(shards)[int(os.environ["RANK"]) :: int(os.environ["WORLD_SIZE"])]


def by_worker_of_torch(shards):
    """As in a public benchmark: given as nodesplitter, splits by worker."""
    from torch.utils.data import get_worker_info

    info = get_worker_info()
    yield from shards if info is None else list(shards)[info.id :: info.num_workers]


def by_worker_of_webdataset(shards):
    _, _, worker, workers = wds.utils.pytorch_worker_info()
    return iter(list(shards)[worker::workers])


def by_rank_and_worker(shards):
    yield from by_worker_of_torch(by_rank_of_the_environment(shards))


def new_dicts(shards):
    return ({"url": shard["url"]} for shard in by_rank_and_worker(shards))


class AsAStage(wds.PipelineStage):
    def run(self, shards):
        return by_worker_of_torch(shards)


NODE = {wds.split_by_node, by_rank_of_the_environment, by_rank_and_worker, new_dicts}
WORKER = {wds.split_by_worker, by_worker_of_torch, by_worker_of_webdataset, by_rank_and_worker, new_dicts}
STAGE = AsAStage()
WORKER.add(STAGE)
SPLITTERS = [
    None,
    wds.single_node_only,
    *sorted(NODE | WORKER, key=lambda each: getattr(each, "__name__", type(each).__name__)),
]


@contextmanager
def being(here, in_torch):
    """This reader, for everything that a splitter may ask."""
    from torch.utils.data._utils import worker as torchs

    saved = dict(os.environ)
    os.environ.update(RANK=str(here.rank), WORLD_SIZE=str(here.ranks))
    if in_torch:
        torchs._worker_info = torchs.WorkerInfo(id=here.worker, num_workers=here.workers, seed=0, dataset=None)
    try:
        yield
    finally:
        torchs._worker_info = None
        os.environ.clear()
        os.environ.update(saved)


def read_everywhere(make, ranks, workers):
    """How often every sample was read by all readers together."""
    seen = Counter()
    for rank, worker in product(range(ranks), range(max(1, workers))):
        with being(World(rank, ranks, worker, max(1, workers)), in_torch=workers > 0):
            seen.update(sample["__key__"] for sample in make())
    return seen


@pytest.fixture(scope="module")
def shards():
    return [
        make_shard(f"memory://splitters/{n}.tar", [{"__key__": f"{n}{m}", "txt": "x"} for m in range(9)])
        for n in range(4)
    ]


EVERY = list(product(range(1, 5), range(4), range(1, 4)))  # shards, workers, ranks
# One of each kind: alone, workers only, ranks only, both; fewer, as many and more shards than readers, with a rest.
KINDS = [(1, 0, 1), (1, 2, 1), (4, 3, 1), (1, 0, 3), (4, 1, 3), (1, 1, 2), (2, 2, 2), (3, 2, 2), (4, 2, 2), (3, 0, 2)]


@pytest.mark.parametrize("topologies", [KINDS, pytest.param(EVERY, marks=pytest.mark.long)], ids=["kinds", "every"])
@pytest.mark.parametrize("node", SPLITTERS, ids=lambda splitter: getattr(splitter, "__name__", type(splitter).__name__))
def test_every_pair_reads_every_sample_once_or_is_an_error(node, topologies, shards):
    read = 0
    for by_worker, (count, workers, ranks) in product(SPLITTERS, topologies):
        used = shards[:count]
        make = lambda: wds.WebDataset(used, nodesplitter=node, workersplitter=by_worker, shardshuffle=False)
        try:
            seen = read_everywhere(make, ranks, workers)
        except ValueError:
            continue
        # None says that all readers get everything, and a function that splits by worker alone says it of the ranks.
        times = (1 if {node, by_worker} & NODE else ranks) * (1 if {node, by_worker} & WORKER else max(1, workers))
        assert seen == Counter({f"{n}{m}": times for n in range(count) for m in range(9)}), (
            node,
            by_worker,
            count,
            workers,
            ranks,
        )
        read += 1
    assert read >= len(topologies)  # not everything is refused


def test_the_public_benchmark(shards):
    """One shard, two workers: half of the data were lost, with no more than a warning."""
    make = lambda urls: wds.WebDataset(urls, nodesplitter=by_worker_of_torch, shardshuffle=False)
    with pytest.raises(ValueError, match="No samples found in dataset: worker 1 of rank 0 has none of the 1 shards"):
        read_everywhere(lambda: make(shards[:1]), 1, 2)
    assert set(read_everywhere(lambda: make(shards), 1, 2).values()) == {1}
    assert len(read_everywhere(lambda: make(shards), 1, 2)) == 36


def test_a_random_order_before_the_split_is_an_error(shards):
    def shuffled(items):
        items = list(items)
        random.shuffle(items)
        return iter(items)

    chance = random.getstate()
    random.seed(3)
    with pytest.raises(ValueError, match=r"lose|to several workers"):
        for _ in range(20):
            read_everywhere(lambda: wds.WebDataset(shards, nodesplitter=shuffled, shardshuffle=False), 1, 2)
    random.setstate(chance)


def test_a_shard_that_is_listed_twice_is_read_twice(shards):
    make = lambda: wds.WebDataset([shards[0]] * 4, nodesplitter=by_worker_of_torch, shardshuffle=False)
    with pytest.raises(ValueError, match="together lose"):
        read_everywhere(make, 1, 2)
    make = lambda: wds.WebDataset(
        [shards[0]] * 4, nodesplitter=by_worker_of_torch, workersplitter=None, shardshuffle=False
    )
    assert set(read_everywhere(make, 1, 2).values()) == {4}


def test_it_resumes(shards):
    make = lambda: wds.WebDataset(shards, nodesplitter=by_worker_of_webdataset, shardshuffle=True, seed=1)
    with world.pretend(World(worker=1, workers=2)):
        whole = [sample["__key__"] for sample in make()]
        for stop in range(len(whole)):
            first, second = make(), make()
            items = iter(first)
            begun = [next(items)["__key__"] for _ in range(stop)]
            second.load_state_dict(first.state_dict())
            assert begun + [sample["__key__"] for sample in second] == whole
            first.close()
    assert len(whole) == 18


def test_an_empty_worker_may_be_allowed(shards):
    make = lambda: wds.WebDataset(shards[:1], nodesplitter=by_worker_of_torch, shardshuffle=False, empty_check=False)
    assert len(read_everywhere(make, 1, 3)) == 9


class OfTorch(torch.utils.data.IterableDataset):
    """A list of shards as programs for the public library write it."""

    def __init__(self, urls):
        self.urls = urls

    def __iter__(self):
        return ({"url": url} for url in self.urls)


class OfTorchWithLength(OfTorch):
    def __len__(self):
        return len(self.urls)


class AsStage(wds.PipelineStage):
    def __init__(self, urls):
        self.urls = urls

    def run(self):
        return ({"url": url} for url in self.urls)


@pytest.mark.parametrize(
    "source",
    [
        wds.SimpleShardList,
        lambda urls: wds.ResampledShards(urls, nshards=4),
        lambda urls: lambda: ({"url": url} for url in urls),
        lambda urls: OfTorch(urls),
        lambda urls: OfTorchWithLength(urls),
        lambda urls: AsStage(urls),
        lambda urls: wds.DataPipeline(wds.SimpleShardList(urls)),
    ],
)
@pytest.mark.parametrize(("ranks", "workers"), [(1, 0), (1, 2), (2, 2), (3, 1)])
def test_a_source_of_shards_is_taken_as_it_is(source, ranks, workers, shards):
    """A dataset inside another, opened in a worker, sees every sample."""
    make = lambda: wds.WebDataset(source(shards), shardshuffle=False)
    seen = read_everywhere(make, ranks, workers)
    assert sum(seen.values()) == 36 * ranks * max(1, workers)
    given = lambda: wds.WebDataset(
        wds.SimpleShardList(shards), shardshuffle=False, workersplitter=by_worker_of_torch, nodesplitter=None
    )
    assert sum(read_everywhere(given, ranks, workers).values()) == 36 * ranks


def test_an_indexed_source_of_shards_is_taken_as_it_is(tmp_path):
    shard = make_shard(tmp_path / "a.tar", [{"__key__": str(n), "txt": "x"} for n in range(5)])
    wds.index_shards([shard], store_index=True)
    with world.pretend(World(worker=1, workers=2)):
        assert len(list(wds.WebDataset(wds.SimpleShardList(shard)))) == 5
