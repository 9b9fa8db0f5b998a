"""Orders: every sample once, the same for the same seed and epoch, equally many on every rank."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

import wids
from webdataset.errors import SpecError, StateError
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


SAMPLERS = {
    "shards": lambda: wids.ShardListSampler(lengths=[3, 0, 5, 2], seed=3),
    "chunks": lambda: wids.ChunkedSampler(range(10), chunksize=4, seed=3),
    "in order": lambda: wids.ChunkedSampler(range(10), num_samples=(2, 9), shuffle=False),
    "ranks": lambda: wids.DistributedChunkedSampler(range(11), num_replicas=2, rank=1, chunksize=3, seed=3),
}


@pytest.mark.parametrize("make", SAMPLERS.values(), ids=SAMPLERS)
def test_a_sampler_goes_on_from_every_place(make):
    sampler, whole, states = make(), [], []
    for epoch in range(3):
        states.append((epoch, 0, sampler.state_dict()))
        whole.append([])
        for number in sampler:
            whole[-1].append(number)
            states.append((epoch, len(whole[-1]), json.loads(json.dumps(sampler.state_dict()))))
    for epoch, taken, state in states:
        again = make()
        again.load_state_dict(state)
        assert again.state_dict() == state
        if epoch < 2:
            iter(again)
            assert again.state_dict() == state  # nothing was taken
            again.load_state_dict(state)
        if taken == len(whole[epoch]):
            epoch, taken = epoch + 1, 0
        expected = [whole[epoch][taken:], *whole[epoch + 1 :]] if epoch < 3 else []
        assert [list(again) for _ in expected] == expected


def test_a_state_of_another_sampler_is_refused():
    sampler = wids.ChunkedSampler(range(10), seed=3)
    good = sampler.state_dict()
    for wrong in (None, {}, {**good, "seed": 4}, {**good, "length": 9}, {**good, "taken": 11}, {**good, "epoch": "x"}):
        with pytest.raises(StateError):
            sampler.load_state_dict(wrong)
    sampler.load_state_dict({**good, "taken": 4})
    sampler.set_epoch(0)
    assert len(list(sampler)) == 10


@pytest.mark.filterwarnings("ignore:'set_vital' is deprecated")
def test_torchdata_saves_a_sampler_with_its_own_state():
    from torchdata.stateful_dataloader import StatefulDataLoader

    def loader():
        return StatefulDataLoader(range(20), sampler=wids.ChunkedSampler(range(20), chunksize=6, seed=1), batch_size=3)

    whole = [batch.tolist() for batch in loader()]
    first = loader()
    items = iter(first)
    before = [next(items).tolist() for _ in range(3)]
    state = first.state_dict()
    again = loader()
    again.load_state_dict(state)
    assert before + [batch.tolist() for batch in again] == whole
