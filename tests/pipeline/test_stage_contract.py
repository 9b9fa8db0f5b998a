"""Our own stages pass the contract that we give to others, and a stage that breaks it is found out."""

import json
from dataclasses import dataclass

import numpy as np
import pytest

import webdataset as wds
from webdataset import stages
from webdataset.errors import StageError
from webdataset.flow import Progress, Resumable
from webdataset.testing import StageContract, make_shard


class TestShuffle(StageContract):
    def stage(self):
        return stages.shuffle(6, initial=3)


class TestBatched(StageContract):
    def stage(self):
        return stages.batched(4, collation_fn=None)


class TestSelect(StageContract):
    def stage(self):
        return stages.select(is_odd)


class TestSlice(StageContract):
    def stage(self):
        return stages.slice(2, 17, 3)


class TestUnlisted(StageContract):
    def items(self):
        return [[1, 2, 3], [], [4], [5, 6]]

    def stage(self):
        return stages.unlisted()


def is_odd(n):
    return n % 2 == 1


@dataclass(frozen=True)
class Forgetful(Resumable):
    """Hands on pairs swapped, and does not say that it holds one item between two."""

    def start(self, during):
        return Progress()

    def run(self, items, at, /):
        for first in items:
            second = next(items, None)
            if second is not None:
                yield second
            yield first


class Broken(StageContract):
    def stage(self):
        return Forgetful()


def test_a_stage_that_loses_an_item_on_resume_is_found_out():
    with pytest.raises(AssertionError, match="resumed after 1 items"):
        Broken().test_resumes_at_every_step()


class _Holding(Progress):
    """Saves what a test gives it."""

    def __init__(self, value):
        self.value = value

    def save(self):
        return {"held": [self.value]}


@dataclass(frozen=True)
class Holds(Resumable):
    """A stage whose progress may not be JSON."""

    value: object

    def start(self, during):
        return _Holding(self.value)

    def run(self, items, at, /):
        yield from items


def _reads(pipeline, around, folder):
    shards = make_shard(folder / "a.tar", [{"__key__": f"{n}", "txt": f"{n}"} for n in range(4)])
    dataset = wds.WebDataset(shards).decode().compose(pipeline).map(dict)
    return {
        "alone": lambda: dataset,
        "nested": lambda: wds.DataPipeline(dataset, wds.shuffle(2)),
        "processes": lambda: wds.WebLoader(dataset, batch_size=None, num_workers=1),
        "threads": lambda: wds.WebLoader(dataset, batch_size=None, num_workers=1, workers="threads"),
    }[around]()


@pytest.mark.parametrize("around", ["alone", "nested", "threads", "processes"])
@pytest.mark.parametrize(
    ("value", "what"),
    [
        (np.zeros(2), "a value of type ndarray"),
        (b"x", "a value of type bytes"),
        ({1: 2}, "a dict with a key of type int"),
        ({1}, "a value of type set"),
    ],
)
def test_a_state_that_is_not_json_names_the_stage(around, value, what, tmp_path):
    dataset = _reads(Holds(value), around, tmp_path)
    items = iter(dataset)
    next(items)
    with pytest.raises(StageError, match=f"saved {what}, which is not JSON – stage Holds.* – .*recall"):
        dataset.state_dict()
    dataset.close()


@pytest.mark.parametrize("value", [None, True, 1.5, "é", [1, {"a": (2,)}]])
def test_a_state_that_is_json_is_saved(value, tmp_path):
    dataset = _reads(Holds(value), "alone", tmp_path)
    items = iter(dataset)
    next(items)
    assert json.loads(json.dumps(dataset.state_dict()))
    dataset.close()
