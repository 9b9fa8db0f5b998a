"""copy=False changes no sample: every pipeline yields the same in the same order, and goes on from the same states."""

import itertools
import json
from functools import partial

import numpy as np
import pytest

from tests.golden import pipelines
from tests.golden.pipelines import LIMITS, PIPELINES
from tests.golden.replay import following, resume
from tests.golden.test_golden_states import GOLDEN, beside_the_shards, shards  # noqa: F401  # fixtures


def without_copies(monkeypatch):
    for name in ("streamed", "indexed"):
        monkeypatch.setattr(pipelines, name, partial(getattr(pipelines, name), copy=False))


def items_and_state(name):
    """The first epoch, and the state after its second item."""
    dataset, state = PIPELINES[name](), None
    items = []
    for item in itertools.islice(dataset, LIMITS.get(name)):
        items.append(item)
        if len(items) == 2:
            state = dataset.state_dict()
    dataset.close()
    return items, state


def same(one, other):
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(one[name], other[name]) for name in one)
    if isinstance(one, list | tuple):
        return type(one) is type(other) and len(one) == len(other) and all(map(same, one, other))
    return bool(np.all(one == other))


def fields(item):
    if isinstance(item, dict | list | tuple):
        return [field for part in (item.values() if isinstance(item, dict) else item) for field in fields(part)]
    return [item] if isinstance(item, bytes | memoryview) else []


@pytest.mark.parametrize("name", PIPELINES)
def test_items_and_states_are_those_of_copies(name, monkeypatch):
    copies, expected = items_and_state(name)
    without_copies(monkeypatch)
    views, state = items_and_state(name)
    assert same(copies, views)
    assert name.startswith("loader_") or state == expected  # how far a loader is ahead is a matter of timing
    if name != "stages_resampled_shards":  # it reads without `WebDataset`
        assert [(type(field), field.readonly) for field in fields(views)] == [(memoryview, True)] * len(fields(copies))


@pytest.mark.parametrize("name", GOLDEN)
def test_a_state_of_copies_continues_with_views(name, monkeypatch):
    without_copies(monkeypatch)
    for stop in [stop for stop in GOLDEN[name]["stops"] if all(stop["v1_exact"])][1::3]:
        expected = following(name, GOLDEN[name]["epochs"], stop["epoch"], stop["after"])
        assert resume(name, json.dumps(stop["state"])) == expected
