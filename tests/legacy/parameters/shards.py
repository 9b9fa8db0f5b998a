"""Sources of shards."""

import os
from itertools import islice
from pathlib import Path

import pytest

import webdataset as wds
from webdataset import shardlists

from .room import of


@of("SimpleShardList.urls", "SimpleShardList.seed")
def _(room):
    numbers = [str(n) for n in range(10)]
    assert [shard["url"] for shard in wds.SimpleShardList(numbers)] == numbers
    seeded = wds.SimpleShardList(numbers, seed=17)
    assert [shard["url"] for shard in seeded][0] == "7"
    assert list(seeded) == list(seeded)
    assert sorted(shard["url"] for shard in wds.SimpleShardList(numbers, seed=True)) == numbers


def drawn(count=12, **options):
    source = wds.ResampledShards("{0..99}.tar", **{"deterministic": True, **options})
    return [shard["url"] for shard in islice(source, count)]


@of("ResampledShards.urls", "ResampledShards.nshards", "ResampledShards.seed", "ResampledShards.deterministic")
def _(room):
    assert len(drawn(nshards=5)) == 5
    assert drawn(seed=1) == drawn(seed=1)
    assert drawn(seed=1) != drawn(seed=2)
    assert drawn(deterministic=False) != drawn(deterministic=False)


@of("ResampledShards.worker_seed")
def _(room):
    assert drawn(worker_seed=lambda: 1) != drawn(worker_seed=lambda: 2)


@of("ResampledShards.max_urls")
def _(room):
    assert set(drawn(50, max_urls=2)) == {"0.tar", "1.tar"}


@of("ResampledShards.empty_check")
def _(room):
    with pytest.raises(ValueError, match="."):
        wds.ResampledShards([])
    assert list(wds.ResampledShards([], empty_check=False)) == []


@of("DirectoryShardList.path", "DirectoryShardList.pattern")
def _(room):
    assert len(list(shardlists.DirectoryShardList(room.path))) == 3
    assert len(list(shardlists.DirectoryShardList(f"{room.path}/", pattern="a-{0,1}.*"))) == 2


@of("DirectoryShardList.mode", "DirectoryShardList.poll", "DirectoryShardList.select", "DirectoryShardList.timeout")
def _(room):
    for number in range(3):
        os.utime(room.path / f"a-{number}.tar", (1000 - number, 1000 - number))
    source = shardlists.DirectoryShardList(room.path, mode="unlink", poll=None, select="oldest")
    assert [Path(shard["url"]).name[:3] for shard in source] == ["a-2", "a-1", "a-0"]
    assert list(room.path.iterdir()) == []
    assert list(shardlists.DirectoryShardList(room.path, mode="keep", poll=0.01, timeout=0.02)) == []


@of("DirectoryShardList.fate")
def _(room):
    fates = []
    list(
        shardlists.DirectoryShardList(
            room.path, mode="unlink", poll=None, fate=lambda p: (fates.append(p), os.unlink(p))
        )
    )
    assert len(fates) == 3
