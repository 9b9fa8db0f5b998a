import pickle
from functools import partial
from itertools import product

import pytest
from hypothesis import given, strategies as st

from webdataset.errors import SpecError
from webdataset.flow import Pass
from webdataset.shards import (
    SplitShards,
    StrideSamples,
    share,
    single_node_only,
    split_by_node,
    split_by_worker,
)
from webdataset.world import World, pretend


def worlds(ranks, workers):
    return [World(r, ranks, w, workers) for r in range(ranks) for w in range(workers)]


@pytest.mark.parametrize(("ranks", "workers", "shards"), list(product((1, 2, 3, 5), (1, 2, 4), (0, 1, 7, 40))))
def test_worker_w_of_rank_r_gets_every_shard_of_the_formula(ranks, workers, shards):
    for here in worlds(ranks, workers):
        with pretend(here):
            got = list(split_by_worker(split_by_node(iter(range(shards)))))
        expected = [here.rank + ranks * (here.worker + workers * k) for k in range(shards)]
        assert got == [shard for shard in expected if shard < shards]


@given(st.integers(1, 6), st.integers(1, 6), st.integers(0, 60))
def test_a_pipeline_gets_the_same_parts_and_nothing_is_lost(ranks, workers, shards):
    seen = []
    for here in worlds(ranks, workers):
        during = Pass(world=here)
        mine = split_by_node.run(iter(range(shards)), split_by_node.start(during))
        mine = list(split_by_worker.run(mine, split_by_worker.start(during)))
        with pretend(here):
            assert mine == list(split_by_worker(split_by_node(range(shards))))
        seen += mine
    assert sorted(seen) == list(range(shards))


def test_splitting_takes_no_more_than_it_hands_on():
    taken = []
    source = (taken.append(n) or n for n in range(100))
    stream = split_by_node.run(source, split_by_node.start(Pass(world=World(1, 3))))
    assert next(stream) == 1 and taken == [0, 1]


@pytest.mark.parametrize("stage", [split_by_node, split_by_worker, SplitShards(7), StrideSamples(2)])
@pytest.mark.parametrize("here", [World(), World(1, 2, 1, 3), World(0, 1, 3, 4)])
def test_splitters_resume_where_they_were(stage, here):
    during = Pass(world=here)
    at = stage.start(during)
    expected = list(stage.run(iter(range(40)), stage.start(during)))
    upstream = iter(range(40))
    stream, states = stage.run(upstream, at), [(at.save(), 0)]
    for item in stream:
        states.append((at.save(), item + 1))
    for number, (state, taken) in enumerate(states[:-1]):
        again = stage.start(during)
        again.load(state, None)
        assert list(stage.run(iter(range(taken, 40)), again)) == expected[number:]


def test_single_node_only():
    assert list(single_node_only(iter("ab"))) == ["a", "b"]
    with (
        pretend(World(1, 2)),
        pytest.raises(SpecError, match=r"explicit nodesplitter.*multi-node.*rank 1 of 2.*split_by_node"),
    ):
        list(single_node_only(iter("ab")))
    with pytest.raises(ValueError, match="nodesplitter"):
        list(single_node_only.run(iter("ab"), single_node_only.start(Pass(world=World(0, 2)))))
    assert list(single_node_only.run(iter("ab"), single_node_only.start(Pass()))) == ["a", "b"]


def test_group_is_handed_through_and_partial_works():
    with pretend(World(1, 2)):
        assert list(partial(split_by_node, group=object())(range(4))) == [1, 3]
        assert list(split_by_node(range(4), group=None)) == [1, 3]


def test_splitters_are_picklable_constants():
    for stage in (split_by_node, split_by_worker, single_node_only):
        assert pickle.loads(pickle.dumps(stage)) == stage


@pytest.mark.parametrize(("ranks", "workers"), list(product((1, 2, 3, 4), (1, 2, 3, 4))))
def test_fewer_shards_than_readers_nobody_idles_and_nothing_is_read_twice(ranks, workers):
    per_shard = 50
    for shards in range(1, 20):
        seen = []
        for here in worlds(ranks, workers):
            during = Pass(world=here)
            stage, stride = SplitShards(shards), StrideSamples(shards)
            mine = list(stage.run(iter(range(shards)), stage.start(during)))
            assert mine == list(share(shards, here).shards)
            samples = ((shard, n) for shard in mine for n in range(per_shard))
            got = list(stride.run(samples, stride.start(during)))
            assert got, f"{here} got nothing out of {shards} shards"
            seen += got
        assert sorted(seen) == [(shard, n) for shard in range(shards) for n in range(per_shard)]


def test_with_enough_shards_the_share_is_the_strided_split():
    for here in worlds(3, 2):
        with pretend(here):
            strided = list(split_by_worker(split_by_node(range(20))))
        assert list(share(20, here).shards) == strided and share(20, here)[1:] == (0, 1)


def test_readers_of_one_shard_differ_by_one_sample_at_most():
    counts = []
    for here in worlds(4, 2):
        stride = StrideSamples(1)
        counts.append(len(list(stride.run(iter(range(101)), stride.start(Pass(world=here))))))
    assert max(counts) - min(counts) <= 1 and sum(counts) == 101


def test_no_shards_at_all():
    assert list(share(0, World(0, 2)).shards) == []


@pytest.mark.parametrize("wrong", [-1, "2", None])
def test_wrong_counts_fail_at_construction(wrong):
    with pytest.raises(SpecError):
        SplitShards(wrong)
    with pytest.raises(SpecError):
        StrideSamples(wrong)


def test_world_size_zero_is_refused():
    with pytest.raises(SpecError):
        World(ranks=0)
