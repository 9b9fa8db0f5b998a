"""Every store passes the same contract, on real servers where there are any."""

import itertools
import os
import urllib.request


import pytest

from webdataset import stores
from webdataset.stores import CloudStore, FsspecStore, HttpStore, LocalStore, MemoryStore, PipeStore
from webdataset.testing import FaultServer, Schedule, StoreContract

import azure_account  # noqa: I001
import servers

numbers = itertools.count()


class TestLocal(StoreContract):
    @pytest.fixture(autouse=True)
    def place(self, tmp_path):
        self.folder = tmp_path
        (tmp_path / "list" / "deep").mkdir(parents=True)

    def store(self):
        return LocalStore()

    def address(self, name):
        return f"{self.folder}/{name}"


class TestFileUrls(TestLocal):
    lists = False  # lists of file: patterns are lists of paths

    def address(self, name):
        return f"file://{self.folder}/{name}"


class TestMemory(StoreContract):
    memory = MemoryStore()

    def store(self):
        return self.memory

    def address(self, name):
        return f"memory://contract/{name}"


class TestPipe(StoreContract):
    writes = lists = knows_sizes = False
    test_what_is_not_there_is_not_found = None  # a command has its own ways to say so

    @pytest.fixture(autouse=True)
    def place(self, tmp_path):
        self.folder = tmp_path

    def store(self):
        return PipeStore()

    def address(self, name):
        return f"pipe:cat {self.folder}/{name}"

    def put(self, name, data):
        (self.folder / name).write_bytes(data)
        return self.address(name)


class TestHttp(StoreContract):
    writes = lists = False
    schedule = Schedule()

    @pytest.fixture(autouse=True)
    def place(self):
        with FaultServer() as self.server:
            yield
            stores.close_connections()

    def store(self):
        return HttpStore()

    def address(self, name):
        return self.server.url(name)

    def put(self, name, data):
        return self.server.add(name, data, self.schedule)


class TestHttpWithoutRanges(TestHttp):
    schedule = Schedule(ranges=False)


class TestHttpWithoutVersions(TestHttp):
    schedule = Schedule(etags=False)


class TestHttpInChunks(TestHttp):
    schedule = Schedule(chunked=True)


@pytest.fixture(scope="module")
def webdav(tmp_path_factory):
    with servers.rclone_serving("webdav", tmp_path_factory.mktemp("webdav")) as port:
        yield f"http://127.0.0.1:{port}"


class TestWebdav(StoreContract):
    """rclone's server, which takes PUT and lists directories as pages."""

    @pytest.fixture(autouse=True)
    def place(self, webdav):
        self.base = f"{webdav}/{next(numbers)}"
        for folder in ("", "/list", "/list/deep"):
            urllib.request.urlopen(urllib.request.Request(f"{self.base}{folder}", method="MKCOL")).close()

    def store(self):
        return HttpStore()

    def address(self, name):
        return f"{self.base}/{name}"


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pages")
    with servers.rclone_serving("http", folder, "--dir-cache-time", "0s") as port:
        yield folder, f"http://127.0.0.1:{port}"


class TestRcloneHttp(StoreContract):
    writes = False

    @pytest.fixture(autouse=True)
    def place(self, pages):
        self.number = str(next(numbers))
        self.folder, self.base = pages[0] / self.number, f"{pages[1]}/{self.number}"
        (self.folder / "list" / "deep").mkdir(parents=True)

    def store(self):
        return HttpStore()

    def address(self, name):
        return f"{self.base}/{name}"

    def put(self, name, data):
        (self.folder / name).write_bytes(data)
        return self.address(name)


@pytest.fixture(scope="module")
def nginx(tmp_path_factory):
    with servers.nginx(tmp_path_factory.mktemp("nginx")) as place:
        yield place


class TestNginx(TestRcloneHttp):
    @pytest.fixture(autouse=True)
    def place(self, nginx):
        self.number = str(next(numbers))
        self.folder, self.base = nginx[0] / self.number, f"{nginx[1]}/{self.number}"
        (self.folder / "list" / "deep").mkdir(parents=True)


@pytest.fixture(scope="module")
def s3():
    import boto3

    with servers.moto() as port:
        endpoint = f"http://127.0.0.1:{port}"
        client = boto3.client(
            "s3", endpoint_url=endpoint, aws_access_key_id="k", aws_secret_access_key="s", region_name="us-east-1"
        )
        client.create_bucket(Bucket="shards")
        client.close()
        yield endpoint


@pytest.fixture
def s3_environment(s3, monkeypatch):
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_ENDPOINT_URL", s3)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "k")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "s")
    monkeypatch.setenv("AWS_REGION", "us-east-1")


pytest.importorskip("obstore", reason="obstore is not installed")


@pytest.mark.leaks_allowed  # obstore's runtime and connections live as long as the process
class TestS3(StoreContract):
    @pytest.fixture(autouse=True)
    def place(self, s3_environment):
        self.number = next(numbers)

    def store(self):
        return CloudStore()

    def address(self, name):
        return f"s3://shards/{self.number}/{name}"


@pytest.fixture(scope="module")
def rclone_s3(tmp_path_factory):
    folder = tmp_path_factory.mktemp("rclone-s3")
    (folder / "shards").mkdir()
    with servers.rclone_serving("s3", folder, "--auth-key", "key,secretsecret") as port:
        yield f"http://127.0.0.1:{port}"


@pytest.mark.leaks_allowed
class TestS3ThatIgnoresRanges(StoreContract):
    """rclone's S3 answers range requests with the whole object."""

    @pytest.fixture(autouse=True)
    def place(self, rclone_s3, monkeypatch):
        self.number = next(numbers)
        monkeypatch.setenv("AWS_ENDPOINT_URL", rclone_s3)
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", "key")
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secretsecret")
        monkeypatch.setenv("AWS_REGION", "us-east-1")

    def store(self):
        return CloudStore()

    def address(self, name):
        return f"s3://shards/run-{self.number}/{name}"


@pytest.mark.leaks_allowed
class TestGoogle(StoreContract):
    """Google's XML interface is near enough to S3's for moto to answer it."""

    @pytest.fixture(autouse=True)
    def place(self, s3, monkeypatch):
        self.number = next(numbers)
        monkeypatch.setenv("GOOGLE_BASE_URL", s3)
        monkeypatch.setenv("GOOGLE_BEARER_TOKEN", "token")

    def store(self):
        return CloudStore()

    def address(self, name):
        return f"gs://shards/gs-{self.number}/{name}"


@pytest.fixture(scope="module")
def azure(tmp_path_factory):
    with servers.azurite(tmp_path_factory.mktemp("azurite")) as port:
        yield port


@pytest.mark.leaks_allowed
class TestAzure(StoreContract):
    @pytest.fixture(autouse=True)
    def place(self, azure, monkeypatch):
        pytest.importorskip("obstore", reason="obstore is not installed")
        self.number = next(numbers)
        azure_account.use(azure, monkeypatch)

    def store(self):
        return CloudStore()

    def address(self, name):
        return f"az://shards/{self.number}/{name}"


@pytest.fixture(scope="module")
def sftp(tmp_path_factory):
    pytest.importorskip("paramiko", reason="paramiko is not installed")
    folder = tmp_path_factory.mktemp("sftp")
    with servers.rclone_serving("sftp", folder, "--user", "u", "--pass", "p", "--dir-cache-time", "0s") as port:
        yield folder, port


@pytest.mark.leaks_allowed  # fsspec keeps its connections for the process
class TestSftp(StoreContract):
    @pytest.fixture(autouse=True)
    def place(self, sftp):
        self.number = next(numbers)
        (sftp[0] / str(self.number) / "list" / "deep").mkdir(parents=True)
        self.base = f"sftp://u:p@127.0.0.1:{sftp[1]}/{self.number}"

    def store(self):
        return FsspecStore()

    def address(self, name):
        return f"{self.base}/{name}"


@pytest.fixture(scope="module")
def ftp(tmp_path_factory):
    folder = tmp_path_factory.mktemp("ftp")
    with servers.ftp(folder) as port:
        yield folder, port


@pytest.mark.leaks_allowed
class TestFtp(TestSftp):
    @pytest.fixture(autouse=True)
    def place(self, ftp):
        self.number = next(numbers)
        (ftp[0] / str(self.number) / "list" / "deep").mkdir(parents=True)
        self.base = f"ftp://u:p@127.0.0.1:{ftp[1]}/{self.number}"
