"""Connections are kept open on purpose; a test gives them back before it is searched for leaks."""

import sys
from pathlib import Path

import pytest

from webdataset import stores

sys.path.insert(0, str(Path(__file__).parent))  # for servers.py and the fakes


@pytest.fixture(autouse=True)
def connections_closed(nothing_left_behind):
    yield
    stores.close_connections()
