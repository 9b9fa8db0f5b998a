"""Shards with indexes, and free ports."""

from pathlib import Path


import random
import socket
from contextlib import suppress

import pytest

pytest.importorskip("zmq", reason="pyzmq is not installed")
pytest.importorskip("msgpack", reason="msgpack is not installed")

from tests.pipeline.indexed import uneven_counts, write_shards  # noqa: E402


@pytest.fixture(scope="session")
def shards(tmp_path_factory):
    return write_shards(tmp_path_factory.mktemp("served"), uneven_counts())


@pytest.fixture(scope="session")
def few(tmp_path_factory):
    """Five shards, 31 samples."""
    return write_shards(tmp_path_factory.mktemp("served-few"), [7, 1, 12, 6, 5])


def free_address():
    """A port that no connection of this machine is given by chance: those begin with 32768."""
    while True:
        port = random.randrange(20000, 32000)
        with socket.socket() as found, suppress(OSError):
            found.bind(("127.0.0.1", port))
            return f"tcp://127.0.0.1:{port}"


@pytest.fixture
def addresses():
    return [free_address() for _ in range(4)]


def pytest_collection_modifyitems(items):
    """Real processes, sockets and browsers: minutes on a busy machine."""
    for item in items:
        if item.path.is_relative_to(Path(__file__).parent):
            item.add_marker(pytest.mark.long)
