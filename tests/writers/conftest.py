"""Looking into written archives with somebody else's eyes."""

import io
import tarfile

import pytest


def _members(data):
    stream = io.BytesIO(data) if isinstance(data, bytes) else open(data, "rb")
    with stream, tarfile.open(fileobj=stream, mode="r:*", errorlevel=2) as tar:
        return [(info.name, tar.extractfile(info).read()) for info in tar]


def _is_complete(path):
    data = path.read_bytes()
    with tarfile.open(fileobj=io.BytesIO(data), mode="r:", errorlevel=2) as tar:
        infos = tar.getmembers()
        if any(len(tar.extractfile(info).read()) != info.size for info in infos):
            return False
    end = infos[-1].offset_data + (infos[-1].size + 511) // 512 * 512
    return data[end:] == bytes(1024)


@pytest.fixture(scope="session")
def members():
    """(name, payload) of every member of an archive (bytes or path), as `tarfile` sees them."""
    return _members


@pytest.fixture(scope="session")
def is_complete():
    """Whether every member of an archive is whole and the end-of-archive mark is there."""
    return _is_complete
