"""The page, its answers and what the verb prints have no secret of an address, apart from the token that opens the page."""

import html
import json
import subprocess
import sys
import urllib.request

import pytest

import webdataset as wds
from tests.stores.fakes import answer, send_object
from tests.viewer.asking import Client
from webdataset import stores
from webdataset.testing import LoopbackServer, make_shard
from webdataset.viewer import ModelInput, ViewServer, preview, sample_html

SECRET = "Zq7S3cr3tW0rd"  # noqa: S105
POSITIONS = {"password": "http://me:{s}@{h}/{name}", "token": "http://{h}/{name}?token={s}"}


@pytest.fixture
def host(tmp_path, monkeypatch):
    monkeypatch.setenv("WDS_RETRIES", "0")
    data = (tmp_path / "whole.tar", tmp_path / "cut.tar")
    make_shard(str(data[0]), [{"__key__": str(n), "txt": "x", "cls": n, "jpg": b"not a picture"} for n in range(5)])
    data[1].write_bytes(data[0].read_bytes()[:3000])
    bodies = {f"/{path.name}": path.read_bytes() for path in data}

    def respond(handler):
        body = bodies.get(handler.path.partition("?")[0])
        return answer(handler, 404, b"no " + handler.path.encode()) if body is None else send_object(handler, body)

    with LoopbackServer(respond) as server:
        yield server.url("").removeprefix("http://").rstrip("/")
    stores.close_connections()


def cannot_use(sample):
    raise ValueError(f"cannot use {sample['__url__']}")


PIPELINES = {
    "samples": lambda urls: wds.WebDataset(urls, index=False, shardshuffle=False),
    "tuples": lambda urls: wds.WebDataset(urls, index=False, shardshuffle=False).to_tuple("__url__", "txt"),
    "batches": lambda urls: wds.WebDataset(urls, index=False, shardshuffle=False).batched(2),
    "resampled": lambda urls: wds.WebDataset(urls, resampled=True),
    "an error": lambda urls: wds.WebDataset(urls, index=False, shardshuffle=False).map(cannot_use),
    "an error of its own": lambda urls: cannot_use({"__url__": urls[0]}),
}
JOBS = [("filter", "cls > 2"), ("filter", "__url__ == 3"), ("filter", "nothing.at.all"), ("sql", "select * from samples"),
        ("sql", "select nothing"), ("facets", ""), ("check", ""), ("duplicates", ""), ("compare", "")]  # fmt: skip
FIELDS = ["txt", "jpg", "cls", "none"]


PATHS = [
    "dataset", "shards", "cells", "cells?version=1", "find?key=1", "find?key=none", "find?shard=2", "jobs/99", "nothing",
    *[f"sample/{number}" for number in (0, 6, 99)],
    *[f"{what}/{n}/{field}" for what in ("field", "picture", "waveform") for n in (0, 6) for field in FIELDS],
]  # fmt: skip


@pytest.mark.parametrize("position", POSITIONS)
def test_no_answer_has_a_secret(host, position, caplog):
    urls = [POSITIONS[position].format(s=SECRET, h=host, name=f"{name}.tar") for name in ("whole", "cut", "missing")]
    made = iter([pipeline for pipeline in PIPELINES.values() for _ in range(2)])
    with ViewServer(urls, compare=urls[:2], model=ModelInput(lambda: next(made)(urls[:1]))) as server:
        client = Client(server)
        client.ready()
        for path in PATHS + ["model/0", "model/99999"] * len(PIPELINES):
            assert SECRET not in str(client.raw("GET", f"/api/{path}")), path
        for name, text in JOBS:
            asked = json.dumps({"name": name, "text": text}).encode()
            _, _, body = client.raw("POST", "/api/jobs", {"Content-Type": "application/json"}, asked)
            assert SECRET not in body.decode(), name
            assert b'"job"' not in body or SECRET not in str(client.job(name, text)), name
    assert SECRET not in caplog.text


def test_a_notebook_shows_no_secret(host):
    url = POSITIONS["password"].format(s=SECRET, h=host, name="whole.tar")
    dataset = PIPELINES["samples"](url)
    sample = next(iter(dataset))
    assert SECRET not in html.unescape(sample_html(sample)) and "whole.tar" in sample_html(sample)
    assert SECRET not in repr(sample) and SECRET in sample["__url__"]
    with preview(dataset) as shown:
        assert SECRET not in shown._repr_html_()


@pytest.mark.parametrize("how", [["--json"], ["-vv", "--traceback"]])
def test_what_the_verb_prints_opens_the_page_and_has_no_other_secret(host, how):
    urls = [POSITIONS["token"].format(s=SECRET, h=host, name=f"{name}.tar") for name in ("whole", "cut", "missing")]
    words = [sys.executable, "-m", "webdataset", "view", "--no-browser", "--idle", "2", *how, *urls]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as viewer:
        said = ""
        while "/?token=" not in said:
            said += (line := viewer.stdout.readline())
            assert line, said
        address = json.loads(line)["address"] if "--json" in how else line.split()[2]
        opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())
        assert b"<html" in opener.open(address).read()
        said += viewer.stdout.read()
    assert viewer.returncode == 0 and SECRET not in said
