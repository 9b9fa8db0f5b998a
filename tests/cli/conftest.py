"""A folder to work in, and shards in it."""

import pytest

from tests.tools.datasets import write_numbers


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def shards(here):
    return write_numbers("data", shards=3, each=7)
