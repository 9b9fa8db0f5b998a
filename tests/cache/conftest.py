"""Connections are kept open on purpose; a test gives them back before it is searched for leaks."""

import pytest

from webdataset import stores


@pytest.fixture(autouse=True)
def connections_closed(nothing_left_behind):
    yield
    stores.close_connections()
