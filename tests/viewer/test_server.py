"""Many requests at once, what the model sees, and notebooks."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.viewer.asking import Client
from tests.viewer.datasets import SCRIPT
from webdataset.errors import MissingDependency, StoreError
from webdataset.viewer import Catalog, ModelInput, ViewServer, preview, sample_html


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
