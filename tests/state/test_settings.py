"""What a program may change at any time is in every state, whenever that is saved and wherever the change was made.

`set_weights` of a mix at any depth, `set_epoch`, `seek` and `skip`. The change comes before the first iteration, in the
middle of an epoch or between epochs; the state is saved at once, or some items later.
"""

import itertools
import json

import pytest

import webdataset as wds
from tests.golden.pipelines import STREAMED_B, indexed, keys, keys_of, streamed
from tests.state import compositions as c
from tests.state.reference import epoch_of

WEIGHTS = [1, 5]


def mixed():
    parts = [(streamed(shardshuffle=True), 4), (streamed(STREAMED_B, shardshuffle=True), 1)]
    return wds.mix(parts, exhausted="repeat").with_epoch(9, restart=True)


def of_mix(around):
    """A dataset, and what changes its weights."""
    inner = mixed()
    return around(inner), lambda: inner.set_weights(WEIGHTS)


AROUND = {
    "bare": lambda inner: inner,
    "stage after it": lambda inner: inner.listed(2),
    "continued": lambda inner: inner.with_epoch(4),
    "in stages": lambda inner: wds.DataPipeline(inner, wds.shuffle(3)),
    "in turns": lambda inner: wds.RoundRobin([streamed(STREAMED_B), inner], longest=True),
    "in a mix": lambda inner: wds.mix([(streamed(STREAMED_B), 1), (inner, 2)], exhausted="drop"),
    "in stages twice": lambda inner: wds.DataPipeline(wds.RoundRobin([inner, streamed()], longest=True)),
    "in a loader in stages": lambda inner: wds.DataPipeline(c.LOADERS["threads-0"](inner), wds.listed(2)),
}
LOADERS = ("", "processes-0", "threads-0")  # where nothing is read ahead, a change is seen by the next draw


def follow(dataset, change, when, later):
    """The state, and what follows after it. The change comes `when`: before an epoch, or after so many of its items."""
    epochs, taken = when
    for _ in range(epochs):
        epoch_of(dataset)
    if taken is None:
        change()
        return json.dumps(dataset.state_dict()), [epoch_of(dataset) for _ in range(3)]
    items = iter(dataset)
    for _ in range(taken):
        next(items)
    change()
    for _ in itertools.islice(items, later):
        pass
    state = json.dumps(dataset.state_dict())
    rest = [keys_of(item) for item in items]
    return state, [rest, epoch_of(dataset), epoch_of(dataset)]


WHEN = [(0, None), (0, 0), (0, 2), (1, None), (1, 2)]


def assert_resumes(make, when, later=0):
    dataset, change = make()
    state, expected = follow(dataset, change, when, later)
    dataset.close()
    again, _ = make()
    again.load_state_dict(json.loads(state))
    found = json.dumps(again.state_dict())
    assert found == state, "the state of what was just loaded"
    assert [epoch_of(again) for _ in range(3)] == expected
    again.close()
    return expected


@pytest.mark.parametrize("when", WHEN, ids=str)
@pytest.mark.parametrize("workers", LOADERS)
@pytest.mark.parametrize("around", AROUND)
def test_weights_of_a_mix(around, workers, when):
    """Mutation: save the weights in the progress of the mix alone."""

    def make():
        dataset, change = of_mix(AROUND[around])
        return c.LOADERS[workers](dataset), change

    expected = assert_resumes(make, when)
    assert_resumes(make, when, later=2)
    assert expected != assert_resumes(lambda: (make()[0], lambda: None), when), "the weights changed nothing"


@pytest.mark.parametrize("when", [(0, None), (1, None)], ids=str)
@pytest.mark.parametrize("workers", ["threads-2", "processes-2"])
def test_weights_reach_threads_and_processes_with_the_epoch(workers, when):
    def make():
        dataset, change = of_mix(AROUND["in stages"])
        return c.LOADERS[workers](dataset), change

    expected = assert_resumes(make, when)
    assert expected != assert_resumes(lambda: (make()[0], lambda: None), when), "the weights changed nothing"


def test_weights_that_threads_have_not_drawn_with_yet_are_not_lost():
    def make():
        return wds.mix([(streamed().repeat(), 1), (streamed(STREAMED_B).repeat(), 1)])

    inner = make()
    loader = c.LOADERS["threads-2"](inner)
    items = iter(loader)
    next(items)
    inner.set_weights([0, 1])
    state = loader.state_dict()
    items.close()
    again = c.LOADERS["threads-2"](make())
    again.load_state_dict(state)
    found = [keys_of(item) for item in itertools.islice(again, 20)]
    again.close()
    assert all(key.startswith("b") for key in found[-10:]), found


def test_weights_of_a_checkpoint_replace_those_of_the_program():
    state = mixed().state_dict()
    again = mixed()
    again.set_weights(WEIGHTS)
    again.load_state_dict(state)
    assert epoch_of(again) == epoch_of(mixed())


@pytest.mark.parametrize("weights", [[[1]], [], [["x", "y"]], [[-1, 1]], 3, [3]], ids=str)
def test_weights_that_do_not_fit_are_refused(weights):
    dataset = mixed()
    state = {**dataset.state_dict(), "weights": weights}
    with pytest.raises(wds.StateError, match="malformed checkpoint"):
        dataset.load_state_dict(state)


@pytest.mark.parametrize("around", ["bare", "repeated", "with_epoch_restart"])
@pytest.mark.parametrize("when", WHEN, ids=str)
@pytest.mark.parametrize("workers", ["", "processes-0", "threads-2"])
def test_set_epoch(workers, when, around):
    """Mutation: forget the number that a program gave to the next epoch in the middle of one."""
    cut = {"bare": c.one_pass, "repeated": c.repeated, "with_epoch_restart": c.with_epoch_restart}[around]

    def make(epoch=7):
        dataset = cut(c.LOADERS[workers](streamed(shardshuffle=True).shuffle(3)))
        return dataset, lambda: dataset.set_epoch(epoch)

    expected = assert_resumes(make, when)
    if when[1] != 0:  # `iter` has begun an epoch already
        assert expected != assert_resumes(lambda: make(8), when)


@pytest.mark.parametrize(
    "around", [around for around in AROUND if around not in ("bare", "stage after it", "continued")]
)
def test_set_epoch_of_a_dataset_inside_another_is_refused(around):
    """It would decide about some epochs and not about others, and no state would know it."""
    inner = mixed()
    dataset = AROUND[around](inner)
    inner.set_epoch(3)
    with pytest.raises(wds.SpecError, match="set_epoch on the outer one"):
        iter(dataset)


def test_set_epoch_of_the_dataset_of_a_loader_is_that_of_the_loader():
    dataset = streamed(shardshuffle=True)
    loader = c.LOADERS["threads-0"](dataset)
    dataset.set_epoch(3)
    expected = streamed(shardshuffle=True)
    expected.set_epoch(3)
    assert epoch_of(loader) == epoch_of(expected)


@pytest.mark.parametrize("when", [(0, None), (1, None)], ids=str)
@pytest.mark.parametrize("workers", ["", "processes-0", "threads-2"])
@pytest.mark.parametrize("setting", ["seek", "skip"])
def test_steps_that_are_left_out(setting, workers, when):
    def make():
        dataset = c.LOADERS[workers](indexed(order="random").batched(2, collation_fn=keys))
        return dataset, lambda: getattr(dataset, setting)(1)

    assert_resumes(make, when)
