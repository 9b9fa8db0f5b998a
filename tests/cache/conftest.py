"""Where shards come from, and where they are kept."""

import errno

import pytest

from webdataset import stores
from webdataset.testing import FaultServer


@pytest.fixture
def server():
    with FaultServer() as server:
        yield server
        stores.close_connections()


@pytest.fixture(params=["locks", "leases"])
def folder(request, tmp_path, monkeypatch):
    """A cache directory on a file system with locks, and on one without."""
    if request.param == "leases":

        def no_locks(*_):
            raise OSError(errno.ENOLCK, "no locks available")

        monkeypatch.setattr("filelock._unix.fcntl.flock", no_locks)
    return tmp_path / "cache"
