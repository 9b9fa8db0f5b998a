"""A job sees that an input or an output was replaced, wherever it is stored, also by one of the same size."""

import io
import os
from pathlib import Path

import pytest

import webdataset as wds
from tests.stores import servers
from tests.tools.datasets import write_numbers
from webdataset import stores
from webdataset.errors import SpecError
from webdataset.testing import FaultServer
from webdataset.tools import MISSING, map_shards, version_of
from webdataset.tools._stored_versions import versions_of


def shard(text):
    stream = io.BytesIO()
    with wds.TarWriter(stream) as sink:
        sink.write({"__key__": "a", "txt": text})
    return stream.getvalue()


class LocalPlace:
    def __init__(self, folder):
        self.folder = folder

    def put(self, name, data):
        """Replace a file, and keep its time in seconds: only nanoseconds tell."""
        path = self.folder / name
        path.write_bytes(data)
        os.utime(path, ns=(0, 10**18 + data[512]))
        return str(path)


class HttpPlace:
    def __init__(self, server):
        self.server = server

    def put(self, name, data):
        return self.server.add(name, data)


class S3Place:
    def put(self, name, data):
        url = f"s3://shards/{name}"
        with stores.open_write(url) as stream:
            stream.write(data)
        return url


@pytest.fixture(scope="module")
def s3():
    pytest.importorskip("obstore", reason="obstore is not installed")
    import boto3

    with servers.moto() as port, pytest.MonkeyPatch.context() as patch:
        endpoint = f"http://127.0.0.1:{port}"
        for name, value in (("ENDPOINT_URL", endpoint), ("ACCESS_KEY_ID", "k"), ("SECRET_ACCESS_KEY", "s")):
            patch.setenv(f"AWS_{name}", value)
        patch.setenv("AWS_REGION", "us-east-1")
        client = boto3.client("s3", endpoint_url=endpoint, region_name="us-east-1")
        client.create_bucket(Bucket="shards")
        yield S3Place()
        client.close()


@pytest.fixture(params=["local", "http", "s3"])
def place(request, tmp_path):
    if request.param == "local":
        yield LocalPlace(tmp_path)
    elif request.param == "http":
        with FaultServer() as server:
            yield HttpPlace(server)
    else:
        yield request.getfixturevalue("s3")


@pytest.mark.leaks_allowed  # obstore's runtime and connections live as long as the process
def test_an_input_of_the_same_size_is_done_again(place, tmp_path):
    first, second = shard("one"), shard("two")
    assert len(first) == len(second)
    inputs = [place.put("a.tar", first), place.put("b.tar", first)]
    out, before = f"{tmp_path}/out/", versions_of(inputs)
    assert map_shards(iter, inputs, out).done == 2
    assert map_shards(iter, inputs, out).skipped == 2
    place.put("b.tar", second)
    assert version_of(inputs[0]) == before[inputs[0]]
    assert version_of(inputs[1]) != before[inputs[1]]
    report = map_shards(iter, inputs, out)
    assert (report.done, report.skipped) == (1, 1)
    assert [sample["txt"] for sample in wds.WebDataset(f"{out}b.tar", shardshuffle=False)] == [b"two"]


@pytest.mark.leaks_allowed
def test_outputs_of_an_object_store_are_looked_for(s3, tmp_path):
    """One that is lost is made again; those of another job are refused."""
    inputs, out = write_numbers(tmp_path, shards=2), "s3://shards/out/"
    ledger = tmp_path / "job.jsonl"
    assert map_shards(iter, inputs, out, ledger=ledger).done == 2
    assert map_shards(iter, inputs, out, ledger=ledger).skipped == 2
    with stores.open_write(f"{out}train-1.tar") as stream:
        stream.write(b"short")
    report = map_shards(iter, inputs, out, ledger=ledger)
    assert (report.done, report.skipped) == (1, 1)
    with pytest.raises(SpecError, match="exists already"):
        map_shards(iter, inputs, out, ledger=tmp_path / "other.jsonl")


def test_an_input_that_was_removed_stays_finished(tmp_path):
    inputs, out = write_numbers(tmp_path, shards=2), f"{tmp_path}/out/"
    map_shards(iter, inputs, out)
    Path(inputs[0]).unlink()
    assert map_shards(iter, inputs, out).skipped == 2


def test_many_are_asked_as_one(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    urls = [
        *write_numbers(tmp_path),
        "train-0.tar",
        f"file:{tmp_path}/train-1.tar",
        "./none.tar",
        "memory://versions/a",
    ]
    found = versions_of(urls)
    assert found == {url: version_of(url) for url in urls}
    assert [url for url in urls if found[url].size == MISSING] == urls[-2:]
    assert found["train-0.tar"] == found[urls[0]]
