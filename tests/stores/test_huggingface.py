"""The Hugging Face hub, on a fake that the hub's own library accepts."""

import json
import subprocess
from pathlib import Path
from unittest.mock import create_autospec

import pytest

from fakes import FakeHub, answer, body_of
from webdataset import stores
from webdataset.errors import ShardNotFound, SpecError, StoreError, UnsafeContent
from webdataset.stores import HuggingFaceStore
from webdataset.testing import Fault, FaultServer, LoopbackServer, Schedule, StoreContract


@pytest.fixture
def hub(monkeypatch, tmp_path):
    with FakeHub() as fake:
        monkeypatch.setenv("HF_ENDPOINT", fake.endpoint)
        monkeypatch.setenv("WDS_RETRIES", "1")
        monkeypatch.setenv("HF_HOME", str(tmp_path / "home"))
        for name in ("HF_TOKEN", "HF_TOKEN_PATH", "HF_HUB_OFFLINE"):
            monkeypatch.delenv(name, raising=False)
        yield fake
        stores.close_connections()


class TestDatasets(StoreContract):
    writes = False  # tested below: an upload needs the hub's library

    @pytest.fixture(autouse=True)
    def place(self, hub):
        self.hub = hub

    def store(self):
        return HuggingFaceStore()

    def address(self, name):
        return f"hf://datasets/me/cats/{name}"

    def put(self, name, data):
        self.hub.files["datasets/me/cats", "main", name] = data
        return self.address(name)


class TestBuckets(TestDatasets):
    def address(self, name):
        return f"hf://buckets/me/pail/{name}"

    def put(self, name, data):
        self.hub.files["buckets/me/pail", "main", name] = data
        return self.address(name)


class TestRevisions(TestDatasets):
    def address(self, name):
        return f"hf://datasets/me/cats@refs/pr/7/{name}"

    def put(self, name, data):
        self.hub.files["datasets/me/cats", "refs/pr/7", name] = data
        return self.address(name)


@pytest.mark.leaks_allowed  # the hub's library keeps its connections
def test_the_fake_satisfies_the_hubs_library(hub, tmp_path):
    library = pytest.importorskip("huggingface_hub", reason="huggingface_hub is not installed")
    for n in range(5):
        hub.files["datasets/me/cats", "main", f"train/{n}.tar"] = b"hello%d" % n
    api = library.HfApi(endpoint=hub.endpoint, token=False)
    names = [item.path for item in api.list_repo_tree("me/cats", repo_type="dataset", recursive=True)]
    assert names == [f"train/{n}.tar" for n in range(5)]
    path = api.hf_hub_download("me/cats", "train/3.tar", repo_type="dataset", cache_dir=tmp_path / "hub")
    assert Path(path).read_bytes() == b"hello3"
    assert stores.list_urls("hf://datasets/me/cats/train/*.tar") == [f"hf://datasets/me/cats/{name}" for name in names]


@pytest.mark.leaks_allowed
def test_writing(hub, monkeypatch):
    pytest.importorskip("huggingface_hub", reason="huggingface_hub is not installed")
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    with stores.open_write("hf://datasets/me/cats/train/0.tar") as stream:
        stream.write(b"hello")
        assert not hub.files
    with stores.open_read("hf://datasets/me/cats/train/0.tar") as stream:
        assert stream.read() == b"hello"
    with pytest.raises(ZeroDivisionError), stores.open_write("hf://datasets/me/cats/train/1.tar") as stream:
        raise ZeroDivisionError
    assert len(hub.files) == 1


def test_writing_to_a_bucket_calls_the_hubs_library_as_it_wants_to_be_called(hub, monkeypatch):
    """Its own protocol for large files has no fake here, so the last step is a double with the library's signature."""
    library = pytest.importorskip("huggingface_hub", reason="huggingface_hub is not installed")
    taken = create_autospec(library.HfApi.batch_bucket_files)
    monkeypatch.setattr(library.HfApi, "batch_bucket_files", taken)
    with stores.open_write("hf://buckets/me/pail/train/0.tar") as stream:
        stream.write(b"hello")
    assert taken.call_args.args[1:] == ("me/pail",)
    assert taken.call_args.kwargs == {"add": [(b"hello", "train/0.tar")]}
    taken.side_effect = OSError("no")
    with pytest.raises(StoreError, match="the hub rejected the file"):
        stores.open_write("hf://buckets/me/pail/train/0.tar").close()


def test_D19_the_token_goes_to_the_hub_and_nowhere_else(hub, monkeypatch, caplog):
    hub.files["datasets/me/cats", "main", "a.tar"] = b"hello"
    with stores.open_read("hf://datasets/me/cats/a.tar") as stream:
        stream.read()
    assert hub.tokens == [None]  # no token, no header: never "Bearer None"
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    monkeypatch.setattr(subprocess, "Popen", None)  # no process, so no command line to show it
    with caplog.at_level("DEBUG"):
        with stores.open_read("hf://datasets/me/cats/a.tar") as stream:
            assert stream.read() == b"hello"
        with pytest.raises(ShardNotFound) as caught:
            stores.open_read("hf://datasets/me/cats/none.tar")
    assert hub.tokens[-1] == "Bearer hf_secret"
    assert hub.leaked == []
    assert "hf_secret" not in caplog.text + str(caught.value)


def test_the_token_may_lie_in_a_file(hub, monkeypatch, tmp_path):
    hub.files["models/me/net", "main", "a.tar"] = b"hello"
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "token").write_text("hf_filed\n")
    with stores.open_read("hf://me/net/a.tar") as stream:
        assert stream.read() == b"hello"
    assert hub.tokens == ["Bearer hf_filed"]


def test_bad_input(hub, monkeypatch):
    for bad in ("hf://", "hf://nothing", "hf://datasets/@y"):
        with pytest.raises(SpecError, match="malformed hf:"):
            stores.open_read(bad)
    with pytest.raises(SpecError, match="no file"):
        stores.open_read("hf://datasets/me/cats")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(StoreError, match="HF_HUB_OFFLINE"):
        stores.open_read("hf://datasets/me/cats/a.tar")


@pytest.mark.parametrize("page", [b"<html>", b"\xff", b'"text"', b"7", b"null", b"OTHER"])
@pytest.mark.parametrize(
    ("pattern", "path", "other"),
    [
        ("hf://datasets/me/cats/*.tar", "api/datasets/me/cats/tree/main", b'{"error": "no"}'),
        ("ais://b/*.tar", "v1/buckets/b", b"[]"),
    ],
)
def test_a_list_of_objects_that_is_none_is_an_error_of_ours(monkeypatch, pattern, path, other, page):
    monkeypatch.setenv("WDS_RETRIES", "0")
    with FaultServer() as server:
        server.add(path, page.replace(b"OTHER", other))
        for name in ("HF_ENDPOINT", "AIS_ENDPOINT"):
            monkeypatch.setenv(name, server.url("").rstrip("/"))
        with pytest.raises(StoreError, match="list of objects"):
            stores.list_urls(pattern)
        stores.close_connections()


@pytest.mark.parametrize("fault", ["reset", "cut", "short-length", "long-length", "no-length"])
@pytest.mark.parametrize(
    ("pattern", "path", "page"),
    [
        ("hf://datasets/me/cats/*.tar", "api/datasets/me/cats/tree/main", b'[{"type": "file", "path": "0.tar"}]'),
        ("ais://b/*.tar", "v1/buckets/b", b'{"entries": [{"name": "0.tar"}]}'),
    ],
)
def test_a_list_of_objects_that_breaks_off_is_asked_for_again(monkeypatch, pattern, path, page, fault):
    with FaultServer() as server:
        server.add(path, page, Schedule((Fault(9, fault),)))
        for name in ("HF_ENDPOINT", "AIS_ENDPOINT"):
            monkeypatch.setenv(name, server.url("").rstrip("/"))
        assert stores.list_urls(pattern) == [pattern.replace("*", "0")]
        assert server.requests(path) == 2
        stores.close_connections()


@pytest.mark.parametrize(
    "target", ["http://localhost:{port}/next", "//localhost:{port}/next", "file:///etc/passwd", "pipe:true"]
)
def test_the_token_does_not_follow_the_address_of_the_next_page_elsewhere(hub, monkeypatch, target):
    seen = []

    def respond(handler):
        seen.append(handler.headers.get("Authorization"))
        answer(handler, 200, b'[{"type": "file", "path": "b.tar"}]')

    def first(handler):
        assert handler.headers["Authorization"] == "Bearer hf_secret"
        answer(
            handler, 200, b'[{"type": "file", "path": "a.tar"}]', Link=f'<{target.format(port=other.port)}>; rel="next"'
        )

    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    with LoopbackServer(respond) as other, LoopbackServer(first) as server:
        monkeypatch.setenv("HF_ENDPOINT", server.url("").rstrip("/"))
        if "localhost" in target:
            assert len(stores.list_urls("hf://datasets/me/cats/*.tar")) == 2 and seen == [None]
        else:
            with pytest.raises(UnsafeContent, match="an HTTP redirect"):
                stores.list_urls("hf://datasets/me/cats/*.tar")
        stores.close_connections()


@pytest.mark.parametrize("pattern", ["hf://datasets/me/cats/*.tar", "ais://b/*.tar"])
@pytest.mark.parametrize("name", ["0.tar", "readme.txt"])
def test_a_list_of_objects_without_an_end_is_an_error(monkeypatch, pattern, name):
    asked = []

    def respond(handler):
        asked.append(body_of(handler))
        page = {"entries": [{"name": name}], "continuation_token": "x"}
        listed = [{"type": "file", "path": name}] if pattern.startswith("hf") else page
        answer(handler, 200, json.dumps(listed).encode(), Link='</again>; rel="next"')

    monkeypatch.setattr("webdataset.stores._request._PAGES", 20)
    with LoopbackServer(respond) as server:
        for variable in ("HF_ENDPOINT", "AIS_ENDPOINT"):
            monkeypatch.setenv(variable, server.url("").rstrip("/"))
        with pytest.raises(StoreError, match="more than 20 pages"):
            stores.list_urls(pattern)
        stores.close_connections()
    assert len(asked) == 20
