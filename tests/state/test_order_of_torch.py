"""An order that torch draws is not drawn again: in the middle of an epoch such a loader has no state, wherever it is."""

import pytest

import webdataset as wds
from tests.golden.pipelines import INDEXED, keys, streamed
from tests.state import compositions as c
from tests.state.reference import epoch_of

data = pytest.importorskip("torch.utils.data")
NUMBERS = range(7)
DRAWN = {
    "shuffle": {"shuffle": True},
    "sampler": {"sampler": data.RandomSampler(NUMBERS)},
    "subset": {"sampler": data.SubsetRandomSampler(NUMBERS)},
    "weights": {"sampler": data.WeightedRandomSampler([1.0] * 7, 7)},
    "batches": {"batch_sampler": data.BatchSampler(data.RandomSampler(NUMBERS), 2, drop_last=False)},
}
IN_ORDER = {
    "plain": {},
    "shuffle=False": {"shuffle": False},
    "sampler": {"sampler": data.SequentialSampler(NUMBERS)},
    "distributed": {"sampler": data.DistributedSampler(NUMBERS, num_replicas=1, rank=0)},
}
AROUND = {
    "bare": lambda loader: loader,
    "stage after it": lambda loader: loader.listed(2),
    "epochs": lambda loader: loader.with_epoch(3),
    "in turns": lambda loader: wds.RoundRobin([loader, streamed().listed(2)], longest=True),
    "in stages": lambda loader: wds.DataPipeline(loader, wds.shuffle(3)),
    "in a loader": lambda loader: c.LOADERS["processes-0"](wds.DataPipeline(loader)),
    "in a loader with threads": lambda loader: c.LOADERS["threads-2"](wds.DataPipeline(loader)),
    "in a loader with processes": lambda loader: c.LOADERS["processes-1"](wds.DataPipeline(loader)),
}


def loader(**settings):
    return wds.WebLoader(wds.IndexedDataset(INDEXED), collate_fn=keys, **settings)


@pytest.mark.parametrize("around", AROUND)
@pytest.mark.parametrize("drawn", DRAWN)
def test_no_state_in_the_middle(drawn, around):
    """Mutation: count the items, and leave as many of another order out."""
    dataset = AROUND[around](loader(**DRAWN[drawn]))
    assert dataset.state_dict()["at"]["epoch"] == 0
    items = iter(dataset)
    for _ in range(2):
        next(items)
    with pytest.raises(wds.StateError, match="torch draws the order"):
        dataset.state_dict()
    dataset.close()


def test_a_state_between_two_epochs():
    dataset = loader(**DRAWN["shuffle"])
    epoch_of(dataset)
    again = loader(**DRAWN["shuffle"])
    again.load_state_dict(dataset.state_dict())
    assert len(epoch_of(again)) == len(epoch_of(dataset)) == 7


@pytest.mark.parametrize("order", IN_ORDER)
def test_an_order_that_does_not_change_is_counted(order):
    dataset, again = loader(**IN_ORDER[order]), loader(**IN_ORDER[order])
    items = iter(dataset)
    next(items)
    again.load_state_dict(dataset.state_dict())
    assert epoch_of(again) == [item for item in items]
