"""The server, over real sockets: who may ask, what is served, and what happens to bad data."""

import io
import json
import re
import socket
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from http.client import HTTPException
from pathlib import Path
from types import SimpleNamespace

import pytest
from PIL import Image

from tests.viewer.asking import Client
from tests.viewer.datasets import SCRIPT, hostile, mixture, photo, photos, picture
from webdataset.errors import MissingDependency, StoreError
from webdataset.index import Description, ShardEntry, build_index, save_index, write_description
from webdataset.testing import make_shard
from webdataset.viewer import Catalog, ModelInput, ViewServer, preview, sample_html


@pytest.fixture
def shards(tmp_path):
    return photos(tmp_path, shards=2, each=10)


@pytest.fixture
def server(shards):
    with ViewServer(shards) as running:
        yield running


@pytest.fixture
def client(server):
    found = Client(server)
    found.ready()
    return found


# --- who may ask -------------------------------------------------------------------------------------------------


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


# --- what is served ----------------------------------------------------------------------------------------------


def test_cells_and_samples(client):
    found = client.get("/api/cells?start=5&count=10")
    assert found["total"] == 20 and [cell["number"] for cell in found["cells"]] == list(range(5, 15))
    cell = found["cells"][5]
    assert cell["key"] == "photo/00010" and cell["shard"].endswith("train-001.tar")
    assert {field["name"]: field.get("text") for field in cell["fields"]}["cls"] == "2"
    page = client.get("/api/sample/10")
    fields = {field["name"]: field for field in page["fields"]}
    assert page["inside"] == 0 and fields["json"]["value"]["label"] == "dog"
    shard = Path(page["shard"]).read_bytes()
    jpeg = fields["jpg"]
    assert shard[jpeg["offset"] : jpeg["offset"] + jpeg["size"]] == picture(10)


def test_jumps(client):
    assert client.get("/api/find?key=photo/00013") == {"number": 13}
    assert client.get("/api/find?shard=1") == {"number": 10}
    assert [row["first"] for row in client.get("/api/shards")["shards"]] == [0, 10]


RANGES = {
    None: (200, slice(None)),
    "bytes=0-0": (206, slice(0, 1)),
    "bytes=10-19": (206, slice(10, 20)),
    "bytes=100-": (206, slice(100, None)),
    "bytes=-7": (206, slice(-7, None)),
    "bytes=0-999999999": (206, slice(None)),
    "bytes=1-2,5-6": (200, slice(None)),
    "bites=1-2": (200, slice(None)),
}


def test_ranges_of_a_field(client):
    whole = picture(3)
    for header, (status, part) in RANGES.items():
        found, headers, body = client.raw("GET", "/api/field/3/jpg", {"Range": header})
        assert found == status and body == whole[part], header
        assert headers["content-type"] == "image/jpeg" and headers["accept-ranges"] == "bytes"
        if status == 206:
            first = range(len(whole))[part].start
            assert headers["content-range"] == f"bytes {first}-{first + len(body) - 1}/{len(whole)}"


def test_a_range_after_the_end(client):
    assert client.raw("GET", "/api/field/3/jpg", {"Range": "bytes=99999999-"})[0] == 416


def test_thumbnails_are_small(client):
    status, headers, body = client.raw("GET", "/api/picture/0/jpg?size=64")
    with Image.open(io.BytesIO(body)) as image:
        assert status == 200 and image.size == (64, 48) and headers["content-type"] == "image/jpeg"
    assert client.raw("GET", "/api/picture/0/jpg?size=0")[2] == picture(0)


def test_filters(client):
    def matches(expression):
        job = client.job("filter", expression)
        cells = client.get(f"/api/cells?job={job['job']}&count=200")["cells"]
        assert job["result"]["matches"] == len(cells)
        return [cell["number"] for cell in cells]

    assert matches("cls == 3") == [3, 7, 11, 15, 19]
    assert matches("json.label == 'cat'") == [0, 3, 6, 9, 12, 15, 18]
    assert matches("contains(txt, 'cat') and cls == 3") == [3, 15]
    assert matches("size(jpg) > 0 and key == 'photo/00004'") == [4]
    assert matches("not has(jpg)") == []
    failed = client.post("/api/jobs", {"name": "filter", "text": "key.__class__"}, status=400)
    assert "may not use" in failed["error"] and failed["remedy"]


def test_facets(client):
    found = client.job("facets")["result"]
    assert {field["name"]: field["count"] for field in found["fields"]} == {"cls": 20, "jpg": 20, "json": 20, "txt": 20}
    assert found["labels"]["cls"] == [["0", 5], ["1", 5], ["2", 5], ["3", 5]]
    assert found["labels"]["json.label"] == [["dog", 13], ["cat", 7]]
    assert found["shapes"] == [["320 x 240", 20]] and sum(row[2] for row in found["sizes"]) == 20


def test_sql_sees_the_table_and_nothing_else(client, tmp_path):
    pytest.importorskip("duckdb", reason="SQL needs webdataset[query]")
    rows = client.job("sql", "select key, cls from samples where cls = 3 order by key")["result"]["rows"]
    assert rows[0] == ["photo/00003", "3"] and len(rows) == 5
    for statement in (
        "select * from read_text('/etc/passwd')",
        f"copy samples to '{tmp_path}/stolen.csv'",
        "set enable_external_access=true",
        "install httpfs",
        f"attach '{tmp_path}/other.db'",
    ):
        assert client.job("sql", statement)["state"] == "failed", statement
    assert not (tmp_path / "stolen.csv").exists() and not (tmp_path / "other.db").exists()


def test_problems_and_duplicates(tmp_path):
    samples = [photo(number) for number in range(6)]
    stream = io.BytesIO()
    with Image.open(io.BytesIO(picture(2))) as image:
        image.resize((200, 150)).save(stream, "JPEG", quality=70)
    samples.append({"__key__": "copy", "jpg": stream.getvalue()})
    samples.append({"__key__": "broken", "jpg": b"\xff\xd8\xff no"})
    with ViewServer(make_shard(tmp_path / "a.tar", samples)) as server:
        client = Client(server)
        found = client.job("check")["result"]
        assert [(each["kind"], each["key"]) for each in found["findings"] if each["severity"] == "error"] == [
            ("undecodable-field", "broken")
        ]
        alike = client.job("duplicates")["result"]
        assert [(pair["first"], pair["second"]) for pair in alike["pairs"]] == [(2, 6)] and alike["failed"] == 1


def test_two_versions(tmp_path):
    (tmp_path / "new").mkdir()
    old = make_shard(tmp_path / "a.tar", [{"__key__": "0", "txt": "a"}, {"__key__": "1", "txt": "b"}])
    new = make_shard(tmp_path / "new" / "a.tar", [{"__key__": "0", "txt": "A"}, {"__key__": "2", "txt": "c"}])
    with ViewServer(old, compare=new) as server:
        client = Client(server)
        rows = client.job("compare")["result"]["rows"]
        assert [(row["key"], row["change"]) for row in rows] == [
            ("0", "different"),
            ("1", "only in the first"),
            ("2", "only in the second"),
        ]
        assert client.get("/api/sample/0?version=1")["fields"][0]["text"] == "A"


def test_every_kind_of_field(tmp_path):
    pytest.importorskip("av", reason="films need webdataset[video]")
    with ViewServer(mixture(tmp_path)) as server:
        client = Client(server)
        client.ready()
        pages = {cell["key"]: client.get(f"/api/sample/{cell['number']}") for cell in client.get("/api/cells")["cells"]}
        first = {key: page["fields"][0] for key, page in pages.items()}
        number = {key: page["number"] for key, page in pages.items()}
        assert first["array"]["arrays"][0]["shape"] == [60, 80] and first["curve"]["arrays"][0]["plot"]
        assert first["bytes"]["hex"].startswith("000102") and first["badjson"]["problem"]["error"].startswith(
            "this is not JSON"
        )
        assert "not loaded" in first["pickle"]["note"] and first["pickle"]["hex"] and "value" not in first["pickle"]
        assert client.raw("GET", f"/api/picture/{number['array']}/npy")[1]["content-type"] == "image/png"
        for key, field in (("bomb", "png"), ("broken", "jpg")):
            for size in (0, 128):
                assert client.get(f"/api/picture/{number[key]}/{field}?size={size}", status=422)["remedy"]
        pytest.importorskip("soundfile", reason="waveforms need webdataset[audio]")
        sound = pages["sound"]["fields"][1]
        assert sound["seconds"] == 2.0 and len(sound["peaks"]) == 240
        assert client.raw("GET", f"/api/picture/{number['film']}/webm")[1]["content-type"] == "image/jpeg"
    assert not Path("/tmp/wds-view-was-here").exists()


def test_nothing_hostile_has_a_type_that_runs(tmp_path):
    with ViewServer(hostile(tmp_path)) as server:
        client = Client(server)
        client.ready()
        assert SCRIPT in client.get("/api/sample/0")["fields"][-1].get("text", SCRIPT)
        for field in client.get("/api/sample/0")["fields"]:
            path = "/".join(["/api/field/0", *map(__import__("urllib.parse").parse.quote, field["field"].split("/"))])
            status, headers, _ = client.raw("GET", path)
            assert status == 200
            assert headers["content-type"] in {"application/octet-stream", "image/jpeg", "image/png"}
            assert headers["x-content-type-options"] == "nosniff" and "sandbox" in headers["content-security-policy"]
            if headers["content-type"] == "application/octet-stream":
                assert headers["content-disposition"].startswith("attachment")
                assert "<" not in headers["content-disposition"]


# --- bad data ----------------------------------------------------------------------------------------------------


def test_a_shard_that_vanishes(client, shards):
    Path(shards[1]).unlink()
    cells = client.get("/api/cells?start=8&count=4")["cells"]
    assert ["problem" in cell for cell in cells] == [False, False, True, True]
    assert "not found" in cells[2]["problem"]["error"] and cells[2]["problem"]["remedy"]
    assert client.get("/api/field/12/jpg", status=404)["remedy"]
    assert client.get("/api/picture/12/jpg", status=404)["remedy"]
    assert client.raw("GET", "/api/picture/2/jpg")[0] == 200


def test_a_shard_that_is_replaced_while_it_is_shown(client, shards):
    assert client.raw("GET", "/api/field/12/jpg")[0] == 200
    make_shard(shards[1], [{"__key__": f"other-{number}", "jpg": picture(90 + number)} for number in range(10)])
    save = client.raw("GET", "/api/field/12/jpg")
    assert save[0] in {422, 502} or save[2] == picture(12)  # never bytes of another sample


def test_broken_and_missing_shards_do_not_stop_the_others(tmp_path):
    good = photos(tmp_path, shards=1, each=5)
    (tmp_path / "cut.tar").write_bytes(Path(good[0]).read_bytes()[:3000])
    (tmp_path / "page.tar").write_bytes(b"<html>not found</html>" * 100)
    inputs = [str(tmp_path / name) for name in ("cut.tar", "missing.tar", "page.tar")] + good
    with ViewServer(inputs) as server:
        found = Client(server).ready()
    assert found["samples"] == 5 and found["problem_count"] == 3
    assert all(problem["remedy"] for problem in found["problems"])


def test_an_unreachable_server_does_not_hold_the_viewer(tmp_path, shards):
    """Its requests are repeated for a while; the other shards are shown meanwhile, and the end does not wait."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound and not listening: connections are refused
        gone = f"http://127.0.0.1:{taken.getsockname()[1]}/a.tar"
        with ViewServer([*shards, gone]) as server:
            client = Client(server)
            while client.get("/api/dataset")["samples"] < 20:
                pass
            assert client.raw("GET", "/api/picture/3/jpg")[0] == 200


@pytest.mark.parametrize("name", ["filter", "facets", "duplicates"])
def test_a_job_that_waits_for_an_unreachable_shard_can_be_cancelled(shards, name):
    with unreachable() as gone, ViewServer([*shards, gone]) as server:
        client = Client(server)
        job = client.post("/api/jobs", {"name": name, "text": "cls > 1"})["job"]
        client.post(f"/api/jobs/{job}/cancel", {})
        while (found := client.get(f"/api/jobs/{job}"))["state"] == "running":
            pass
        assert found["state"] == "cancelled"
        client.post("/api/jobs", {"name": name, "text": "cls > 2"})  # the end of the server does not wait for this one


def test_an_index_that_does_not_come_holds_no_other_sample(tmp_path, shards, monkeypatch):
    """A description knows the counts, so the page asks for samples of a shard whose store does not answer."""
    begun, load = threading.Semaphore(0), Catalog._index

    def counted(catalog, shard):
        begun.release()
        return load(catalog, shard)

    monkeypatch.setattr(Catalog, "_index", counted)
    with unreachable() as gone:
        entries = [ShardEntry(gone, 5), *(ShardEntry(shard, 10) for shard in shards)]
        (tmp_path / "all.json").write_bytes(write_description(Description(entries)))
        with ViewServer(str(tmp_path / "all.json")) as server:
            client = Client(server)
            with ThreadPoolExecutor(4) as pool:
                waiting = [pool.submit(client.raw, "GET", f"/api/sample/{number}") for number in range(4)]
                for _ in waiting:
                    begun.acquire()
                assert client.get("/api/sample/7")["key"] == "photo/00002"
                assert client.raw("GET", "/api/picture/8/jpg?size=64")[0] == 200
                server.close()  # what waits for the store is given up
                for each in waiting:
                    with suppress(OSError, HTTPException):
                        assert each.result()[0] >= 400


@contextmanager
def unreachable():
    """A shard on a port that is taken and where no program listens: requests are refused, and repeated for a while."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{taken.getsockname()[1]}/a.tar"


def test_a_field_that_is_large_in_one_sample_is_not_read_for_a_filter(tmp_path, monkeypatch):
    from webdataset.viewer import _filter_samples

    monkeypatch.setattr(_filter_samples, "_MOST_PLAIN", 100)
    shard = make_shard(
        tmp_path / "a.tar", [{"__key__": f"{n}", "txt": "dog " * (1 + 100 * (n == 1))} for n in range(3)]
    )
    with ViewServer(shard) as server:
        client = Client(server)
        client.ready()
        found = client.job("filter", "'dog' in txt")["result"]
        assert found["matches"] == 2


def test_a_stale_index_is_an_error_in_its_cells(tmp_path):
    old = make_shard(tmp_path / "a.tar", [photo(number) for number in range(3)])
    index = build_index(old)
    make_shard(old, [{"__key__": "x", "txt": "y" * number} for number in (9, 9000, 4)][:1] + [photo(9)])
    save_index(index, old)
    with ViewServer(old) as server:
        client = Client(server)
        client.ready()
        cell = client.get("/api/cells?start=0&count=1")["cells"][0]
        assert "problem" in cell and cell["problem"]["remedy"]


def test_a_field_of_two_gigabytes(tmp_path):
    """A sparse file: the shard has its size, not its blocks. No endpoint reads it as a whole."""
    from webdataset import tar

    size = 2_200_000_000
    path = tmp_path / "large.tar"
    with path.open("wb") as file:
        file.write(tar.encode_header("a.png", size))
        file.seek(512 + size + (-size % 512))
        file.write(tar.encode_header("b.txt", 2) + b"ok" + tar.padding(2) + tar.END_OF_ARCHIVE)
    with ViewServer(str(path)) as server:
        client = Client(server)
        client.ready()
        assert "not fetched" in client.get("/api/picture/0/png", status=422)["error"]
        status, headers, body = client.raw("GET", "/api/field/0/png", {"Range": f"bytes={size - 4}-"})
        assert status == 206 and body == bytes(4) and headers["content-range"].endswith(f"/{size}")
        assert client.get("/api/sample/1")["fields"][0]["text"] == "ok"
        assert client.get("/api/sample/0")["fields"][0]["size"] == size


def test_shards_without_random_access(tmp_path):
    packed = make_shard(tmp_path / "a.tar.gz", [{"__key__": f"{number}", "txt": "x"} for number in range(300)])
    with ViewServer(packed) as server:
        client = Client(server)
        found = client.ready()
        assert found["samples"] == 200 and "decompress" in found["problems"][0]["remedy"]
        assert client.get("/api/sample/7")["fields"][0]["text"] == "x"
        assert client.raw("GET", "/api/field/7/txt")[2] == b"x"


def test_a_description_runs_no_command(tmp_path):
    bad = {"wids_version": 1, "shardlist": [{"url": f"pipe:touch {tmp_path}/ran", "nsamples": 1}]}
    (tmp_path / "all.json").write_text(json.dumps(bad))
    with pytest.raises(Exception, match="pipe|command|trust"):
        ViewServer(str(tmp_path / "all.json"))
    assert not (tmp_path / "ran").exists()


def test_ten_million_samples_of_a_description(tmp_path):
    shard = make_shard(tmp_path / "a.tar", ({"__key__": f"{number:04d}", "cls": number} for number in range(1000)))
    save_index(build_index(shard), shard)
    entries = [ShardEntry("a.tar", 1000)] * 10_000
    (tmp_path / "all.json").write_bytes(write_description(Description(entries)))
    with ViewServer(str(tmp_path / "all.json")) as server:
        client = Client(server)
        assert client.get("/api/dataset")["samples"] == 10_000_000
        cell = client.get("/api/cells?start=9999999&count=1")["cells"][0]
        assert cell["key"] == "0999" and cell["number"] == 9_999_999


# --- many at once ------------------------------------------------------------------------------------------------


def test_fifty_tabs_at_once(server, client):
    def tab(number):
        cells = client.get(f"/api/cells?start={number % 20}&count=1")["cells"]
        sizes = [len(client.raw("GET", f"/api/picture/{number % 20}/jpg?size=64")[2]) for _ in range(2)]
        return cells[0]["number"] == number % 20 and min(sizes) > 100

    with ThreadPoolExecutor(50) as pool:
        assert all(pool.map(tab, range(50)))


def test_jobs_are_started_once_and_cancelled(client):
    first = client.post("/api/jobs", {"name": "filter", "text": "cls > 1"})["job"]
    assert client.post("/api/jobs", {"name": "filter", "text": "cls > 1"})["job"] == first
    assert client.post(f"/api/jobs/{first}/cancel", {})["job"] == first


def test_a_port_that_is_taken(server, shards):
    with pytest.raises(StoreError, match="choose another"):
        ViewServer(shards, port=server.port)


# --- what the model sees, notebooks ------------------------------------------------------------------------------


def make():
    import random

    import numpy as np

    import webdataset as wds

    shard = make.shard
    dataset = wds.WebDataset(shard, shardshuffle=False).decode("rgb8").to_tuple("jpg", "cls")
    return dataset.map(lambda pair: (np.roll(pair[0], random.randrange(1, 200), axis=1), pair[1])).batched(4)


def test_what_the_model_sees(shards):
    make.shard = shards
    with ViewServer(shards, model=ModelInput(make)) as server:
        client = Client(server)
        found = client.get("/api/model/1?draws=2")
        one, two = found["draws"]
        assert one[0]["array"]["shape"] == [4, 240, 320, 3] and len(one[0]["pictures"]) == 4
        assert one[1] == two[1] and one[0]["pictures"] != two[0]["pictures"]
        assert client.get("/api/model/1?draws=2") == found
        assert "ends before" in client.get("/api/model/99", status=404)["error"]
    del make.shard


def test_a_preview_in_a_notebook(shards):
    with preview(shards) as shown:
        markup = shown._repr_html_()
        assert markup.startswith("<iframe") and "http://localhost:" in markup
        status, headers, _ = Client(shown._server).raw("GET", "/")
        assert status == 200 and "frame-ancestors 'self' http://localhost:*" in headers["content-security-policy"]


def test_a_dataset_and_a_loader_preview_themselves(shards):
    import webdataset as wds

    dataset = wds.WebDataset(shards, shardshuffle=False).decode("rgb8").map(lambda sample: sample["__key__"] + "<b>")
    assert "<b>" not in dataset._repr_html_() and "train-000.tar" in dataset._repr_html_()
    with dataset.preview() as shown:
        client = Client(shown._server)
        assert client.ready()["samples"] == 20
        assert client.get("/api/model/3")["draws"][0][0]["text"] == "'photo/00003<b>'"
    with wds.WebLoader(dataset, batch_size=None).preview() as shown:
        assert Client(shown._server).get("/api/dataset")["pipeline"]


def test_a_sample_as_html_is_escaped():
    markup = sample_html({SCRIPT: SCRIPT, "n": 3})
    assert "<script" not in markup and "<img src=x" not in markup


def test_a_missing_package_is_named(monkeypatch, shards):
    monkeypatch.setitem(__import__("sys").modules, "uvicorn", None)
    with pytest.raises(MissingDependency, match=r"webdataset\[view\]"):
        ViewServer(shards)


def test_the_catalog_counts_without_an_index_and_writes_nothing(shards, tmp_path):
    before = sorted(path.name for path in tmp_path.iterdir())
    with Catalog(shards) as catalog:
        catalog.wait()
        assert len(catalog) == 20
        learned = Path(catalog._learned.name)
    assert not learned.exists() and sorted(path.name for path in tmp_path.iterdir()) == before
