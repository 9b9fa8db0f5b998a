"""Tiny shards, in the current directory, for all tests of this folder."""

import pytest

from tests.golden.shards import write_shards
from tests.state.compositions import COUNTS, write_arrays


@pytest.fixture(scope="session")
def state_shards(tmp_path_factory):
    directory = tmp_path_factory.mktemp("state-shards")
    write_shards(directory, **COUNTS)
    write_arrays(directory)
    return directory


@pytest.fixture(autouse=True)
def beside_the_shards(state_shards, monkeypatch):
    monkeypatch.chdir(state_shards)
