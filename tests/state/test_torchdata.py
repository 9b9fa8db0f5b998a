"""torchdata's StatefulDataLoader: stopped anywhere, it goes on as a run that was never stopped, in all later epochs.

Its workers have unequal parts (7 samples in 3 shards), so some of them have ended when others have not.
"""

import itertools
import pickle

import pytest

from tests.golden.pipelines import keys_of
from tests.state import compositions as c
from tests.state.reference import epoch_of

stateful = pytest.importorskip("torchdata.stateful_dataloader", reason="torchdata is not installed")

pytestmark = [
    pytest.mark.filterwarnings("ignore:'set_vital' is deprecated"),
    pytest.mark.filterwarnings("ignore:This DataLoader will create"),
    pytest.mark.filterwarnings("ignore:this worker got no samples"),
]
STOPPED = 2  # epochs with stop points


def loader_of(source, cut, workers, *, persistent=False):
    """The loader of a program; a stopped one and one that goes on are made alike."""
    return stateful.StatefulDataLoader(
        cut(source()), batch_size=None, num_workers=workers, persistent_workers=persistent, collate_fn=keys_of
    )


def stop_points(epochs):
    return [(epoch, taken) for epoch in range(STOPPED) for taken in (*range(1, len(epochs[epoch]) + 1), None)]


def after(epochs, epoch, taken):
    """What must follow. After the last item the loader says itself whether the empty rest is an epoch of its own."""
    if taken is None:
        return [epochs[epoch + 1 : epoch + 3]]
    rest = epochs[epoch][taken:]
    return [[rest, epochs[epoch + 1]]] + ([epochs[epoch + 1 : epoch + 3]] if not rest else [])


def saved_at(make, stops):
    """The states of one run, pickled as torch.save does."""
    loader, found = make(), {}
    for epoch in range(STOPPED):
        for taken, _ in enumerate(loader, 1):
            if (epoch, taken) in stops:
                found[epoch, taken] = pickle.dumps(loader.state_dict())
        found[epoch, None] = pickle.dumps(loader.state_dict())
    return {stop: found[stop] for stop in stops}


def check(make, chosen=lambda stops: stops):
    uninterrupted = make()
    epochs = [epoch_of(uninterrupted) for _ in range(STOPPED + 2)]
    assert len({str(epoch) for epoch in epochs}) > 1, "every epoch has the same order"
    for stop, state in saved_at(make, chosen(stop_points(epochs))).items():
        resumed = make()
        resumed.load_state_dict(pickle.loads(state))
        assert [epoch_of(resumed), epoch_of(resumed)] in after(epochs, *stop), stop


@pytest.mark.parametrize("source", [c.stream_shuffled, c.plan_random])
@pytest.mark.parametrize("cut", [c.one_pass, c.with_epoch])
def test_stopped_anywhere_without_workers(source, cut):
    check(lambda: loader_of(source, cut, 0))


def test_stopped_when_one_of_two_workers_has_ended_and_between_epochs():
    check(lambda: loader_of(c.stream_shuffled, c.one_pass, 2), lambda stops: [(0, 6), (0, None), (1, 6)])


@pytest.mark.long
@pytest.mark.parametrize("workers", [0, 1, 2, 3])
@pytest.mark.parametrize(
    ("source", "cut"),
    [
        *itertools.product([c.stream_shuffled, c.plan_random], [c.one_pass, c.with_epoch, c.with_epoch_restart]),
        *((source, c.one_pass) for source in (c.stream_filtered, c.stream_batched, c.generator_stage, c.plan_filtered)),
        (c.resampled, c.with_epoch),
        (c.stream_shuffled, c.repeated),
    ],
)
def test_stopped_anywhere(source, cut, workers):
    check(lambda: loader_of(source, cut, workers))


@pytest.mark.long
@pytest.mark.parametrize("source", [c.stream_shuffled, c.plan_random])
def test_stopped_anywhere_with_workers_that_persist(source):
    check(lambda: loader_of(source, c.one_pass, 2, persistent=True))


def test_a_state_loaded_into_a_loader_that_was_used_numbers_the_next_epochs():
    make = lambda: loader_of(c.stream_shuffled, c.one_pass, 1)
    loader = make()
    epochs = [epoch_of(loader)]
    state = loader.state_dict()
    epochs += [epoch_of(loader) for _ in range(2)]
    loader.load_state_dict(state)
    assert [epoch_of(loader), epoch_of(loader)] == epochs[1:]
