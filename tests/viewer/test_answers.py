"""What the server answers, over real sockets."""

import io
from pathlib import Path

import pytest
from PIL import Image

from tests.viewer.asking import Client
from tests.viewer.datasets import SCRIPT, hostile, mixture, photo, picture
from webdataset.testing import make_shard
from webdataset.viewer import ViewServer


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
