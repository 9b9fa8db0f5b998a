"""Connections are kept open on purpose; a test gives them back before it is searched for leaks."""

import pytest
from hypothesis import settings

from webdataset import stores


@pytest.fixture(autouse=True)
def connections_closed(nothing_left_behind):
    yield
    stores.close_connections()


# A shared machine is slow now and then; what is tested here is never time.
settings.register_profile("calm", deadline=None)
settings.load_profile("calm")
