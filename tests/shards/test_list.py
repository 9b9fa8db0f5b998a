import pickle
import random
import subprocess
import sys

import pytest

from webdataset import world
from webdataset.errors import SpecError, StateError
from webdataset.flow import Pass
from webdataset.shards import SimpleShardList, shard_order

TEN = [str(i) for i in range(10)]


def urls(items):
    return [item["url"] for item in items]


def resumes_everywhere(stage, during, expected):
    """Save before every item and after the last, load into a fresh progress, compare what follows."""
    at = stage.start(during)
    run, states = stage.run(iter(()), at), []
    for _ in range(len(expected) + 1):
        states.append(at.save())
        if next(run, None) is None:
            break
    assert len(states) == len(expected) + 1
    for number, state in enumerate(states):
        again = stage.start(during)
        again.load(state, None)
        assert urls(stage.run(iter(()), again)) == expected[number:]


def test_seed_17_starts_with_7_as_the_public_library_does():
    order = urls(SimpleShardList(TEN, seed=17))
    assert order == ["7", "3", "0", "5", "1", "9", "2", "4", "6", "8"]
    assert order == urls(SimpleShardList(TEN, seed=17))


def test_the_same_every_pass_with_a_number_and_new_with_true():
    fixed, fresh = SimpleShardList(TEN, seed=3), SimpleShardList(TEN, seed=True)
    assert urls(fixed) == urls(fixed)
    first, second = urls(fresh), urls(fresh)
    assert first != second and sorted(first) == sorted(second) == TEN


def test_items_are_fresh_dicts():
    source = SimpleShardList("a.tar")
    first, second = next(iter(source)), next(iter(source))
    first["stream"] = 1
    assert second == {"url": "a.tar"} == next(iter(source))


def test_attributes_that_programs_touch():
    source = SimpleShardList("{0..9}", seed=None)
    assert source.urls == TEN and len(source) == 10 and source.epoch == -1
    source.seed = 17
    assert next(iter(source))["url"] == "7"
    assert source.epoch == 0


@pytest.mark.parametrize("seed", [None, 17, True])
def test_resumes_everywhere(seed):
    source = SimpleShardList(TEN, seed=seed)
    during = Pass(seed=4, epoch=2)
    resumes_everywhere(source, during, urls(source.run(iter(()), source.start(during))))


def test_a_checkpoint_of_other_shards_is_refused():
    state = SimpleShardList(TEN).start(Pass()).save()
    with pytest.raises(StateError, match="10 shards, the dataset has 2"):
        SimpleShardList(["a", "b"]).start(Pass()).load(state, None)


def test_the_epoch_of_the_checkpoint_decides_the_order():
    source = SimpleShardList(TEN, seed=True)
    at = source.start(Pass(epoch=5))
    run = source.run(iter(()), at)
    head = urls(next(run) for _ in range(4))
    again = source.start(Pass(epoch=0))
    again.load(at.save(), None)
    assert head + urls(source.run(iter(()), again)) == urls(source.run(iter(()), source.start(Pass(epoch=5))))


def test_origins_are_addresses_that_can_be_recalled():
    source = SimpleShardList(TEN, seed=17)
    at = source.start(Pass())
    for item in source.run(iter(()), at):
        assert source.recall(at.origin) == item


def test_D11_a_new_order_each_epoch():
    orders = {tuple(shard_order(20, 0, epoch)) for epoch in range(50)}
    assert len(orders) == 50
    assert all(sorted(order) == list(range(20)) for order in orders)


def test_shard_order_is_pinned():
    assert shard_order(8, 0, 0) == [6, 2, 1, 7, 4, 0, 5, 3] and shard_order(8, 1, 0) != shard_order(8, 0, 0)


def test_order_is_the_same_on_every_rank_and_does_not_depend_on_the_hash_seed():
    program = "from webdataset.shards import shard_order; print(shard_order(9, 3, 4))"
    seen = {
        subprocess.run(
            [sys.executable, "-c", program], capture_output=True, text=True, check=True,
            env={"PYTHONPATH": ":".join(sys.path), "PYTHONHASHSEED": seed},
        ).stdout
        for seed in ("0", "1")
    }  # fmt: skip
    assert seen == {f"{shard_order(9, 3, 4)}\n"}
    source = SimpleShardList(TEN, seed=True)
    orders = set()
    for rank in range(4):
        with world.pretend(world.World(rank=rank, ranks=4)):
            orders.add(tuple(urls(source.run(iter(()), source.start(Pass(world=world.current()))))))
    assert len(orders) == 1


def test_D52_the_global_generator_is_left_alone():
    random.seed(1)
    before = random.getstate()
    list(SimpleShardList(TEN, seed=5)), list(SimpleShardList(TEN, seed=True))
    assert random.getstate() == before


def test_D29_the_seed_of_the_environment_is_a_number(monkeypatch):
    plain = urls(SimpleShardList(TEN, seed=True))
    monkeypatch.setenv("WDS_SEED", "7")
    assert urls(SimpleShardList(TEN, seed=True)) != plain


def test_wrong_seeds_fail_at_construction():
    with pytest.raises(SpecError, match="seed"):
        SimpleShardList(TEN, seed="7")


def test_pickles_and_describes_itself():
    source = pickle.loads(pickle.dumps(SimpleShardList("{000..999}.tar", seed=3)))
    assert urls(source) == urls(SimpleShardList("{000..999}.tar", seed=3))
    assert "1000 shards" in repr(source) and "seed=3" in repr(source)
    assert repr(SimpleShardList([f"{i}" for i in range(9)])) != repr(
        SimpleShardList([f"{i * (i != 4)}" for i in range(9)])
    )
