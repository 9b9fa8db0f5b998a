"""Shards with indexes, and free ports."""

import socket

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
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return f"tcp://127.0.0.1:{found.getsockname()[1]}"


@pytest.fixture
def addresses():
    return [free_address() for _ in range(4)]
