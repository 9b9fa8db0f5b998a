"""Lists of shards, splitting, mixing, pipelines."""

import os

import webdataset as wds
from webdataset import mix, shardlists, tariterators, utils

from .cases import case, result_of


@case
def shard_lists():
    os.environ["WDS_PLACE"] = "bucket"
    return {
        "braces": shardlists.expand_urls("a-{000..011}.tar::b-{x,y}.tar"),
        "variable": shardlists.expand_urls("${PLACE}/a.tar"),
        "seeded": [shard["url"] for shard in wds.SimpleShardList([str(n) for n in range(10)], seed=17)],
        "length": len(wds.SimpleShardList("a-{0..4}.tar")),
        "resampled": {shard["url"] in {"0", "1"} for shard in wds.ResampledShards(["0", "1"], nshards=20)} == {True},
        "shardlist": list(tariterators.shardlist("a-{0..1}.tar")),
    }


@case
def splitting():
    shards = [str(n) for n in range(11)]
    results = {}
    for rank, ranks, worker, workers in [(0, 2, 1, 3), (1, 2, 2, 3), (4, 5, 0, 1)]:
        os.environ.update(RANK=str(rank), WORLD_SIZE=str(ranks), WORKER=str(worker), NUM_WORKERS=str(workers))
        mine = wds.split_by_worker(wds.split_by_node(iter(shards)))
        results[f"{rank} {worker}"] = [list(mine), list(utils.pytorch_worker_info()), utils.pytorch_worker_seed()]
        results[f"single {rank}"] = result_of(lambda: list(wds.single_node_only(iter(shards))))
    for name in ("RANK", "WORLD_SIZE", "WORKER", "NUM_WORKERS"):
        del os.environ[name]
    return results


@case
def mixing():
    return {
        "round robin": list(wds.RoundRobin([[1, 2, 3], [10, 20]])),
        "round robin longest": list(wds.RoundRobin([[1, 2, 3], [10]], longest=True)),
        "random longest": sorted(wds.RandomMix([[1, 2], [3]], [1, 1], longest=True)),
        "shortest": list(mix.round_robin_shortest(iter("abc"), iter("1"))),
        "mock": list(wds.MockDataset("x", 3)),
    }


@case
def pipelines():
    numbers = wds.DataPipeline(lambda: iter(range(5)))
    return {
        "repeat": list(wds.DataPipeline(lambda: iter(range(3))).repeat(2)),
        "length": len(wds.DataPipeline(lambda: iter(range(3))).with_length(7, silent=True)),
        "no length": result_of(len, numbers),
        "compose": list(numbers.compose(lambda items: (n * n for n in items))),
        "not a stage": result_of(lambda: list(wds.DataPipeline(numbers, 3))),
        "shuffle keeps all": sorted(wds.shuffle(3)(iter(range(20)))),
    }
