import pickle
from functools import partial
from itertools import product

import pytest
from hypothesis import given, strategies as st

from webdataset.errors import SpecError
from webdataset.flow import Pass
from webdataset.shards import (
    ShareShards,
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


@pytest.mark.parametrize("stage", [split_by_node, split_by_worker])
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


SHARES = [ShareShards("rank"), ShareShards("worker")]


def shared(here, shards):
    """What one reader gets, as (shard, sample) pairs of shards with ten samples each."""
    items = [{"url": str(number)} for number in range(shards)]
    for stage in SHARES:
        items = list(stage.run(iter(items), stage.start(Pass(world=here))))
    return [(item["url"], sample) for item in items for sample in range(item.get("first", 0), 10, item.get("step", 1))]


@given(st.integers(1, 6), st.integers(1, 5), st.integers(0, 40))
def test_every_sample_is_read_exactly_once_however_few_shards_there_are(ranks, workers, shards):
    parts = [shared(here, shards) for here in worlds(ranks, workers)]
    everything = sorted(pair for part in parts for pair in part)
    assert everything == sorted((str(shard), sample) for shard in range(shards) for sample in range(10))
    assert shards == 0 or ranks * workers > 10 or all(parts)


@given(st.integers(1, 4), st.integers(1, 4), st.integers(0, 20))
def test_with_enough_shards_sharing_is_the_strided_split(ranks, workers, extra):
    shards = ranks * workers + extra
    for here in worlds(ranks, workers):
        with pretend(here):
            strided = list(split_by_worker(split_by_node(str(number) for number in range(shards))))
        assert shared(here, shards) == [(shard, sample) for shard in strided for sample in range(10)]


@pytest.mark.parametrize("here", [World(), World(1, 2, 1, 3), World(0, 1, 3, 4)])
def test_sharing_resumes_where_it_was(here):
    stage, during = ShareShards("worker"), Pass(world=here)
    items = [{"url": str(number)} for number in range(9)]
    at = stage.start(during)
    stream, states, expected = stage.run(iter(items), at), [at.save()], []
    for item in stream:
        expected.append(item)
        states.append(at.save())
    for number, state in enumerate(states):
        again = stage.start(during)
        again.load(state, None)
        assert list(stage.run(iter(items), again)) == expected[number:]


@pytest.mark.parametrize("wrong", ["node", "", None, 3])
def test_sharing_is_among_ranks_or_workers(wrong):
    with pytest.raises(SpecError, match="among="):
        ShareShards(wrong)
