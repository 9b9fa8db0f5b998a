"""Orders: every sample once, the same for the same seed and epoch, equally many on every rank."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

import wids
from webdataset.errors import SpecError
from webdataset.world import World, pretend

LENGTHS = st.lists(st.integers(0, 20), min_size=1, max_size=8)


def chunks_of(numbers, size):
    return [number // size for number in numbers]


@given(lengths=LENGTHS, seed=st.integers(0, 5))
def test_shard_after_shard(lengths, seed):
    sampler = wids.ShardListSampler(lengths=lengths, seed=seed)
    starts = [sum(lengths[:n]) for n in range(len(lengths))]
    shard = {start + n: number for number, start in enumerate(starts) for n in range(lengths[number])}
    for epoch in range(3):
        order = list(sampler)
        assert sorted(order) == list(range(sum(lengths))) and len(sampler) == len(order)
        visited = list(dict.fromkeys(shard[n] for n in order))
        changes = sum(shard[a] != shard[b] for a, b in zip(order, order[1:]))
        assert changes == max(0, len(visited) - 1)
        assert epoch or visited == sorted(visited)


def test_an_epoch_decides_the_order():
    first, second = (wids.ShardListSampler(lengths=[50, 50]) for _ in range(2))
    epochs = [list(first) for _ in range(3)]
    assert epochs[0] != epochs[1] != epochs[2]
    second.set_epoch(2)
    assert list(second) == epochs[2]
    assert list(wids.ShardListSampler(lengths=[50, 50], seed=1)) != epochs[0]
    mixed = [list(wids.ShardListSampler(lengths=[5] * 9, seed=s, shufflefirst=True))[0] for s in range(9)]
    assert any(number >= 5 for number in mixed)


def test_lengths_of_a_dataset_are_found_and_others_refused():
    class Dataset:
        lengths = [3, 4]

    assert len(wids.ShardedSampler(Dataset())) == 7
    with pytest.raises(SpecError):
        wids.ShardListSampler(range(3))


@given(total=st.integers(0, 60), size=st.integers(1, 30), shuffle=st.booleans())
def test_chunk_after_chunk(total, size, shuffle):
    sampler = wids.ChunkedSampler(range(total), chunksize=size, shuffle=shuffle)
    for epoch in range(2):
        order = list(sampler)
        assert sorted(order) == list(range(total)) and len(sampler) == total
        visited = chunks_of(order, size)
        assert epoch or visited == sorted(visited)
        assert shuffle or order == list(range(total))


def test_a_part_of_a_dataset():
    assert sorted(wids.ChunkedSampler(range(100), num_samples=7)) == list(range(7))
    assert sorted(wids.ChunkedSampler(range(100), num_samples=(90, 95))) == list(range(90, 95))
    for wrong in (101, -1, (5, 3), (0, 101)):
        with pytest.raises(SpecError):
            wids.ChunkedSampler(range(100), num_samples=wrong)
    with pytest.raises(SpecError):
        wids.ChunkedSampler(range(100), chunksize=0)


@given(total=st.integers(1, 80), ranks=st.integers(1, 9), drop=st.booleans(), shuffle=st.booleans())
def test_all_ranks_get_equally_many(total, ranks, drop, shuffle):
    parts = [
        wids.DistributedChunkedSampler(range(total), ranks, rank=rank, drop_last=drop, chunksize=7, shuffle=shuffle)
        for rank in range(ranks)
    ]
    for _ in range(2):
        orders = [list(part) for part in parts]
        assert {len(order) for order in orders} == {len(parts[0])}
        seen = [number for order in orders for number in order]
        if drop:
            assert len(seen) == len(set(seen)) and total - len(seen) < ranks
        else:
            assert set(seen) == set(range(total)) and len(seen) - total < ranks


def test_the_rank_is_asked_for_and_rank_0_is_one():
    with pretend(World(rank=2, ranks=4)):
        assert list(wids.DistributedChunkedSampler(range(8), shuffle=False)) == [4, 5]
        assert list(wids.DistributedChunkedSampler(range(8), rank=0, shuffle=False)) == [0, 1]
    assert list(wids.DistributedChunkedSampler(range(8), num_replicas=2, rank=1, shuffle=False)) == [4, 5, 6, 7]
    for wrong in ({"rank": 4, "num_replicas": 4}, {"num_replicas": 0}, {"num_samples": 9}, {"num_samples": 0}):
        with pytest.raises(SpecError):
            wids.DistributedChunkedSampler(range(8), **wrong)
