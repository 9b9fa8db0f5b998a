"""Shards in files, made with the standard library."""

import io
import tarfile

import pytest


def make_tar(members, format=tarfile.USTAR_FORMAT, mtime=0):
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w", format=format) as tar:
        for name, payload in members:
            info = tarfile.TarInfo(name)
            info.size, info.mtime = len(payload), mtime
            tar.addfile(info, io.BytesIO(payload))
    return archive.getvalue()


@pytest.fixture(scope="session")
def tar():
    return make_tar


@pytest.fixture
def shard(tmp_path):
    """Write bytes, or members, to a file and return its path as a string."""

    def write(content, name="a.tar"):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else make_tar(content))
        return str(path)

    return write
