"""A checkpoint of a stream belongs to one rank, and another rank refuses it."""

import json

import pytest

import webdataset as wds
from tests.golden.pipelines import keys_of, streamed
from webdataset import world
from webdataset.errors import StateError
from webdataset.world import World

RANKS = 2


def plain():
    return streamed(shardshuffle=True).shuffle(3)


def nested():
    return wds.DataPipeline(plain(), wds.map(lambda sample: sample))


def mixed():
    return wds.RoundRobin([plain(), plain()])


def threads():
    return wds.WebLoader(plain(), batch_size=None, workers="threads", num_workers=2)


def in_this_process():
    return wds.WebLoader(plain(), batch_size=None, num_workers=0)


MAKERS = [plain, nested, mixed, threads, in_this_process]


def saved(make, rank, items):
    with world.pretend(World(rank=rank, ranks=RANKS)):
        dataset = make()
        iterator = iter(dataset)
        seen = [keys_of(next(iterator)) for _ in range(items)]
        state = json.loads(json.dumps(dataset.state_dict()))
        iterator.close()
        dataset.close()
    return seen, state


def resumed(make, rank, state, ranks=RANKS):
    with world.pretend(World(rank=rank, ranks=ranks)):
        dataset = make()
        try:
            dataset.load_state_dict(state)
            return [keys_of(item) for item in dataset]
        finally:
            dataset.close()


@pytest.mark.parametrize("make", MAKERS)
@pytest.mark.parametrize("items", [1, 2])
def test_another_rank_refuses_the_checkpoint_of_a_stream(make, items):
    _, state = saved(make, 0, items)
    with pytest.raises(StateError, match=r"saved by rank 0.*this is rank 1"):
        resumed(make, 1, state)
    with pytest.raises(StateError, match="ranks=2.*ranks=3"):
        resumed(make, 2, state, ranks=3)


@pytest.mark.parametrize("make", MAKERS)
def test_every_rank_goes_on_from_its_own(make):
    whole = [resumed(make, rank, saved(make, rank, 0)[1]) for rank in range(RANKS)]
    for rank in range(RANKS):
        seen, state = saved(make, rank, 1)
        assert seen + resumed(make, rank, state) == whole[rank]
