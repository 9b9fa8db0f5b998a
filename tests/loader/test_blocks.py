"""Batches made where they are handed over: never copied again, never changed by what happens on the other side."""

import os
import pickle
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.utils.data import default_collate as default_collate_of_torch

import webdataset as wds
from webdataset.loader import WebLoader
from webdataset.loader._transfer import pack
from webdataset.loader._shared_memory import Blocks, available
from webdataset.loader._collate_shared import default_collate

from .sources import numbers

pytestmark = pytest.mark.skipif(not available(), reason="no blocks of shared memory on this system")

LARGE = 40_000  # float64: five batches of four come to more than a block's least size


def sample(i):
    return {"x": np.full(LARGE, float(i)), "n": i}


def lies_in_a_block(array):
    place = np.asarray(array).__array_interface__["data"][0]
    for line in Path("/proc/self/maps").read_text().splitlines():
        first, last = (int(number, 16) for number in line.split()[0].split("-"))
        if first <= place < last:
            return "webdataset-batch" in line
    raise AssertionError("memory that is mapped nowhere")


def with_place(batch):
    return {**batch, "in a block": lies_in_a_block(batch["x"])}


def collate_with_place(samples):
    return with_place(default_collate(samples))


@pytest.mark.parametrize("batching", ["of the dataset", "of the loader"])
def test_a_batch_is_made_in_the_block_that_is_handed_over(batching):
    if batching == "of the dataset":
        loader = WebLoader(numbers(40).map(sample).batched(4).map(with_place), batch_size=None, num_workers=1)
    else:
        loader = WebLoader(numbers(40).map(sample), batch_size=4, num_workers=1, collate_fn=collate_with_place)
    batches = list(loader)
    assert [int(batch["x"][-1, -1]) for batch in batches] == list(range(3, 40, 4))
    assert [batch["in a block"] for batch in batches] == [False] + [True] * 9  # how large they are shows the first


class Remember:
    """Keeps the batch before, and adds what is in it now."""

    def __init__(self):
        self.before = None

    def __call__(self, batch):
        before, self.before = self.before, batch
        return {**batch, "before": -1 if before is None else int(before["x"][0, 0])}


def test_what_a_consumer_writes_is_not_seen_by_a_stage_that_keeps_its_batches():
    loader = WebLoader(numbers(40).map(sample).batched(4).map(Remember()), batch_size=None, num_workers=1)
    found = []
    for batch in loader:
        found.append(batch["before"])
        batch["x"].fill_(-7)
    assert found == [-1, *range(0, 36, 4)]


def yield_twice(batches):
    for batch in batches:
        yield batch
        batch["x"] += 1000
        yield batch


def test_a_generator_may_change_what_it_has_handed_on():
    dataset = numbers(24).map(sample).batched(4).compose(yield_twice)
    batches = list(WebLoader(dataset, batch_size=None, num_workers=1))
    assert [batch["x"][0, 0].item() for batch in batches] == [
        first + more for first in range(0, 24, 4) for more in (0, 1000)
    ]


def change_later(batches):
    for batch in batches:
        yield batch
        batch["x"] += 1000


def test_a_generator_may_change_later_what_is_batched_again_without_a_copy():
    """The consumer looks again when the generator has gone on: only then has the last batch of a list been changed."""
    dataset = numbers(40).map(sample).batched(4).compose(change_later, wds.batched(1, collation_fn=None))
    batches = iter(WebLoader(dataset, batch_size=None, num_workers=1))
    kept = [next(batches)[0]["x"] for _ in range(4)]
    rest = [batch["x"] for (batch,) in batches]
    assert [x[0, 0].item() for x in kept + rest] == list(range(0, 40, 4))


def run_forked(function):
    child = os.fork()
    if not child:
        try:
            function()
        finally:
            os._exit(0)
    os.waitpid(child, 0)


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_process_forked_from_the_consumer_gives_nothing_back():
    batches = iter(WebLoader(numbers(120).map(sample).batched(4), batch_size=None, num_workers=1))
    kept = [next(batches)["x"] for _ in range(4)]
    run_forked(kept.clear)
    assert len(list(batches)) == 26
    assert [x[-1, -1].item() for x in kept] == [3, 7, 11, 15]


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_process_forked_from_the_consumer_keeps_its_batches():
    batches = iter(WebLoader(numbers(120).map(sample).batched(4), batch_size=None, num_workers=1))
    kept = [next(batches)["x"] for _ in range(4)]
    here, there = os.pipe()
    child = os.fork()
    if not child:
        os.close(there)
        os.read(here, 1)  # until the consumer has gone on
        os._exit([x[-1, -1].item() for x in kept] != [3, 7, 11, 15])
    kept.clear()
    assert len(list(batches)) == 26
    os.close(there)
    os.close(here)
    assert os.waitpid(child, 0)[1] == 0


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_process_forked_from_a_worker_makes_its_batches_elsewhere():
    blocks = Blocks(keep=3)
    blocks.send(blocks.take(100_000), 100_000)
    room = blocks.allocate(80_000)
    room[:] = 7
    view = room[:10]

    def make():
        nonlocal room, view
        del room, view  # the block seems to be free
        found = blocks.allocate(80_000)
        if found is not None:
            found[:] = 8

    run_forked(make)
    assert (room == 7).all()
    assert view[0] == 7


def test_whoever_keeps_small_batches_does_not_keep_blocks_made_for_large_ones():
    large, small = 1_000_000, 20_000

    def uneven(i):
        return (np.full(small if i % 2 else large, i),)

    dataset = wds.DataPipeline(range(24), wds.map(uneven), wds.batched(1))
    kept = []
    for (x,) in WebLoader(dataset, batch_size=None, num_workers=1):
        kept += [x] if x.shape == (1, small) else []
        del x
    assert mapped_in_blocks() <= 3 * sum(x.nbytes for x in kept)
    assert [int(x[0, 0]) for x in kept] == list(range(1, 24, 2))


def mapped_in_blocks():
    sizes = 0
    for line in Path("/proc/self/maps").read_text().splitlines():
        if "webdataset-batch" in line:
            first, last = (int(number, 16) for number in line.split()[0].split("-"))
            sizes += last - first
    return sizes


PIPELINES = {
    "shuffled batches": lambda d: d.batched(4).shuffle(3, seed=5),
    "cached batches": lambda d: wds.DataPipeline(*d.batched(4).pipeline, wds.Cached()),
    "unbatched again": lambda d: d.batched(4).unbatched(),
    "batches of batches": lambda d: d.batched(2).batched(2),
    "converted": lambda d: d.batched(4).map_dict(x=lambda x: x.astype(np.float32)),
    "half of it": lambda d: d.batched(4).map_dict(x=lambda x: x[:2]),
    "twice": lambda d: d.batched(4).map(lambda batch: {**batch, "y": batch["x"], "z": batch["x"][1:]}),
    "lists": lambda d: d.listed(3).map(lambda samples: [s["x"] for s in samples]),
}


@pytest.mark.parametrize("name", PIPELINES)
def test_every_kind_of_batch_arrives_as_it_was_made(name):
    def loader(workers):
        return WebLoader(PIPELINES[name](numbers(26).map(sample)), batch_size=None, num_workers=workers)

    one, other = loader(0), loader(1)
    for _ in range(2):
        assert str(list(other)) == str(list(one))


def test_the_size_of_a_batch_may_change_all_the_time():
    sizes = [LARGE, 10, 3 * LARGE, LARGE // 8, LARGE, 100, 9 * LARGE, 1] * 3
    dataset = wds.DataPipeline(range(len(sizes)), wds.map(lambda i: (np.full(sizes[i], i),)), wds.batched(1))
    found = [batch[0] for batch in WebLoader(dataset, batch_size=None, num_workers=1)]
    assert [len(x[0]) for x in found] == sizes
    assert all((x == i).all() for i, x in enumerate(found))


Steps = st.lists(
    st.tuples(st.sampled_from(["make", "keep", "drop", "receive", "let go"]), st.integers(0, 5)), max_size=60
)


@given(steps=Steps)
def test_no_step_of_either_side_changes_a_batch(steps):
    """One process plays both sides: batches are made, kept, dropped, handed over, written to and let go, in any order."""
    blocks, made, received, number = Blocks(keep=3), [], [], 0
    for step, which in steps:
        if step in ("make", "keep"):
            number += 1
            size = 70_000 + 10_000 * which
            array = blocks.allocate(size)
            array = np.empty(size, np.uint8) if array is None else array
            array[:] = number % 251
            made.append((array, number % 251))
            del array
        elif step == "drop" and made:
            del made[which % len(made)]
        elif step == "receive" and made:
            array, value = made[which % len(made)]
            parcel = pack({"x": array, "small": np.full(2000, value, np.uint8)}, blocks)
            received.append((pickle.loads(pickle.dumps(parcel)).unpack(), value))
            del array
        elif received:
            batch, _ = received.pop(which % len(received))
            batch["x"][:] = 255
            batch["small"][:] = 255
            del batch
        assert all((array == value).all() for array, value in made)
        assert all((batch["x"] == value).all() and (batch["small"] == value).all() for batch, value in received)


@pytest.mark.parametrize(
    "samples",
    [
        [{"a": 1, "b": [2.0, "x"]}, {"a": 3, "b": [4.0, "y"]}],
        [(np.ones(3, np.float32), b"x"), (np.zeros(3, np.float32), b"y")],
        [torch.ones(2, 3, dtype=torch.bfloat16), torch.zeros(2, 3, dtype=torch.bfloat16)],
        [torch.ones((), requires_grad=True), torch.zeros(())],
        [np.float64(1), np.float64(2)],
        [torch.ones(2), torch.arange(4.0)[::2]],
        [torch.ones(2, 3).T, torch.zeros(2, 3).T],
        [torch.tensor([1, 2]), torch.tensor([True, False])],
        [torch.ones(2, dtype=torch.complex64)] * 2,
    ],
)
def test_collation_is_that_of_torch(samples):
    assert str(default_collate(samples)) == str(default_collate_of_torch(samples))
    assert str(default_collate(samples[:1])) == str(default_collate_of_torch(samples[:1]))


@pytest.mark.parametrize("size", [0, 10, 2000, 200_000])
@pytest.mark.parametrize(
    "cut", [lambda view: view, lambda view: view[8:], lambda view: view[::-1], lambda v: v.cast("H")]
)
def test_a_view_arrives_as_a_view_of_the_same(size, cut):
    view = cut(memoryview(os.urandom(size)))
    for blocks in (None, Blocks(keep=2)):
        found = pickle.loads(pickle.dumps(pack({"jpg": view, "label": 3}, blocks))).unpack()["jpg"]
        assert type(found) is memoryview
        assert found.readonly
        assert (found.format, found.tolist()) == (view.format, view.tolist())
