"""Ctrl-C comes when a call ends. Whatever call that is, a checkpoint taken then loses no sample."""

import json

import pytest

import webdataset as wds
from webdataset.samples import _read_samples
from webdataset.testing import make_shard

SAMPLES = 40


@pytest.fixture
def make():
    samples = [{"__key__": f"{number:05d}", "cls": number} for number in range(SAMPLES)]
    shard = make_shard("memory://interrupted/a.tar", samples)
    return lambda: wds.WebDataset(shard, shardshuffle=False).decode().to_tuple("cls").batched(5)


def flat(batches):
    return [number for (numbers,) in batches for number in numbers.tolist()]


def round_trip(dataset):
    return json.loads(json.dumps(dataset.state_dict()))


@pytest.mark.parametrize("before", [0, 2, 5])
def test_between_two_windows_of_a_reader(make, monkeypatch, before):
    """Mutation: let the position be that of the new window before one of its samples was handed on."""
    dataset = make()
    batches = iter(dataset)
    for _ in range(before):
        next(batches)
    state = round_trip(dataset)
    dataset.close()
    turns = _read_samples._turns

    def interrupted(*args):
        turns(*args)
        raise KeyboardInterrupt

    resumed = make()
    resumed.load_state_dict(state)
    monkeypatch.setattr(_read_samples, "_turns", interrupted)
    with pytest.raises(KeyboardInterrupt):
        list(resumed)
    monkeypatch.undo()
    again = make()
    again.load_state_dict(round_trip(resumed))
    assert flat(again) == list(range(5 * before, SAMPLES))
