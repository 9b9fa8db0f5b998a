"""The web: secrets, redirects, proxies, PUT, index pages, and what status codes mean."""

import inspect
import itertools
import json
import os
import threading
from contextlib import suppress

import pytest
import urllib3.exceptions

from fakes import answer, body_of, send_object
from webdataset import stores
from webdataset.errors import AccessDenied, ShardNotFound, SpecError, StoreError, StoreTimeout, WebDatasetError
from webdataset.shards import expand
from webdataset.stores import HttpStore, Patience
from webdataset.stores._request import meaning
from webdataset.testing import FaultServer, LoopbackServer

QUICK = Patience(tries=2, first=0.001)


class Site:
    """One handler for all requests, which it remembers."""

    def __init__(self, respond):
        self.seen = []
        self.respond = respond

    def __call__(self, handler):
        self.seen.append((handler.command, handler.path, dict(handler.headers)))
        self.respond(handler)


@pytest.fixture
def serve():
    running = []

    def start(respond):
        site = Site(respond)
        server = LoopbackServer(site).__enter__()
        running.append(server)
        site.url = server.url
        return site

    yield start
    stores.close_connections()
    for server in running:
        server.__exit__()


def hello(handler):
    send_object(handler, b"hello")


def test_connections_are_kept(serve):
    connections = set()
    site = serve(lambda handler: (connections.add(handler.client_address), send_object(handler, b"hello")))
    for _ in range(5):
        with stores.open_read(site.url("a")) as stream:
            assert stream.read() == b"hello"
        assert stores.stat(site.url("a")).size == 5
    assert len(connections) == 1


def test_connections_are_kept_when_the_body_is_read_past_urllib3(serve):
    """All but its last bytes come straight from the connection; the pool still gets it back, and every byte is there."""
    data, connections = os.urandom(3_000_001), set()
    site = serve(lambda handler: (connections.add(handler.client_address), send_object(handler, data)))
    for size in (1, 1000, 16_384, 99_999, 5_000_000):
        with stores.open_read(site.url("a")) as stream:
            first = stream.read(size)
            assert first == data[:size]
            assert first + stream.read() == data
    assert stores.read_range(site.url("a"), 12_345, 1_234_567) == data[12_345 : 12_345 + 1_234_567]
    assert len(connections) == 1


def test_a_forked_child_opens_its_own(serve):
    site = serve(hello)
    with stores.open_read(site.url("a")) as stream:
        stream.read()
    child = os.fork()
    if child == 0:
        with stores.open_read(site.url("a")) as stream:
            os._exit(stream.read() != b"hello")
    assert os.waitpid(child, 0)[1] == 0
    with stores.open_read(site.url("a")) as stream:
        assert stream.read() == b"hello"


def test_secrets_from_the_address_the_netrc_file_and_the_environment(serve, monkeypatch, tmp_path):
    site = serve(hello)
    stores.open_read(site.url("a").replace("//", "//me:se%20cret@")).close()
    assert site.seen[-1][2]["Authorization"] == "Basic bWU6c2UgY3JldA=="
    (tmp_path / "netrc").write_text("machine 127.0.0.1 login you password word\n")
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    stores.open_read(site.url("a")).close()
    assert site.seen[-1][2]["Authorization"] == "Basic eW91OndvcmQ="
    monkeypatch.setenv("WDS_HTTP_HEADERS", json.dumps({site.url("a/"): {"Authorization": "Bearer t", "X-Other": "o"}}))
    stores.open_read(site.url("a/b")).close()
    assert site.seen[-1][2]["Authorization"] == "Bearer t"
    stores.open_read(site.url("b")).close()
    assert site.seen[-1][2]["Authorization"] == "Basic eW91OndvcmQ="
    (tmp_path / "bad").write_text("machine\n")
    monkeypatch.setenv("NETRC", str(tmp_path / "bad"))
    with pytest.raises(SpecError, match="netrc"):
        stores.open_read(site.url("c"))
    monkeypatch.setenv("WDS_HTTP_HEADERS", "nonsense")
    with pytest.raises(SpecError, match="WDS_HTTP_HEADERS"):
        stores.open_read(site.url("c"))


def test_secrets_do_not_follow_a_redirect_to_another_host(serve, monkeypatch):
    elsewhere = serve(hello)
    target = elsewhere.url("x").replace("127.0.0.1", "localhost")
    site = serve(lambda handler: answer(handler, 302, Location=target))
    headers = {site.url(""): {"Authorization": "Bearer t", "X-Secret": "s"}}
    monkeypatch.setenv("WDS_HTTP_HEADERS", json.dumps(headers))
    with stores.open_read(site.url("a")) as stream:
        assert stream.read() == b"hello"
    assert site.seen[-1][2]["X-Secret"] == "s"
    assert not {"Authorization", "X-Secret"} & set(elsewhere.seen[-1][2])


def test_no_secret_in_messages_and_logs(serve, caplog):
    site = serve(lambda handler: answer(handler, 503))
    url = site.url("a?sig=signature&x=1").replace("//", "//me:password@")
    with caplog.at_level("DEBUG", "webdataset"), pytest.raises(StoreError) as caught:
        HttpStore(QUICK).open_read(url)
    everything = caplog.text + str(caught.value) + repr(caught.value)
    assert "password" not in everything
    assert "signature" not in everything


def test_a_proxy_from_the_environment(serve, monkeypatch):
    proxy = serve(hello)
    for name in ("http_proxy", "HTTP_PROXY", "no_proxy", "NO_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("http_proxy", proxy.url("").replace("//", "//user:word@"))
    with stores.open_read("http://data.example/a.tar") as stream:
        assert stream.read() == b"hello"
    assert proxy.seen[-1][1] == "http://data.example/a.tar"
    assert {k.lower(): v for k, v in proxy.seen[-1][2].items()}["proxy-authorization"].startswith("Basic ")
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    direct = serve(hello)
    with stores.open_read(direct.url("b")) as stream:
        stream.read()
    assert direct.seen


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (404, ShardNotFound),
        (410, ShardNotFound),
        (401, AccessDenied),
        (403, AccessDenied),
        (400, StoreError),
        (451, StoreError),
    ],
)
def test_what_status_codes_mean(serve, status, kind):
    site = serve(lambda handler: answer(handler, status, b"<html>because of <b>this</b></html>"))
    with pytest.raises(kind, match="because of this") as caught:
        stores.open_read(site.url("a.tar"))
    assert caught.value.where.shard == site.url("a.tar")
    assert caught.value.hint
    assert len(site.seen) == 1  # no retry can help


@pytest.mark.parametrize("status", [408, 429, 500, 502, 503, 504])
def test_what_passes_is_tried_again(serve, status):
    site = serve(lambda handler: answer(handler, status) if len(site.seen) < 3 else send_object(handler, b"hello"))
    store = HttpStore(QUICK)
    with store.open_read(site.url("a")) as stream:
        assert stream.read() == b"hello"
    assert len(site.seen) == 3


def test_every_exception_of_the_transport_has_a_meaning():
    """If urllib3 grows an exception, somebody decides here what it means."""
    known = {
        name for name, item in vars(urllib3.exceptions).items() if inspect.isclass(item) and issubclass(item, Exception)
    }
    final = {"LocationValueError", "LocationParseError", "URLSchemeUnknown", "ProxySchemeUnknown"}
    for name in known - {"HTTPWarning", "SecurityWarning", "InsecureRequestWarning", "NotOpenSSLWarning"}:
        kind = getattr(urllib3.exceptions, name)
        error = kind.__new__(kind)
        if name == "ProxyError":
            error.original_error = OSError("refused")
        try:
            found = meaning(error)
        except AttributeError:  # made without its constructor, it cannot print itself
            continue
        assert isinstance(found, WebDatasetError)
        assert isinstance(found, SpecError) == (name in final), name


def test_stat_where_head_is_not_allowed(serve):
    site = serve(lambda handler: answer(handler, 405) if handler.command == "HEAD" else send_object(handler, b"hello"))
    assert stores.stat(site.url("a")).size == 5


def test_put(serve):
    stored = {}

    def respond(handler):
        if handler.command == "PUT":
            data = body_of(handler)
            if len(site.seen) == 1:
                answer(handler, 503)
            elif handler.path == "/first":
                answer(handler, 307, Location="/second")
            else:
                stored[handler.path] = data
                answer(handler, 201)

    site = serve(respond)
    with HttpStore(QUICK).open_write(site.url("first")) as stream:
        stream.write(b"hel")
        stream.write(b"lo")
        assert not site.seen
    assert stored == {"/second": b"hello"}


def test_put_where_it_is_not_allowed(serve):
    site = serve(lambda handler: (body_of(handler), answer(handler, 405)))
    with pytest.raises(StoreError, match="405"), stores.open_write(site.url("a")) as stream:
        stream.write(b"x")


def test_index_pages_and_queries(serve):
    page = b'<a href="../">up</a><a href="b.tar">b</a><a href="a.tar">a</a><a href="a.txt">t</a><a href="sub/">s</a>'
    site = serve(lambda handler: answer(handler, 200, page))
    assert stores.list_urls(site.url("dir/*.tar")) == [site.url("dir/a.tar"), site.url("dir/b.tar")]
    assert stores.list_urls(site.url("a.tar?part=1")) == [site.url("a.tar?part=1")]
    assert expand(site.url("dir/*.tar")) == [site.url("dir/a.tar"), site.url("dir/b.tar")]
    assert expand(site.url("dir/{a,b}*.tar")) == [site.url("dir/a.tar"), site.url("dir/b.tar")]


def test_not_a_web_address():
    with pytest.raises(SpecError, match="web address"):
        stores.open_read("http://")
    with pytest.raises(StoreError):
        HttpStore(Patience(tries=0)).open_read("http://no.such.host.invalid/a")


def test_a_server_that_sends_another_part_than_was_asked_for(serve):
    site = serve(lambda handler: answer(handler, 206, b"hello", Content_Range="bytes 7-11/99"))
    with pytest.raises(StoreError, match="expected byte 0"):
        stores.open_read(site.url("a"))
    site = serve(lambda handler: answer(handler, 206, b"hello"))
    with pytest.raises(StoreError, match="invalid Content-Range"):
        stores.open_read(site.url("a"))


def test_D05_a_retry_never_appends_a_second_copy():
    from webdataset.testing import Fault, Schedule

    with FaultServer() as server:
        url = server.add("a", b"0123456789" * 1000, Schedule((Fault(5000, "cut"),), ranges=False))
        with HttpStore(QUICK).open_read(url) as stream:
            assert stream.read() == b"0123456789" * 1000
        stores.close_connections()


def test_counters_are_safe_in_threads():
    counters = stores.Counters()
    threads = [threading.Thread(target=lambda: [counters.add("n") for _ in range(10_000)]) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert counters.snapshot() == {"n": 40_000}


DRIPS = {
    "a line that does not end": (b"HTTP/1.1 200 OK\r\n", b"x"),
    "headers without end": (b"HTTP/1.1 200 OK\r\n", b"A: b\r\n"),
    "100 Continue for ever": (b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
}


@pytest.mark.parametrize("kind", DRIPS)
@pytest.mark.parametrize("act", [stores.open_read, stores.stat, lambda url: stores.read_range(url, 0, 1)])
def test_headers_that_drip_are_a_timeout(kind, act, monkeypatch):
    """The clock of the client goes on by a second whenever it looks: the server need not be slow."""
    seconds = itertools.count()
    monkeypatch.setattr("webdataset.stores._timely_headers.time.monotonic", lambda: float(next(seconds)))
    monkeypatch.setenv("WDS_TIMEOUT", "20")
    monkeypatch.setenv("WDS_RETRIES", "0")
    first, then = DRIPS[kind]

    def drip(handler):
        handler.connection.sendall(first)
        with suppress(OSError):  # until the client has left
            while True:
                handler.connection.sendall(then)

    with LoopbackServer(drip) as server, pytest.raises(StoreTimeout) as caught:
        act(server.url("a"))
    stores.close_connections()
    assert "WDS_TIMEOUT" in str(caught.value)


def test_slow_headers_that_are_in_time_are_read_as_they_are():
    def respond(handler):
        for byte in b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nX-Long: " + b"y" * 20_000 + b"\r\n\r\nhello":
            handler.wfile.write(bytes([byte]))

    with LoopbackServer(respond) as server, stores.open_read(server.url("a")) as stream:
        assert stream.read() == b"hello"
    stores.close_connections()
