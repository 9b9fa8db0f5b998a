"""A loader that makes batches, and one of a dataset that makes them, yield the same and accept each other's state."""

import itertools
import json
from contextlib import closing
from itertools import islice

import pytest

import webdataset as wds
from tests.golden.pipelines import keys, keys_of
from tests.state import compositions as c
from tests.state.reference import Reference

SOURCES = (c.stream_filtered, c.plan_filtered, c.generator_stage)


def by_loader(source, workers, number):
    return wds.WebLoader(source(), batch_size=2, collate_fn=keys, workers=workers, num_workers=number)


def by_dataset(source, workers, number):
    dataset = source().batched(2, collation_fn=keys)
    return wds.WebLoader(dataset, batch_size=None, workers=workers, num_workers=number)


@pytest.mark.parametrize(("workers", "number"), [("processes", 0), ("processes", 2), ("threads", 2)])
@pytest.mark.parametrize("source", SOURCES, ids=lambda source: source.__name__)
def test_each_goes_on_from_the_other_s_checkpoint(source, workers, number):
    """Mutation: make the batches of `batch_size=` outside the dataset."""
    makes = [by_loader, by_dataset]
    expected = [Reference(lambda make=make: make(source, workers, number), 4).epochs for make in makes]
    assert expected[0] == expected[1]
    few = (workers, number) == ("processes", 2)
    for (make, other), epoch in itertools.product([makes, makes[::-1]], [1] if few else [0, 1]):
        for taken in [1, None] if few else [*range(len(expected[0][epoch]) + 1), None]:
            with closing(make(source, workers, number)) as first, closing(other(source, workers, number)) as second:
                for _ in range(epoch):
                    list(first)
                items = iter(first)
                list(items if taken is None else islice(items, taken))
                second.load_state_dict(json.loads(json.dumps(first.state_dict())))
                items.close()
                found = [[keys_of(item) for item in second] for _ in range(2)]
            rest = [] if taken is None else [expected[0][epoch][taken:]]
            assert found == [*rest, *expected[0][epoch + 1 :]][:2], (taken, epoch)
