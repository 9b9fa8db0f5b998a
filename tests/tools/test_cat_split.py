"""`wds cat` and `wds split`: what goes in comes out, in the promised order, or an error."""

import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.tools.datasets import keys, read, write_shard
from webdataset import tools
from webdataset.errors import (
    EncodingError,
    FormatError,
    SpecError,
    TruncatedShard,
)
from webdataset.index import load_index
from webdataset.tools import Options


ALL = [f"{n:06d}" for n in range(21)]


def test_cat(shards):
    report = tools.cat(shards, "out.tar")
    assert read("out.tar") == read(*shards)
    assert (report.samples_in, report.samples_out, report.done) == (21, 21, 1)
    assert len(load_index("out.tar")) == 21


def test_cat_takes_braces_folders_globs_and_descriptions(shards, here):
    tools.split(shards, "d/t-%d.tar", Options(count=5, description="d/t.json"))
    for spec in ("data/train-{0..2}.tar", "data/", "data/*.tar", "d/t.json", ["d/t-0.tar", "d/t-{1..4}.tar"]):
        tools.cat(spec, "out.tar", Options(force=True))
        assert keys("out.tar") == ALL


def test_cat_options(shards):
    tools.cat(shards, "out.tar", slice="2:10:3", fields="label:cls txt", rekey="{:03d}")
    assert read("out.tar") == {
        "000": {"label": b"2", "txt": b"2"},
        "001": {"label": b"0", "txt": b"5"},
        "002": {"label": b"3", "txt": b"8"},
    }
    tools.cat(shards, "s.tar", Options(seed=1), shuffle=10)
    assert sorted(keys("s.tar")) == ALL != keys("s.tar")


@pytest.mark.parametrize("bad", ["x", "1:2:3:4", "-1:3", "0:9:0"])
def test_bad_slices(shards, bad):
    with pytest.raises(SpecError, match="slice"):
        tools.cat(shards, "out.tar", slice=bad)


def test_a_missing_field_is_an_error(shards, here):
    with pytest.raises(FormatError, match="jpg"):
        tools.cat(shards, "out.tar", fields="jpg")
    assert not (here / "out.tar").exists()


def test_equal_keys_are_not_lost(shards):
    with pytest.raises(EncodingError, match="already"):
        tools.cat([shards[0], shards[0]], "out.tar")
    tools.cat([shards[0], shards[0]], "out.tar", rekey="{:09d}")
    assert len(keys("out.tar")) == 14


@pytest.mark.parametrize("option", [{"rekey": "{:09d}"}, {"slice": "0:3"}])
def test_cat_does_not_count_the_samples_of_each_shard_anew(shards, option):
    """Every output would have the same keys."""
    with pytest.raises(SpecError, match="all inputs"):
        tools.cat(shards, "out/", **option)


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    sizes=st.lists(st.integers(0, 2000), min_size=1, max_size=40),
    cuts=st.integers(1, 4),
    limit=st.sampled_from(["count", "size", "shards"]),
    value=st.integers(1, 10),
)
def test_split_and_cat_lose_nothing(tmp_path, sizes, cuts, limit, value):
    folder = Path(tempfile.mkdtemp(dir=tmp_path))
    samples = [{"__key__": f"{n:03d}", "bin": bytes(size)} for n, size in enumerate(sizes)]
    step = -(-len(samples) // cuts)
    urls = [
        write_shard(folder / f"in-{n}.tar", samples[at : at + step])
        for n, at in enumerate(range(0, len(samples), step))
    ]
    options = {"count": Options(count=value), "size": Options(size=value * 300), "shards": Options(shards=value)}[limit]
    if limit == "shards" and value > len(samples):
        with pytest.raises(SpecError, match="cannot fill"):
            tools.split(urls, f"{folder}/out-%d.tar", options)
        return
    report = tools.split(urls, f"{folder}/out-%d.tar", options)
    assert read(*report.outputs) == {s["__key__"]: {"bin": s["bin"]} for s in samples}
    counts = [len(read(url)) for url in report.outputs]
    if limit == "count":
        assert set(counts[:-1]) <= {value}
    elif limit == "shards":
        assert len(counts) == value
        assert max(counts) - min(counts) <= 1


def test_split_runs_a_function_after_each_shard(shards):
    seen = []
    tools.split(shards, "out-%d.tar", Options(count=10, post=seen.append))
    assert seen == ["out-0.tar", "out-1.tar", "out-2.tar"]


def test_split_needs_a_number(shards):
    with pytest.raises(SpecError, match="number"):
        tools.split(shards, "out.tar")
    with pytest.raises(SpecError, match="leave one"):
        tools.split(shards, "out-%d.tar", Options(count=3, shards=2))


def test_memory_store_as_place(shards):
    tools.split(shards, "memory://tools/split-%d.tar", Options(count=10))
    tools.cat("memory://tools/split-{0..2}.tar", "out.tar")
    assert keys("out.tar") == ALL


def test_a_cut_shard_is_an_error_and_nothing_appears(shards, here):
    data = (here / shards[1]).read_bytes()
    (here / shards[1]).write_bytes(data[: len(data) // 2])
    with pytest.raises(TruncatedShard):
        tools.cat(shards, "out.tar")
    assert not list(here.glob("out*"))
    report = tools.cat(shards, "out.tar", Options(errors="skip"))
    assert [failure.item for failure in report.failed] == [shards[1]]
    assert set(keys(shards[0], shards[2])) <= set(keys("out.tar"))
