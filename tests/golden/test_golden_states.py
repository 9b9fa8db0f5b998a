"""Checkpoints written by released code stay readable, and continue with the same samples."""

import itertools
import json
from pathlib import Path

import pytest

from tests.golden.pipelines import PIPELINES
from tests.golden.shards import write_shards
from tests.golden.replay import following, resume, uninterrupted

STATES = Path(__file__).parent / "states"
GOLDEN = {path.stem: json.loads(path.read_text()) for path in sorted(STATES.glob("*.json"))}
STOPS = [(name, stop) for name, golden in GOLDEN.items() for stop in golden["stops"] if any(stop["v1_exact"])]


@pytest.fixture(scope="module")
def shards(tmp_path_factory):
    directory = tmp_path_factory.mktemp("shards")
    write_shards(directory)
    return directory


@pytest.fixture(autouse=True)
def beside_the_shards(shards, monkeypatch):
    monkeypatch.chdir(shards)


def _id(value):
    return value if isinstance(value, str) else f"epoch{value['epoch']}-after-{value['after']}"


def test_every_pipeline_has_its_states():
    assert sorted(GOLDEN) == sorted(PIPELINES)


@pytest.mark.parametrize("name", GOLDEN)
def test_the_order_is_that_of_the_stored_run(name):
    assert uninterrupted(name, len(GOLDEN[name]["epochs"])) == GOLDEN[name]["epochs"]


@pytest.mark.parametrize(("name", "stop"), STOPS, ids=_id)
def test_a_stored_state_continues(name, stop):
    expected = following(name, GOLDEN[name]["epochs"], stop["epoch"], stop["after"])
    found = resume(name, json.dumps(stop["state"]))
    # Epochs in a row that the code of that time resumed exactly; what it did wrong may change.
    exact = len(list(itertools.takewhile(bool, stop["v1_exact"])))
    assert found[:exact] == expected[:exact]


@pytest.mark.parametrize("name", GOLDEN)
def test_a_stored_state_names_nothing_of_one_machine(name):
    states = json.dumps([stop.get("state") for stop in GOLDEN[name]["stops"]])
    assert " at 0x" not in states
    assert "/tmp" not in states  # noqa: S108  # no file is made there
