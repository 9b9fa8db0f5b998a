"""Who may ask the server, over real sockets."""

import re
import socket
import subprocess
import sys
from types import SimpleNamespace

import pytest

from tests.viewer.asking import Client


def test_it_listens_on_loopback_only(server):
    assert server._socket.getsockname()[0] == "127.0.0.1"
    others = {info[4][0] for info in socket.getaddrinfo(socket.gethostname(), None, socket.AF_INET)} - {"127.0.0.1"}
    for address in others:
        with pytest.raises(OSError), socket.create_connection((address, server.port), timeout=2):
            pass


@pytest.mark.parametrize("how", [[], ["--json"]])
def test_the_printed_address_opens_the_page(shards, how):
    command = [sys.executable, "-m", "webdataset", "view", "--no-browser", "--idle", "1", *how, *shards]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as program:
        address = re.search(r"http://[^\s\"]+", program.stdout.readline())[0]
        Client(SimpleNamespace(port=int(address.split(":")[2].partition("/")[0])), address)  # it checks the answer
    assert program.returncode == 0


PATHS = ["/", "/index.html", "/app.js", "/api/dataset", "/api/cells", "/api/field/0/jpg", "/api/sample/0", "/nothing"]


def test_without_the_cookie_there_is_nothing(server, client):
    kept, client.cookie = client.cookie, None
    for path in PATHS:
        status, headers, body = client.raw("GET", path)
        assert status == 401 and b"photo" not in body
        assert "default-src 'none'" in headers["content-security-policy"]
    for wrong in (
        "",
        "wds_view=x",
        f"wds_view_{server.port}=",
        f"wds_view_{server.port}={'x' * 43}",
        "\x7f;;=",
        kept[:-1],
    ):
        assert client.raw("GET", "/api/dataset", {"Cookie": wrong})[0] == 401


def test_a_token_works_once(server):
    address = server.new_address()
    Client(server, address)
    stranger = Client(server)
    stranger.cookie = None
    path = address.partition(f":{server.port}")[2]
    assert stranger.raw("GET", path)[0] == 403
    assert stranger.raw("GET", "/?token=" + "x" * 43)[0] == 403
    assert stranger.raw("GET", "/?token=")[0] == 401
    assert stranger.raw("GET", path.replace("/?", "/api/dataset?"))[0] == 401


def test_the_cookie_is_closed_to_scripts_and_other_sites(server):
    client = Client.__new__(Client)
    client.port, client.cookie = server.port, None
    status, headers, _ = client.raw("GET", server.new_address().partition(f":{server.port}")[2])
    assert status == 303 and headers["location"] == "/"
    assert "HttpOnly" in headers["set-cookie"] and "SameSite=Strict" in headers["set-cookie"]


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:{port}", "127.0.0.1", "127.0.0.1:1", "", None, "localhost.evil:{port}"]
)
def test_a_foreign_host_is_refused(client, host):
    """A name that resolves to 127.0.0.1 makes a browser send the request here, with an origin that matches its host."""
    host = None if host is None else host.format(port=client.port)
    status, _, body = client.raw("GET", "/api/dataset", {"Host": host})
    assert status in {400, 403} and b"photo" not in body


@pytest.mark.parametrize(
    "origin", ["http://evil.example", "null", "https://127.0.0.1:{port}", "http://127.0.0.1:1", "http://127.0.0.1"]
)
def test_a_foreign_origin_is_refused(client, origin):
    headers = {"Origin": origin.format(port=client.port)}
    assert client.raw("GET", "/api/dataset", headers)[0] == 403
    assert (
        client.raw("POST", "/api/jobs", headers | {"Content-Type": "application/json"}, b'{"name":"facets"}')[0] == 403
    )
    assert client.raw("GET", "/api/dataset", {"Origin": f"http://127.0.0.1:{client.port}"})[0] == 200


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
def test_a_request_for_another_site_is_refused(client, site):
    for use in ("image", "iframe", "document", "empty"):
        headers = {"Sec-Fetch-Site": site, "Sec-Fetch-Dest": use}
        assert client.raw("GET", "/api/field/0/jpg", headers)[0] == 403


def test_it_only_reads(client):
    for method in ("PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "CONNECT"):
        assert client.raw(method, "/api/dataset")[0] in {400, 403, 405}, method


def test_a_job_needs_json(client):
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data", ""):
        assert client.raw("POST", "/api/jobs", {"Content-Type": kind}, b'{"name":"facets"}')[0] == 400
    assert client.raw("POST", "/api/jobs", {"Content-Type": "application/json"}, b"[" * 100)[0] == 400
    assert client.raw("POST", "/api/jobs", {"Content-Type": "application/json"}, b"x" * 30_000)[0] == 400
    client.post("/api/jobs", {"name": "remove"}, status=400)


TRICKS = [
    "/../../../../etc/passwd",
    "/%2e%2e/%2e%2e/etc/passwd",
    "/..%2f..%2fetc%2fpasswd",
    "//etc/passwd",
    "/page/../_catalog.py",
    "/_view_server.py",
    "/api/field/0/../../../etc/passwd",
    "/api/field/0/%2fetc%2fpasswd",
    "/api/field/0/..%2f..%2ftrain-001.tar",
    "/api/field/0/jpg%00.txt",
    "/api/field/-1/jpg",
    "/api/field/99999999999999999999/jpg",
    "/api/field/1e3/jpg",
    "/api/cells?start=-1",
    "/api/cells?start=0&count=1000000",
    "/api/cells?start=x",
    "/api/cells?job=77",
    "/api/cells?version=1",
    "/api/picture/0/jpg?size=1000000",
    "/api/picture/0/txt",
    "/api/find?key=nothing",
    "/api/find?shard=99",
    "/api/model/0",
    "/api/jobs/77",
]


def test_paths_lead_nowhere_else(client):
    for path in TRICKS:
        status, _, body = client.raw("GET", path)
        assert 400 <= status < 500 and b"root:" not in body and b"Traceback" not in body, path
