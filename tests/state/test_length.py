"""`len()` is the number of items of the epoch, or it refuses."""

import itertools
from contextlib import closing
from itertools import islice

import pytest

import webdataset as wds
from tests.golden.pipelines import INDEXED, indexed, streamed
from tests.state import compositions as c
from tests.state.reference import LONGEST, Reference
from tests.state.test_every_stop_point import IN_ONE_PROCESS
from webdataset import interop, world

ROWS = "rows-{0..1}.tfrecord"


@pytest.mark.parametrize("name", IN_ONE_PROCESS)
def test_length_is_exact_or_refused(name):
    composition = IN_ONE_PROCESS[name]
    try:
        length = len(composition.build())
    except TypeError:
        return
    assert length == len(Reference(composition.build, 1).epochs[0])


def records():
    return interop.read(ROWS, mapping="label:cls,__key__:__key__")


def hugging_face():
    datasets = pytest.importorskip("datasets")
    return interop.from_hf(datasets.Dataset.from_dict({"label": [*range(7)]}))


# What comes first, and what cuts or repeats it, or has another number of items.
SOURCES = {
    "indexed": indexed,
    "dropping the end": lambda: indexed(uneven="drop"),
    "nested": lambda: wds.DataPipeline(indexed()),
    "arrays": lambda: wds.DataPipeline(wds.ArrayBatches("arrays/a-{0..2}.tar", "npy", 3)),
    "shards": lambda: wds.DataPipeline(wds.SimpleShardList(INDEXED)),
    "records": records,
    "hugging face": hugging_face,
}
DECLARED = {
    "declared": lambda: streamed().with_length(7),
    "an epoch of another": lambda: wds.with_epoch(indexed(), 4),
    "a length of another": lambda: wds.with_length(streamed(), 7),
}
STEPS = {
    "batches": lambda dataset: dataset.compose(wds.listed(2, partial=False)),
    "slice": lambda dataset: dataset.compose(wds.slice(1, None, 2)),
    "short epoch": lambda dataset: dataset.with_epoch(3),
    "long epoch": lambda dataset: dataset.with_epoch(9),
    "repeat": lambda dataset: dataset.repeat(2),
    "repeat, cut": lambda dataset: dataset.repeat(2, nbatches=5),
    "repeat, cut late": lambda dataset: dataset.repeat(2, nbatches=99),
    "around it": wds.DataPipeline,
    "loader": c.LOADERS["processes-0"],
}
TURNS = itertools.cycle([True, False])
DROPPING = {
    "select": lambda dataset: dataset.compose(wds.select(lambda sample: next(TURNS))),
    "handler": lambda dataset: dataset.compose(wds.map(every_second_fails, handler=wds.ignore_and_continue)),
}


def every_second_fails(sample):
    if next(TURNS):
        raise ValueError
    return sample


@pytest.fixture
def rows():
    for part in range(2):
        numbers = range(part * 4, 7 if part else 4)
        interop.write([{"__key__": f"a{number:02d}", "label": number} for number in numbers], f"rows-{part}.tfrecord")


def difference(dataset):
    """The length and the number of items, if they differ; None if it has no length."""
    with closing(dataset):
        try:
            length = len(dataset)
        except TypeError:
            return None
        items = sum(1 for _ in islice(iter(dataset), LONGEST))
    return (length, items) if length != items else ()


CASES = [
    *((source, ranks) for source in SOURCES for ranks in (1, 2)),
    *((source, 1) for source in DECLARED),  # what was declared is that of this rank
]


@pytest.mark.parametrize(("source", "ranks"), CASES)
def test_whatever_is_added_the_length_follows_or_is_refused(source, ranks, rows):
    """One step or two after each source. Mutation: keep a length that was declared before."""
    make = {**SOURCES, **DECLARED}[source]
    steps = STEPS if source in DECLARED else {**STEPS, **DROPPING}
    found = {}
    with world.pretend(world.World(ranks - 1, ranks)):
        for name, step in steps.items():
            found[name] = difference(step(make()))
            for other, more in steps.items():
                found[name, other] = difference(more(step(make())))
    assert {case: each for case, each in found.items() if each} == {}
    assert () in found.values() or ranks > 1
