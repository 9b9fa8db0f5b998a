"""Index files and descriptions: made, brought up to date, asked."""

import json
import os

import pytest

from tests.tools.caption_shards import captions, write
from webdataset.errors import SpecError
from webdataset import ShardWriter, WebDataset
from webdataset.index import load_index, read_description
from webdataset.interop import convert
from webdataset.tools import (
    Options,
    cat,
    check,
    create_index,
    index_info,
    indexed_sample,
    join,
    rename,
    split,
    update_index,
)


@pytest.fixture
def shards(tmp_path):
    return captions(tmp_path)


def test_create(shards, tmp_path):
    out = str(tmp_path / "train.json")
    made = create_index(shards, description=out, name="captions")
    assert (made.shards, made.samples) == (3, 30)
    assert made.size == sum(os.path.getsize(shard) for shard in shards)
    content = json.loads((tmp_path / "train.json").read_text())
    assert [entry["url"] for entry in content["shardlist"]] == ["train-000.tar", "train-001.tar", "train-002.tar"]
    assert all(len(load_index(shard)) == 10 for shard in shards)
    assert check(out).ok


def test_a_description_alone(shards, tmp_path):
    create_index(shards, description=str(tmp_path / "train.json"), dali=False)
    assert load_index(shards[0]) is None
    with pytest.raises(SpecError, match="nothing is to be written"):
        create_index(shards, dali=False)


def test_a_description_is_not_replaced_by_accident(shards, tmp_path):
    out = str(tmp_path / "train.json")
    create_index(shards, description=out)
    with pytest.raises(SpecError, match="exists already"):
        create_index(shards, description=out)
    create_index(shards[:1], description=out, force=True)
    assert read_description(out).nsamples == 10


def test_update_writes_what_has_changed(shards, tmp_path):
    out = str(tmp_path / "train.json")
    create_index(shards, description=out)
    assert update_index(out).written == ()
    write(shards[1], [("a", {"txt": "b", "cls": 1, "json": 1})])
    os.remove(shards[2].replace(".tar", ".idx"))
    (tmp_path / "train-000.idx").write_bytes(b"garbage\n")
    made = update_index(out)
    assert sorted(made.written) == shards
    assert made.samples == 21
    assert read_description(out).nsamples == 21
    assert check(out).ok
    assert update_index(out).written == ()


def test_update_of_index_files_alone(shards):
    assert sorted(update_index(shards).written) == shards
    write(shards[0], [("a", {"txt": "b"})])
    assert update_index(shards).written == (shards[0],)


def test_info(shards, tmp_path):
    assert index_info(shards).unknown == tuple(shards)
    create_index(shards, description=str(tmp_path / "train.json"), name="captions")
    found = index_info(shards)
    assert (found.shards, found.samples, found.unknown) == (3, 30, ())
    assert index_info(str(tmp_path / "train.json")).name == "captions"


def test_sample(shards, tmp_path):
    assert indexed_sample(shards, 17)["cls"] == b"17"
    create_index(shards, description=str(tmp_path / "train.json"))
    assert indexed_sample(str(tmp_path / "train.json"), -1)["cls"] == b"29"
    with pytest.raises(SpecError, match="there is no sample 30"):
        indexed_sample(shards, 30)


@pytest.mark.parametrize(
    "write",
    [
        lambda shards: create_index(shards, description="meta/all.json"),
        lambda shards: join(shards, shards, "meta/joined.json", replace=True),
        lambda shards: cat(shards, "out.tar", Options(description="meta/all.json")),
        lambda shards: split(shards, "out-%d.tar", Options(description="meta/all.json")),
        lambda shards: rename(shards, "out/", Options(description="meta/all.json"), drop=["json"]),
        lambda shards: convert(shards, "out.tar", options=Options(description="meta/all.json")),
        lambda shards: ShardWriter("out-%d.tar", description="meta/all.json"),
    ],
    ids=["index", "join", "cat", "split", "rename", "convert", "ShardWriter"],
)
def test_no_description_is_written_that_readers_would_refuse(shards, tmp_path, monkeypatch, write):
    monkeypatch.chdir(tmp_path)
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(SpecError, match=r"a description at meta/\w+\.json could not name this shard"):
        write(shards)
    assert sorted(tmp_path.rglob("*")) == before  # and nothing was done before it was refused
    monkeypatch.setenv("WDS_TRUSTED_FOLDERS", str(tmp_path))
    (tmp_path / "meta").mkdir()
    made = write(shards)
    if isinstance(made, ShardWriter):
        made.write({"__key__": "a", "txt": "hello"})
        made.close()
    (description,) = (tmp_path / "meta").glob("*.json")
    assert sum(1 for _ in WebDataset(str(description))) == len(WebDataset(str(description))) > 0
