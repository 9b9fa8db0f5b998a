"""The verbs that change shards: what goes in comes out, in the promised order, or an error."""

import io
import json
import pickle
import random
import tempfile
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image

import webdataset as wds
from tests.tools.datasets import digests, keys, read, write_numbers, write_shard
from webdataset import tools
from webdataset.errors import (
    CommandFailed,
    DecodingError,
    EncodingError,
    FormatError,
    SpecError,
    TruncatedShard,
    UnsafeContent,
)
from webdataset.index import load_index, read_description
from webdataset.tools import MixSource, Options, Parts


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def shards(here):
    return write_numbers("data", shards=3, each=7)


ALL = [f"{n:06d}" for n in range(21)]

# --- cat, split --------------------------------------------------------------------------------------------------


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


# --- select, partition -------------------------------------------------------------------------------------------


def test_select(shards, here):
    (here / "keys.txt").write_text("# two\n000003\n\n000010\n")
    for options, expected in [
        ({"where": "json.n % 2 == 0"}, ALL[::2]),
        ({"where": "json.n % 2 == 0", "invert": True}, ALL[1::2]),
        ({"keys": "keys.txt"}, ["000003", "000010"]),
        ({"keys": ["000003"]}, ["000003"]),
        ({"fields": ["cls"]}, ALL),
        ({"fields": ["jpg"]}, []),
        ({"fields": ["cls"], "where": "cls == 1"}, ["000001", "000006", "000011", "000016"]),
    ]:
        tools.select(shards, "out.tar", Options(force=True), **options)
        assert keys("out.tar") == expected


def test_select_reports_keys_that_were_not_found(shards):
    report = tools.select(shards, "out.tar", keys=["000001", "nothing"])
    assert "1 of 2" in report.failed[0].error
    assert tools.select(shards, "b.tar", keys=["nothing"], allow_missing=True).complete


def test_select_needs_a_criterion(shards):
    with pytest.raises(SpecError, match="which samples"):
        tools.select(shards, "out.tar")


def test_shares_depend_on_key_and_seed_alone(shards, here):
    tools.select(shards, "a.tar", share=0.5)
    tools.select(list(reversed(shards)), "b.tar", share=0.5)
    tools.select(shards, "c.tar", Options(seed=1), share=0.5)
    assert sorted(keys("b.tar")) == keys("a.tar") != keys("c.tar")


def test_partition(shards, here):
    (here / "val.txt").write_text("000004\n")
    parts = Parts(tools.read_lists({"val": "val.txt"}), {"odd": "json.n % 2"}, {"train": 1.0})
    reports = tools.partition(shards, "{part}/{part}-%d.tar", parts, Options(count=4))
    assert keys("val/val-0.tar") == ["000004"]
    odd = [key for url in reports["odd"].outputs for key in keys(url)]
    train = [key for url in reports["train"].outputs for key in keys(url)]
    assert odd == ALL[1::2]
    assert train == [key for key in ALL[::2] if key != "000004"]
    assert read_description("train/train.json").nsamples == len(train)


def test_partition_shares_are_about_right(here):
    urls = write_numbers("big", shards=1, each=4000)
    reports = tools.partition(urls, "{part}-%d.tar", Parts(shares={"a": 0.7, "b": 0.2, "c": 0.1}))
    sizes = [reports[part].samples_out for part in "abc"]
    assert sum(sizes) == 4000
    assert np.abs(np.array(sizes) / 4000 - [0.7, 0.2, 0.1]).max() < 0.03  # the seed is fixed, so is this


@pytest.mark.parametrize("shares", [{}, {"a": 0.9, "b": 0.2}, {"a": -0.1, "b": 1}, {"a/b": 1}])
def test_bad_parts(shares):
    with pytest.raises(SpecError):
        Parts(shares=shares)


def test_a_key_in_two_lists_is_an_error(here):
    (here / "a").write_text("1\n")
    with pytest.raises(SpecError, match="'1'"):
        tools.read_lists({"x": "a", "y": "a"})


# --- sort, shuffle -----------------------------------------------------------------------------------------------


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    values=st.lists(st.integers(0, 9), min_size=1, max_size=60), memory=st.integers(1, 20_000), reverse=st.booleans()
)
def test_sort_agrees_with_sorted_for_any_memory(tmp_path, values, memory, reverse):
    folder = Path(tempfile.mkdtemp(dir=tmp_path))
    url = write_shard(folder / "a.tar", [{"__key__": f"{n:03d}", "cls": v} for n, v in enumerate(values)])
    tools.sort(url, f"{folder}/b.tar", by="cls", memory=memory, reverse=reverse)
    expected = sorted(enumerate(values), key=lambda pair: pair[1], reverse=reverse)
    assert keys(f"{folder}/b.tar") == [f"{n:03d}" for n, _ in expected]


def test_sort_merges_more_runs_than_it_opens_at_a_time(here):
    order = list(range(500))
    random.Random(0).shuffle(order)
    url = write_shard("a.tar", [{"__key__": f"{n:04d}", "cls": n} for n in order])
    tools.sort(url, "b.tar", by="cls", memory=1)  # every sample is a run of its own
    assert keys("b.tar") == [f"{n:04d}" for n in range(500)]


def test_sort_by_type(here):
    url = write_shard("a.tar", [{"__key__": str(n), "txt": t} for n, t in enumerate(["10", "9", "100"])])
    tools.sort(url, "text.tar", by="txt")
    tools.sort(url, "number.tar", by="int(txt)")
    assert keys("text.tar") == ["0", "2", "1"]
    assert keys("number.tar") == ["1", "0", "2"]


def test_sort_with_missing_values(here):
    url = write_shard("a.tar", [{"__key__": "a", "txt": "1"}, {"__key__": "b", "cls": 1}, {"__key__": "c", "cls": 0}])
    with pytest.raises(FormatError, match="'cls'.*sample a"):
        tools.sort(url, "b.tar", by="cls")
    for missing, reverse, expected in [
        ("first", False, "acb"), ("last", False, "cba"), ("first", True, "abc"), ("last", True, "bca"),
    ]:  # fmt: skip
        tools.sort(url, "b.tar", Options(force=True), by="cls", missing=missing, reverse=reverse)
        assert "".join(keys("b.tar")) == expected


def test_sort_of_different_kinds(here):
    url = write_shard("a.tar", [{"__key__": "a", "json": {"x": 1}}, {"__key__": "b", "json": {"x": "1"}}])
    with pytest.raises(SpecError, match="different kinds"):
        tools.sort(url, "b.tar", by="json.x")


def test_sort_shard_by_shard(here):
    url = write_shard("a.tar", [{"__key__": str(n), "cls": -n} for n in range(5)])
    other = write_shard("b.tar", [{"__key__": str(n), "cls": n} for n in range(5)])
    tools.sort([url, other], "out/", by="cls")
    assert keys("out/a.tar") == list("43210")
    assert keys("out/b.tar") == list("01234")


def test_temporary_files_are_removed(shards, here):
    (here / "tmp").mkdir()
    tools.sort(shards, "b.tar", by="cls", memory=1, folder="tmp")
    with pytest.raises(FormatError):
        tools.sort(shards, "c.tar", by="nothing", memory=1, folder="tmp")
    assert list((here / "tmp").iterdir()) == []


def test_shuffle_is_a_permutation_for_any_memory(shards):
    orders = []
    for number, memory in enumerate((1, 5000, 10**9)):
        tools.shuffle(shards, f"{number}.tar", Options(seed=3), memory=memory)
        orders.append(keys(f"{number}.tar"))
    assert orders[0] == orders[1] == orders[2] != ALL
    assert sorted(orders[0]) == ALL
    tools.shuffle(shards, "other.tar", Options(seed=4))
    assert keys("other.tar") != orders[0]


def test_shuffle_is_uniform():
    """Every order of three samples in 1,200 seeds: 200 each, within five standard deviations."""
    from webdataset.tools._sort import shuffle_samples

    samples = [{"__key__": key} for key in "abc"]
    seen = Counter("".join(s["__key__"] for s in shuffle_samples(iter(samples), seed=seed)) for seed in range(1200))
    assert len(seen) == 6
    assert all(abs(count - 200) < 5 * 12.9 for count in seen.values())


# --- rename, mix -------------------------------------------------------------------------------------------------


def test_rename(shards):
    tools.rename(shards, "out/", fields={"label": "cls", "text": "caption,txt"}, drop=["json"], key=("^0*", "x"))
    assert read("out/train-0.tar")["x3"] == {"label": b"3", "text": b"3"}


def test_rename_does_not_overwrite(shards):
    with pytest.raises(FormatError, match="already"):
        tools.rename(shards, "out.tar", fields={"txt": "cls"})
    tools.rename(shards, "out.tar", fields={"txt": "cls", "cls": "txt"})
    assert read("out.tar")["000007"]["cls"] == b"7"
    with pytest.raises(SpecError, match="replaced"):
        tools.rename(shards, "out2.tar", key=("(", ""))


def test_rekey_must_keep_keys_apart(shards):
    with pytest.raises(EncodingError, match="already"):
        tools.rename(shards, "out.tar", key=(".$", ""))


@pytest.fixture
def two(here):
    a = write_shard("a.tar", [{"__key__": f"a{n}", "cls": n} for n in range(6)])
    b = write_shard("b.tar", [{"__key__": f"b{n}", "cls": n} for n in range(20)])
    return a, b


def test_mix(two):
    a, b = two
    tools.mix([MixSource(a, 1), MixSource(b, 2)], "m.tar")
    count = Counter(key[0] for key in keys("m.tar"))
    assert count["a"] == 6
    assert 12 <= count["b"] <= 13
    tools.mix([MixSource(a, 1), MixSource(b, 2)], "all.tar", stop="all")
    assert sorted(keys("all.tar")) == sorted(keys(a, b))
    tools.mix([MixSource(a, 1), MixSource(b, 1)], "never.tar", stop="never", samples=50, rekey="{:03d}")
    assert len(keys("never.tar")) == 50
    tools.mix([MixSource(a), MixSource(b)], "r.tar", Options(seed=1), stop="all", random=True)
    assert sorted(keys("r.tar")) == sorted(keys(a, b))
    with pytest.raises(SpecError, match="number of samples"):
        tools.mix([MixSource(a)], "x.tar", stop="never")


# --- join --------------------------------------------------------------------------------------------------------


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


# --- recode ------------------------------------------------------------------------------------------------------


def picture(width, height, kind="jpeg", **options):
    stream = io.BytesIO()
    Image.new("RGB", (width, height), (200, 30, 30)).save(stream, kind, **options)
    return stream.getvalue()


def size_of(data):
    return Image.open(io.BytesIO(data)).size


@pytest.fixture
def images(here):
    samples = [
        {"__key__": "wide", "jpg": picture(80, 40), "cls": 1},
        {"__key__": "small", "jpg": picture(10, 8), "cls": 2},
        {"__key__": "mask", "jpg": picture(40, 40), "seg.png": picture(40, 40, "png")},
    ]
    return write_shard("images.tar", samples)


def test_recode_size(images):
    before = read(images)
    tools.recode(images, "out.tar", short=20)
    after = read("out.tar")
    assert size_of(after["wide"]["jpg"]) == (40, 20)
    assert after["small"] == before["small"]  # byte for byte
    assert after["mask"]["seg.png"] == before["mask"]["seg.png"]
    tools.recode(images, "long.tar", longest=20, fields=["jpg", "seg.png"])
    assert size_of(read("long.tar")["wide"]["jpg"]) == (20, 10)
    assert size_of(read("long.tar")["mask"]["seg.png"]) == (20, 20)
    tools.recode(images, "crop.tar", short=20, crop=16)
    assert size_of(read("crop.tar")["wide"]["jpg"]) == (16, 16)


@pytest.mark.parametrize(("name", "field", "magic"), [
    ("png", "png", b"\x89PNG"), ("webp", "webp", b"RIFF"), ("raw", "ppm", b"P6"), ("npy", "npy", b"\x93NUMPY"),
])  # fmt: skip
def test_recode_format(images, name, field, magic):
    tools.recode(images, "out.tar", format=name)
    assert read("out.tar")["wide"][field].startswith(magic)
    assert "jpg" not in read("out.tar")["wide"]
    assert read("out.tar")["wide"]["cls"] == b"1"


def test_recode_turns_images_upright(here):
    exif = Image.Exif()
    exif[0x0112] = 6  # turned by 90°
    url = write_shard("a.tar", [{"__key__": "a", "jpg": picture(80, 40, exif=exif)}])
    tools.recode(url, "out.tar", longest=40)
    assert size_of(read("out.tar")["a"]["jpg"]) == (20, 40)


def test_recode_of_what_is_no_image(here):
    url = write_shard("a.tar", [{"__key__": "bad", "jpg": b"<html>"}, {"__key__": "good", "jpg": picture(80, 40)}])
    with pytest.raises(DecodingError, match="sample bad"):
        tools.recode(url, "out/", short=20)
    for policy, expected in [("skip", ["good"]), ("keep", ["bad", "good"])]:
        for output in ("out/", "out.tar"):
            report = tools.recode(url, output, Options(force=True), short=20, failed=policy)
            assert keys(*report.outputs) == expected
            assert ["bad" in failure.item for failure in report.failed] == [True]


@pytest.mark.parametrize("options", [{}, {"format": "xyz"}, {"short": 0}, {"quality": 101, "short": 3}])
def test_bad_recoding(images, options):
    with pytest.raises(SpecError):
        tools.recode(images, "out.tar", **options)


# --- proc --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("workers", [1, 3])
def test_proc_command(shards, workers):
    command = "echo -n $(($(cat sample.txt) * 2)) > sample.double; rm sample.json; sed -i s/^0/1/ sample.__key__"
    tools.proc(shards, "out.tar", Options(workers=workers), command=command)
    found = read("out.tar")
    assert list(found) == [f"1{n:05d}" for n in range(21)]
    assert found["100004"] == {"txt": b"4", "cls": b"4", "double": b"8"}


def test_a_command_that_fails_on_sample_17(shards, here):
    command = "test $(cat sample.txt) != 17 && rm sample.json"
    for output in ("out.tar", "out/"):
        with pytest.raises(CommandFailed, match="status 1.*sample 000017"):
            tools.proc(shards, output, command=command)
        assert not (here / "out.tar").exists()
        skipped = tools.proc(shards, output, Options(force=True), command=command, failed="skip")
        assert keys(*skipped.outputs) == [key for key in ALL if key != "000017"]
        kept = tools.proc(shards, output, Options(force=True), command=command, failed="keep")
        assert "json" in read(*kept.outputs)["000017"]
        for report in (skipped, kept):
            assert len(report.failed) == 1
            assert "000017" in report.failed[0].item
        (here / "out.tar").unlink(missing_ok=True)


def test_proc_leaves_out_samples_without_files(shards):
    tools.proc(shards, "out.tar", command="test $(cat sample.txt) -lt 3 || rm sample.*")
    assert keys("out.tar") == ALL[:3]


def test_proc_timeout_ends_all_children(shards):
    with pytest.raises(CommandFailed, match="seconds"):
        tools.proc(shards[:1], "out.tar", command="sleep 1000 & sleep 1000", timeout=0.05)


def test_proc_per_shard(shards):
    report = tools.proc(
        shards, "out/", command="rm -f 000003.*; for f in *.txt; do echo -n x >> $f; done", per_shard=True
    )
    found = read(*report.outputs)
    assert list(found) == [key for key in ALL if key != "000003"]
    assert {sample["txt"] for sample in found.values()} == {f"{n}x".encode() for n in range(21) if n != 3}
    with pytest.raises(SpecError, match="folder"):
        tools.proc(shards, "out.tar", command="true", per_shard=True)


@pytest.mark.parametrize("key", ["../evil", "/tmp/evil", "a/../../evil"])
def test_names_that_lead_out_of_the_folder_are_refused(here, key):
    url = write_shard("a.tar", [{"__key__": key, "txt": "x"}])
    with pytest.raises(UnsafeContent, match="leads out"):
        tools.proc(url, "out/", command="true", per_shard=True)


FUNCTIONS = """
def double(sample):
    return {**sample, "txt": sample["txt"] * 2, "json": {"new": 1}}

def twice(sample):
    return [{**sample, "__key__": sample["__key__"] + part} for part in "ab"]

def odd(sample):
    return sample if int(sample["txt"]) % 2 else None

def fails(sample):
    return 1 / (17 - int(sample["txt"])) and sample
"""


def test_proc_python(shards, here):
    (here / "wds_test_functions.py").write_text(FUNCTIONS)
    tools.proc(shards, "out/", Options(workers=2), function="wds_test_functions:double")
    assert read("out/train-0.tar")["000003"] == {"txt": b"33", "cls": b"3", "json": b'{"new": 1}'}
    tools.proc(shards, "twice.tar", function="wds_test_functions:twice")
    assert len(keys("twice.tar")) == 42
    tools.proc(shards, "odd.tar", function="wds_test_functions:odd")
    assert keys("odd.tar") == ALL[1::2]
    with pytest.raises(ZeroDivisionError):
        tools.proc(shards, "fails.tar", function="wds_test_functions:fails")
    assert len(tools.proc(shards, "fails.tar", function="wds_test_functions:fails", failed="skip").failed) == 1


@pytest.mark.parametrize("name", ["nothing", "no_such_module:f", "json:nothing", "json:__name__"])
def test_proc_python_that_is_not_there(shards, name):
    with pytest.raises(SpecError):
        tools.proc(shards, "out.tar", function=name)
