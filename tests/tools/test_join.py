"""`wds join`: what goes in comes out, in the promised order, or an error."""

import json
import pickle
import random
from pathlib import Path

import pytest

import webdataset as wds
from tests.tools.datasets import digests, read, write_shard
from webdataset import tools
from webdataset.errors import (
    FormatError,
    SpecError,
)
from webdataset.tools import Options


ALL = [f"{n:06d}" for n in range(21)]


@pytest.fixture
def captions(here):
    """Captions of all samples but two, in another order and other shards."""
    names = [f"{n:06d}" for n in range(21) if n not in {4, 13}] + ["extra"]
    random.Random(0).shuffle(names)
    return [
        write_shard(f"captions-{n}.tar", [{"__key__": k, "caption": f"of {k}", "txt": "new"} for k in names[n::2]])
        for n in range(2)
    ]


@pytest.mark.parametrize("output", ["out.tar", "out-%d.tar", "out/"])
def test_join_written_out(shards, captions, output):
    with pytest.raises(FormatError, match="sample 000004"):
        tools.join(shards, captions, output, fields=["caption"])
    kept = tools.join(shards, captions, output, Options(force=True), fields=["caption"], missing="keep")
    found = read(*kept.outputs)
    assert list(found) == ALL
    assert {key for key, sample in found.items() if "caption" not in sample} == {"000004", "000013"}
    assert all(sample.get("caption", f"of {key}".encode()) == f"of {key}".encode() for key, sample in found.items())
    dropped = tools.join(shards, captions, output, Options(force=True), fields=["caption"], missing="drop")
    assert list(read(*dropped.outputs)) == [key for key in ALL if key not in {"000004", "000013"}]


def test_join_and_equal_fields(shards, captions):
    with pytest.raises(FormatError, match="'txt'"):
        tools.join(shards, captions, "out.tar", missing="keep")
    tools.join(shards, captions, "out.tar", missing="keep", replace=True)
    assert read("out.tar")["000003"]["txt"] == b"new"


def test_join_described(shards, captions, here):
    before = digests(here / "data")
    report = tools.join(shards, captions, "joined.json", fields=["caption"], missing="keep")
    assert report.outputs == ("joined.json",)
    assert {name: before[name] for name in before} == {name: digests(here / "data")[name] for name in before}
    tools.join(shards, captions, "out.tar", fields=["caption"], missing="keep")
    for options in ({"index": False}, {}, {"order": "sequential"}):
        with wds.WebDataset("joined.json", **options) as dataset:
            found = {s["__key__"]: {n: d for n, d in s.items() if n[:2] != "__"} for s in dataset}
        assert found == read("out.tar")


def test_a_verb_does_not_lose_joined_fields(shards, captions):
    tools.join(shards, captions, "joined.json", fields=["caption"], missing="keep")
    for verb in (lambda: tools.cat("joined.json", "out.tar"), lambda: list(tools.list_samples("joined.json"))):
        with pytest.raises(SpecError, match="without them – joined.json – write the joined shards"):
            verb()
    assert not Path("out.tar").exists()


def test_a_described_join_drops_by_policy(shards, captions):
    tools.join(shards, captions, "joined.json", fields=["caption"], missing="drop")
    with wds.WebDataset("joined.json") as dataset:
        assert [s["__key__"] for s in dataset] == [key for key in ALL if key not in {"000004", "000013"}]
    tools.join(shards, captions, "strict.json", fields=["caption"])
    with wds.WebDataset("strict.json") as dataset, pytest.raises(FormatError, match="000004"):
        list(dataset)


def test_a_described_join_by_number(shards, captions):
    tools.join(shards, captions, "joined.json", fields=["caption"], missing="keep")
    with wds.IndexedDataset("joined.json") as dataset:
        assert len(dataset) == 21
        assert dataset[3]["caption"] == b"of 000003"
        assert "caption" not in dataset["000004"]
        assert pickle.loads(pickle.dumps(dataset))[5]["caption"] == b"of 000005"
    tools.join(shards, captions, "drop.json", fields=["caption"], missing="drop")
    with pytest.raises(SpecError, match="numbers"):
        wds.IndexedDataset("drop.json")


def test_a_described_join_resumes_and_scales(shards, captions):
    """Stopped at every sample and gone on with: the same samples; two readers: every sample once."""
    tools.join(shards, captions, "joined.json", fields=["caption"], missing="keep")

    def dataset():
        return wds.WebDataset("joined.json", order="random", seed=5)

    with dataset() as whole:
        order = [(s["__key__"], s.get("caption")) for s in whole]
    assert sorted(key for key, _ in order) == ALL
    for stop in (0, 1, 7, 20):
        with dataset() as first:
            stream = iter(first)
            for _ in range(stop):
                next(stream)
            state = json.loads(json.dumps(first.state_dict()))
        with dataset() as second:
            second.load_state_dict(state)
            assert [(s["__key__"], s.get("caption")) for s in second] == order[stop:]
    for workers in (1, 3):
        loader = wds.WebLoader(dataset(), num_workers=workers, workers="threads", batch_size=None)
        assert [(s["__key__"], s.get("caption")) for s in loader] == order


def test_a_join_that_cannot_be_read(here, shards):
    for bad in (3, [3], [{"missing": "keep"}], [{"shardlist": 3}]):
        (here / "bad.json").write_text(
            json.dumps({"wids_version": 1, "shardlist": [{"url": shards[0], "nsamples": 7}], "join": bad})
        )
        with pytest.raises(FormatError):
            wds.WebDataset("bad.json")
