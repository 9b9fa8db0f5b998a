"""The viewer needs its extra; a server and a client of it."""

import pytest

pytest.importorskip("starlette", reason="the viewer needs webdataset[view]")
pytest.importorskip("uvicorn", reason="the viewer needs webdataset[view]")

from tests.viewer.asking import Client
from tests.viewer.datasets import photos
from webdataset.viewer import ViewServer


@pytest.fixture
def shards(tmp_path):
    return photos(tmp_path, shards=2, each=10)


@pytest.fixture
def server(shards):
    with ViewServer(shards) as running:
        yield running


@pytest.fixture
def client(server):
    found = Client(server)
    found.ready()
    return found
