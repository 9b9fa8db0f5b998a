"""AIStore, on a fake cluster that the vendor's SDK accepts."""

import pytest

from fakes import FakeAis
from webdataset import stores
from webdataset.errors import AccessDenied, SpecError, StoreError
from webdataset.stores import AisStore, Patience
from webdataset.testing import StoreContract


@pytest.fixture
def cluster(monkeypatch):
    with FakeAis(page=2) as fake:
        monkeypatch.setenv("AIS_ENDPOINT", fake.endpoint)
        monkeypatch.setenv("WDS_RETRIES", "1")
        yield fake
        stores.close_connections()


class TestAis(StoreContract):
    @pytest.fixture(autouse=True)
    def place(self, cluster):
        pass

    def store(self):
        return AisStore()

    def address(self, name):
        return f"ais://bucket/{name}"


@pytest.mark.leaks_allowed  # the SDK keeps its connections
def test_the_fake_satisfies_the_vendors_sdk(cluster):
    sdk = pytest.importorskip("aistore.sdk", reason="aistore is not installed")
    client = sdk.Client(cluster.endpoint)
    bucket = client.bucket("bucket")
    for n in range(3):
        bucket.object(f"a/{n}.tar").get_writer().put_content(b"hello%d" % n)
    assert [entry.name for entry in bucket.list_all_objects(prefix="a/")] == ["a/0.tar", "a/1.tar", "a/2.tar"]
    assert bucket.object("a/1.tar").get_reader().read_all() == b"hello1"
    assert bucket.object("a/1.tar").get_reader(byte_range="bytes=1-2").read_all() == b"el"
    with pytest.raises(Exception, match="does not exist"):
        bucket.object("none").get_reader().read_all()
    # What the SDK wrote, we read; what we write, the SDK reads.
    assert stores.list_urls("ais://bucket/a/*.tar") == [f"ais://bucket/a/{n}.tar" for n in range(3)]
    with stores.open_read("ais://bucket/a/2.tar") as stream:
        assert stream.read() == b"hello2"


def test_transformation_on_the_way(cluster):
    cluster.objects["bucket", "a.txt"] = b"hello"
    with stores.open_read("ais://bucket/a.txt?etl_name=upper") as stream:
        assert stream.read() == b"HELLO"
    with pytest.raises(SpecError, match="unknown options"):
        stores.open_read("ais://bucket/a.txt?etl=upper")


def test_other_clouds_through_ais(cluster, monkeypatch):
    monkeypatch.setenv("USE_AIS_FOR", "s3:gs")
    cluster.objects["bucket", "a.txt"] = b"hello"
    with stores.open_read("s3://bucket/a.txt") as stream:
        assert stream.read() == b"hello"
    assert cluster.seen[-1][1] == "/v1/objects/bucket/a.txt?provider=aws"


def test_tokens(monkeypatch):
    with FakeAis(token="secret") as cluster:
        monkeypatch.setenv("AIS_ENDPOINT", cluster.endpoint)
        cluster.objects["bucket", "a.txt"] = b"hello"
        with pytest.raises(AccessDenied) as caught:
            stores.open_read("ais://bucket/a.txt")
        monkeypatch.setenv("AIS_AUTHN_TOKEN", "secret")
        with stores.open_read("ais://bucket/a.txt") as stream:
            assert stream.read() == b"hello"
        stores.close_connections()
    assert "secret" not in str(caught.value)


def test_bad_input(monkeypatch):
    monkeypatch.delenv("AIS_ENDPOINT", raising=False)
    with pytest.raises(StoreError, match="AIS_ENDPOINT is not set"):
        AisStore(Patience(tries=0)).open_read("ais://b/a")
    with pytest.raises(SpecError, match="no bucket"):
        AisStore().open_read("ais:///a")
    with pytest.raises(SpecError, match="no object"):
        AisStore().open_read("ais://b")
