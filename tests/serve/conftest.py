"""Shards with indexes, and free ports."""

import random
import socket
from contextlib import suppress

import pytest

zmq = pytest.importorskip("zmq", reason="pyzmq is not installed")
pytest.importorskip("msgpack", reason="msgpack is not installed")

from tests.pipeline.indexed import uneven_counts, write_shards  # noqa: E402


@pytest.fixture(scope="session", autouse=True)
def thread_of_pyzmq():
    """It lives as long as the process, from the first large frame on: start it before tests look what they left."""
    with zmq.Context() as context, context.socket(zmq.PAIR) as one, context.socket(zmq.PAIR) as other:
        port = one.bind_to_random_port("tcp://127.0.0.1")
        other.connect(f"tcp://127.0.0.1:{port}")
        one.send(bytes(1 << 20), copy=False)
        other.recv()


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
