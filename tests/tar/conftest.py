"""Archives of every flavour, made with the standard library."""

import io
import tarfile

import pytest


def make_tar(members, format=tarfile.USTAR_FORMAT, **fields):
    """An archive out of (name, payload) pairs or ready TarInfos."""
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w", format=format) as tar:
        for member in members:
            if isinstance(member, tarfile.TarInfo):
                tar.addfile(member)
                continue
            name, payload = member
            info = tarfile.TarInfo(name)
            info.size = len(payload)
            for field, value in fields.items():
                setattr(info, field, value)
            tar.addfile(info, io.BytesIO(payload))
    return archive.getvalue()


def checksummed(block):
    """The header block with its checksum made right."""
    block = bytearray(block)
    block[148:156] = b" " * 8
    block[148:156] = b"%06o\0 " % sum(block)
    return bytes(block)


class Trickle:
    """A stream that gives at most `step` bytes at a time, and fails at the end, once, if told to."""

    def __init__(self, data, step=None, failure=None):
        self._stream, self._step, self._failure = io.BytesIO(data), step, failure

    def read(self, size):
        piece = self._stream.read(size if self._step is None else min(size, self._step))
        if not piece and size and self._failure is not None:
            failure, self._failure = self._failure, None
            raise failure
        return piece


@pytest.fixture(scope="session")
def tar():
    return make_tar


@pytest.fixture(scope="session")
def checksum():
    return checksummed


@pytest.fixture(scope="session")
def trickle():
    return Trickle


@pytest.fixture(params=["scan", "walk"])
def fast(request, monkeypatch):
    """Which of the two fast paths is taken; a window of one block takes neither."""
    monkeypatch.setattr("webdataset.tar._read_members._WORTH_WALKING", {"scan": 1 << 60, "walk": -1}[request.param])
