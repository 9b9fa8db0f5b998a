"""Bad, missing and very large data: what is wrong is shown, the rest is served."""

import json
import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from http.client import HTTPException
from pathlib import Path

import pytest

from tests.viewer.asking import Client
from tests.viewer.datasets import photo, photos, picture
from webdataset.index import Description, ShardEntry, build_index, save_index, write_description
from webdataset.testing import make_shard
from webdataset.viewer import Catalog, ViewServer


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


def test_json_of_very_many_levels_ends_no_job(tmp_path):
    samples = [{"__key__": str(number), "json": b"[" * 50_000 if number else b"{}"} for number in range(3)]
    with ViewServer([make_shard(str(tmp_path / "a.tar"), samples)]) as server:
        client = Client(server)
        client.ready()
        assert client.job("facets")["result"]["fields"][0]["count"] == 3
        assert client.job("filter", "json.a == None")["state"] == "done"
