"""What people read when a place cannot be reached."""

import socket

import pytest

import webdataset as wds
from webdataset import stores
from webdataset.errors import ShardNotFound, StoreError, StoreTimeout


def test_a_refused_connection_is_not_called_slow(monkeypatch):
    monkeypatch.setenv("WDS_RETRIES", "0")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound and not listening: nobody answers
        port = taken.getsockname()[1]
        with pytest.raises(StoreError, match="no connection") as caught:
            stores.open_read(f"http://127.0.0.1:{port}/a.tar").read()
    assert not isinstance(caught.value, StoreTimeout) and "whether the server runs" in str(caught.value)


def test_writing_into_a_missing_directory_names_the_directory(tmp_path):
    with pytest.raises(ShardNotFound, match=r"directory to write into does not exist – .*missing – create it"):
        wds.TarWriter(str(tmp_path / "missing" / "a.tar")).write({"__key__": "a", "txt": "x"})
