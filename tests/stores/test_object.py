"""The clouds' stores beyond the contract: forks, uploads, secrets, and what goes wrong."""

import os
import signal
import subprocess
import sys

import pytest

import azure_account
import servers
from odd_names import ODD, REFUSED
from webdataset import stores
from webdataset.errors import AccessDenied, MissingDependency, ShardNotFound, SpecError, StoreError
from webdataset.stores import CloudStore, Patience
from webdataset.stores._broker import BrokeredStore

pytest.importorskip("obstore", reason="obstore is not installed")
pytestmark = pytest.mark.leaks_allowed  # obstore's runtime and connections live as long as the process

MB = 1 << 20


@pytest.fixture(scope="module")
def endpoint():
    import boto3

    with servers.moto() as port:
        endpoint = f"http://127.0.0.1:{port}"
        client = boto3.client(
            "s3", endpoint_url=endpoint, aws_access_key_id="k", aws_secret_access_key="s", region_name="us-east-1"
        )
        client.create_bucket(Bucket="shards")
        yield endpoint, client
        client.close()


@pytest.fixture(autouse=True)
def s3(endpoint, monkeypatch):
    monkeypatch.setenv("AWS_ENDPOINT_URL", endpoint[0])
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "k")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "s")
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    monkeypatch.setenv("WDS_RETRIES", "1")
    return endpoint[1]


def test_a_large_upload_goes_in_parts_and_appears_at_its_end(s3):
    stream = stores.open_write("s3://shards/large.tar")
    for _ in range(40):
        stream.write(b"x" * MB)
    assert s3.list_multipart_uploads(Bucket="shards")["Uploads"]
    assert stores.list_urls("s3://shards/large*") == []
    stream.close()
    assert stores.stat("s3://shards/large.tar").size == 40 * MB
    assert stores.stat("s3://shards/large.tar").etag.endswith('-3"')
    aborted = stores.open_write("s3://shards/aborted.tar")
    aborted.write(bytes(40 * MB))
    aborted.abort()
    assert not s3.list_multipart_uploads(Bucket="shards").get("Uploads")


KILLED = """
from webdataset import stores
stream = stores.open_write("s3://shards/killed.tar")
for _ in range(40):
    stream.write(bytes(1 << 20))
print("written", flush=True)
import time; time.sleep(60)
"""


def test_a_killed_upload_is_never_seen():
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen([sys.executable, "-c", KILLED], stdout=subprocess.PIPE, env=env) as writer:
        assert writer.stdout.readline() == b"written\n"
        writer.send_signal(signal.SIGKILL)
    with pytest.raises(ShardNotFound):
        stores.open_read("s3://shards/killed.tar")


def test_a_forked_child_can_do_everything_its_parent_can():
    """obstore alone would hang there for ever."""
    with stores.open_write("s3://shards/fork.tar") as stream:
        stream.write(b"hello" * MB)
    child = os.fork()
    if child == 0:
        signal.alarm(60)
        try:
            with stores.open_read("s3://shards/fork.tar", start=3) as stream:
                assert stream.read() == (b"hello" * MB)[3:]
                assert stream.size == 5 * MB
            with stores.open_read("s3://shards/fork.tar") as stream:
                stream.read(10)  # closed early
            assert stores.read_range("s3://shards/fork.tar", 5, 5) == b"hello"
            assert stores.stat("s3://shards/fork.tar").size == 5 * MB
            assert stores.list_urls("s3://shards/fork*") == ["s3://shards/fork.tar"]
            with stores.open_write("s3://shards/by-child.tar") as stream:
                stream.write(b"from the child")
            try:
                stores.open_read("s3://shards/none.tar")
            except ShardNotFound:
                stores.close_connections()
                os._exit(0)
        except BaseException as error:
            print(repr(error), file=sys.stderr)
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    with stores.open_read("s3://shards/by-child.tar") as stream:
        assert stream.read() == b"from the child"


def test_odd_keys_are_listed_and_opened_as_the_same_object_each_once(s3):
    """Written by another client; by its list, by ours, and by writing again."""
    for key in ODD:
        s3.put_object(Bucket="shards", Key=f"odd/{key}", Body=key.encode())
    listed = list(CloudStore().list("s3://shards/odd/"))
    assert sorted(listed) == sorted(f"s3://shards/odd/{key}" for key in ODD)
    for url in listed:
        key = url.removeprefix("s3://shards/odd/").encode()
        with stores.open_read(url) as stream:
            assert stream.read() == key
        assert stores.read_range(url, 0, len(key)) == key
        assert stores.stat(url).size == len(key)
        with stores.open_write(url) as stream:
            stream.write(b"again")
    assert sorted(CloudStore().list("s3://shards/odd/")) == sorted(listed)
    for key in ODD:
        assert s3.get_object(Bucket="shards", Key=f"odd/{key}")["Body"].read() == b"again"


def test_odd_keys_of_google_are_listed_and_opened_as_the_same_object(s3, monkeypatch):
    for key in ODD:
        s3.put_object(Bucket="shards", Key=f"google/{key}", Body=key.encode())
    for name in [name for name in os.environ if name.startswith("GOOGLE_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("GOOGLE_BASE_URL", os.environ["AWS_ENDPOINT_URL"])
    monkeypatch.setenv("GOOGLE_BEARER_TOKEN", "token")
    listed = list(CloudStore().list("gs://shards/google/"))
    assert sorted(listed) == sorted(f"gs://shards/google/{key}" for key in ODD)
    for url in listed:
        with stores.open_read(url) as stream:
            assert stream.read() == url.removeprefix("gs://shards/google/").encode()


def test_odd_keys_of_azure_are_listed_and_opened_as_the_same_object(tmp_path, monkeypatch):
    with servers.azurite(tmp_path) as port:
        azure_account.use(port, monkeypatch)
        keys = [key for key in ODD if "\\" not in key]  # Azure itself makes a slash of a backslash
        for key in keys:
            azure_account.put(port, f"odd/{key}", key.encode())
        listed = list(CloudStore().list("az://shards/odd/"))
        assert sorted(listed) == sorted(f"az://shards/odd/{key}" for key in keys)
        for url in listed:
            key = url.removeprefix("az://shards/odd/").encode()
            with stores.open_read(url) as stream:
                assert stream.read() == key
            assert stores.read_range(url, 0, len(key)) == key
            assert stores.stat(url).size == len(key)
            with stores.open_write(url) as stream:
                stream.write(b"again")
        assert sorted(CloudStore().list("az://shards/odd/")) == sorted(listed)
        for key in keys:
            assert azure_account.get(port, f"odd/{key}") == b"again"


@pytest.mark.parametrize("key", REFUSED)
def test_keys_that_would_open_another_object_are_refused(s3, key):
    s3.put_object(Bucket="shards", Key="a", Body=b"another object")
    for act in (stores.open_read, stores.open_write, stores.stat):
        with pytest.raises(SpecError, match="cannot be opened"):
            act(f"s3://shards/{key}")


def test_a_directory_marker_is_listed_once_beside_an_object_of_the_same_name(s3):
    for key in ("marked/d", "marked/d/", "marked/d/x"):
        s3.put_object(Bucket="shards", Key=key, Body=b"")
    assert sorted(CloudStore().list("s3://shards/marked/")) == ["s3://shards/marked/d", "s3://shards/marked/d/x"]


def test_an_object_that_is_replaced_is_an_error_for_streams_and_ranges(s3):
    s3.put_object(Bucket="shards", Key="replaced.tar", Body=bytes(20 * MB))
    url = "s3://shards/replaced.tar"
    version = stores.stat(url).etag
    assert stores.read_range(url, 10, 10, version=version) == bytes(10)
    with stores.open_read(url) as stream:
        stream.read(MB)
        s3.put_object(Bucket="shards", Key="replaced.tar", Body=b"x" * 20 * MB)
        with pytest.raises(StoreError, match="changed while it was read"):
            stores.read_range(url, 10, 10, version=version)
        assert set(stream.read()) == {0}  # one answer is one version
    for store in (stores, CloudStore(), BrokeredStore()):
        with pytest.raises(StoreError, match="its size was 7 and is now"):
            store.read_range(url, 10, 10, size=7)
    body = stores._object_store._body(url, MB, None)
    body.close()
    with pytest.raises(StoreError, match="changed while it was read"):
        stores._object_store._body(url, MB, version)


def test_bad_input(monkeypatch):
    with pytest.raises(ShardNotFound, match="not found"):
        stores.open_read("s3://shards/none.tar")
    with pytest.raises(ShardNotFound):
        stores.open_read("s3://no-such-bucket/none.tar")
    with pytest.raises(ShardNotFound):
        stores.list_urls("s3://no-such-bucket/*.tar")
    with pytest.raises(SpecError, match="no bucket"):
        stores.open_read("s3:///a.tar")
    with pytest.raises(SpecError, match="write s3://bucket/name"):
        stores.open_read("s3:/shards/a.tar")
    monkeypatch.setitem(sys.modules, "obstore.store", None)
    from webdataset.stores import _object_store

    _object_store._store.cache_clear()
    with pytest.raises(MissingDependency, match=r"webdataset\[cloud\]"):
        stores.open_read("s3://other/a.tar")


def test_an_endpoint_that_is_not_there(monkeypatch):
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{servers.free_port()}")
    with pytest.raises(StoreError) as caught:
        CloudStore(Patience(tries=1, first=0.01)).open_read("s3://shards/a.tar")
    assert caught.value.where.shard == "s3://shards/a.tar"


@pytest.mark.parametrize("status", [401, 403])
def test_bad_credentials_and_buckets_that_may_not_be_listed(monkeypatch, status):
    from fakes import answer

    from webdataset.testing import LoopbackServer

    body = b'<?xml version="1.0"?><Error><Code>AccessDenied</Code></Error>'
    with LoopbackServer(lambda handler: answer(handler, status, body)) as server:
        monkeypatch.setenv("AWS_ENDPOINT_URL", server.url("").rstrip("/"))
        for act in (stores.open_read, stores.stat, stores.list_urls):
            with pytest.raises(AccessDenied, match="credentials") as caught:
                act("s3://shards/a*.tar" if act is stores.list_urls else "s3://shards/a.tar")
        assert "AWS_SKIP_SIGNATURE" in caught.value.hint


@pytest.mark.parametrize("anonymous", ["true", None])
def test_a_public_bucket_of_google_is_read_without_credentials(s3, monkeypatch, anonymous):
    s3.put_object(Bucket="shards", Key="public.tar", Body=b"hello", ACL="public-read")
    s3.put_object(Bucket="shards", Key="private.tar", Body=b"hello")
    for name in [name for name in os.environ if name.startswith("GOOGLE_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("GOOGLE_BASE_URL", os.environ["AWS_ENDPOINT_URL"])
    if anonymous:
        monkeypatch.setenv("GOOGLE_SKIP_SIGNATURE", anonymous)
        with stores.open_read("gs://shards/public.tar") as stream:
            assert stream.read() == b"hello"
        with pytest.raises(AccessDenied) as caught:
            stores.open_read("gs://shards/private.tar")
        assert "GOOGLE_SKIP_SIGNATURE" in caught.value.hint
    else:
        monkeypatch.setenv("GOOGLE_BEARER_TOKEN", "token")
        with stores.open_read("gs://shards/private.tar") as stream:
            assert stream.read() == b"hello"
