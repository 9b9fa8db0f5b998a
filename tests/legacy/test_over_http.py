"""A dataset over a connection that breaks: whole samples, once each, or an error."""

import io
import tarfile

import pytest

import webdataset as wds
from webdataset.stores import close_connections
from webdataset.testing import Fault, FaultServer, Schedule


def shard(count=40, size=3000):
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for number in range(count):
            info = tarfile.TarInfo(f"{number:03d}.bin")
            info.size = size
            tar.addfile(info, io.BytesIO(bytes([number]) * size))
    return buffer.getvalue()


@pytest.fixture
def server():
    with FaultServer() as server:
        yield server
    close_connections()


@pytest.mark.parametrize("ranges", [True, False], ids=["ranges", "no ranges"])
@pytest.mark.parametrize("kind", ["cut", "reset"])
def test_D05_a_connection_that_breaks_repeats_no_byte(server, kind, ranges):
    data = shard()
    url = server.add("a.tar", data, Schedule((Fault(50_001, kind), Fault(90_000, kind)), ranges=ranges))
    samples = list(wds.WebDataset(url, shardshuffle=False))
    assert [sample["__key__"] for sample in samples] == [f"{number:03d}" for number in range(40)]
    assert all(sample["bin"] == bytes([number]) * 3000 for number, sample in enumerate(samples))
    assert server.requests("a.tar") == 3


def test_D05_a_shard_that_changes_under_way_is_an_error(server):
    url = server.add("a.tar", shard(), Schedule((Fault(50_000, "changed"),)))
    with pytest.raises(wds.StoreError, match=r"a\.tar"):
        list(wds.WebDataset(url, shardshuffle=False))
