"""MDS, LitData and FFCV: the files that their own packages wrote, round trips, damage; their packages read ours."""

import gzip
import json
import os
import shutil
import subprocess
import sys
from decimal import Decimal
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import webdataset as wds
from tests.interop.conftest import VALUES, decoded, jpeg, records_of, same
from webdataset import interop
from webdataset.interop import MDS, Beton, ImageOptions, LitData

GOLDEN = Path(__file__).parent / "golden"
PIXELS = np.arange(27, dtype=np.uint8).reshape(3, 3, 3)


# --- MDS -------------------------------------------------------------------------------------------------------------


def test_mds_of_its_own_package_is_read():
    first, second = records_of(GOLDEN / "mds", MDS())
    assert (first["i"], second["i"]) == (-5, -4)
    assert first["s"] == "héy"
    assert first["b"] == b"\x00\x01"
    assert first["j"] == {"a": [1, 2]}
    assert same(first["nd"], np.arange(6, dtype=np.int16).reshape(2, 3))
    assert same(first["ndt"], np.arange(3, dtype=np.float32))
    assert same(first["nds"], np.ones((2, 2), np.float32))
    assert same((first["u16"], first["f32"], first["f64"]), (np.uint16(7), np.float32(1.5), np.float64(2.5)))
    assert first["p"] == (1, 2)
    assert same(first["pil"], PIXELS)
    assert (first["sd"], first["sf"], first["si"]) == (Decimal("1.50"), 0.1, 12)
    assert first["jpg"][:3] == b"\xff\xd8\xff"
    assert first["png"][:4] == b"\x89PNG"


@settings(max_examples=25)
@given(st.lists(st.fixed_dictionaries(VALUES), min_size=1, max_size=6), st.integers(200, 2000))
def test_mds_comes_back_bit_for_bit(rows, limit):
    shutil.rmtree("/dev/shm/none", ignore_errors=True)
    interop.write(rows, "memory://mds/data", MDS(size_limit=limit))
    assert all(map(same, records_of("memory://mds/data", "mds"), rows))


def copied(tmp_path, name):
    shutil.copytree(GOLDEN / name, tmp_path / name)
    return tmp_path / name


@pytest.mark.parametrize("byte", [0, 700, 2000, 2396])
def test_a_bad_checksum_of_mds_is_an_error(tmp_path, byte):
    root = copied(tmp_path, "mds")
    data = bytearray((root / "shard.00000.mds").read_bytes())
    data[byte] ^= 1
    (root / "shard.00000.mds").write_bytes(data)
    with pytest.raises(wds.FormatError, match=r"expected sha1 .* as in the index, got .* – .*shard.00000.mds, byte 0"):
        records_of(root, "mds")


def test_a_cut_shard_of_mds_is_an_error(tmp_path):
    root = copied(tmp_path, "mds")
    data = (root / "shard.00000.mds").read_bytes()
    (root / "shard.00000.mds").write_bytes(data[:-10])
    for check in (True, False):
        with pytest.raises(wds.FormatError, match="2387"):
            records_of(root, MDS(check=check))


def test_an_index_cannot_name_files_elsewhere(tmp_path):
    root = copied(tmp_path, "mds")
    text = (root / "index.json").read_text()
    for name in ("../secret", "/etc/passwd", "pipe:echo", "http://host/x"):
        (root / "index.json").write_text(text.replace("shard.00000.mds", name))
        with pytest.raises(wds.FormatError, match="is not a file beside it"):
            MDS().parts(str(root))


@pytest.mark.parametrize("before", [0, 30])
def test_mds_is_published_whole_or_not_at_all(tmp_path, before):
    """Whether or not an earlier dataset is in the place, which then stays."""
    small, root = MDS(size_limit=400), str(tmp_path / "mds")
    good = [{"a": n, "b": bytes(50)} for n in range(30)]
    if before:
        interop.write(good, root, small)
    for bad in ({"a": "two", "b": b""}, {"a": 1}):
        with pytest.raises(wds.EncodingError, match="expected int as in the first sample, got str – field a|missing"):
            interop.write([*good[:20], bad], root, small)
        assert os.listdir(tmp_path) == (["mds"] if before else [])
        assert not before or all(map(same, records_of(root, "mds"), good))


def test_a_shorter_mds_keeps_nothing_of_a_longer_one(tmp_path):
    for count in (30, 3):
        interop.write([{"a": n} for n in range(count)], str(tmp_path / "mds"), MDS(size_limit=400))
    assert sorted(os.listdir(tmp_path / "mds")) == ["index.json", "shard.00000.mds"]
    assert len(records_of(tmp_path / "mds", "mds")) == 3


def test_mds_does_not_replace_a_directory_with_other_files(tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(wds.StoreError, match="exists already"):
        interop.write([{"a": 1}], str(tmp_path), "mds")
    assert os.listdir(tmp_path) == ["notes.txt"]


@pytest.mark.parametrize("name", ["mds", "litdata"])
@pytest.mark.parametrize(
    "text",
    ["", "[]", "5", '{"version": 2, "shards": 5}', '{"chunks": 5, "config": {}}', '{"chunks": [], "config": []}'],
)
def test_an_index_that_is_no_index_is_an_error_with_its_name(tmp_path, name, text):
    (tmp_path / "index.json").write_text(text)
    with pytest.raises(wds.FormatError, match=r"index\.json"):
        interop.read(str(tmp_path), name)


def test_pickles_in_mds_go_through_the_allow_list(tmp_path):
    import pickle

    root = copied(tmp_path, "mds")
    bad = pickle.dumps(Bomb())
    text = (root / "shard.00000.mds").read_bytes()
    old = pickle.dumps((1, 2), 4)  # as MDS wrote it, under a Python of its time
    assert text.count(old) == 2
    assert len(bad) >= len(old)
    from webdataset.interop._mds_values import decode_value

    with pytest.raises(wds.UnsafeContent):
        decode_value("pkl", bad)


class Bomb:
    def __reduce__(self):
        return (os.system, ("echo gotcha",))


# --- LitData ---------------------------------------------------------------------------------------------------------


def test_litdata_of_its_own_package_is_read():
    records = records_of(GOLDEN / "litdata", LitData())
    assert [record["i"] for record in records] == [-1, 0, 1]
    first = records[0]
    assert (first["f"], first["s"], first["b"], first["bool"]) == (1.5, "héy", b"\x00\x01", True)
    assert (first["l"], first["d"], first["none"], first["p"]) == ([1, "x"], {"z": 2}, None, (1, {2}))
    assert same(first["nd"], np.arange(6, dtype=np.int16).reshape(2, 3))
    assert same(first["nd1"], np.arange(4, dtype=np.float32))
    assert same(first["t"], np.arange(4).reshape(2, 2))
    assert same(first["t1"], np.arange(3))
    assert same(first["img"], PIXELS)


def test_lists_in_litdata_are_read():
    first, second, third = records_of(GOLDEN / "litdata-lists", LitData())
    assert (first["li"], third["lf"], second["ls"]) == ([0, 0, 2**62], [1.0, 1.5], ["ü", "b"])
    assert (third["lb"], third["mix"], third["empty"], third["nest"]) == (
        [True, False],
        [2, "a", 0.5],
        [],
        [[2], [2, 2]],
    )
    assert (third["ld"], third["lnone"], third["tup"], third["bigint"]) == ([{"a": 2}], [None, 1], (2, 3), 2**63 - 1)
    _, row = records_of(GOLDEN / "litdata-dicts", LitData())
    assert row["s"] == [{"k": "ü", "m": "b"}, {"k": "cc", "m": ""}]
    assert (row["f"], row["b"], row["nul"]) == ([{"x": 0.5, "y": 1.5}], [{"x": True, "n": 3}], [{"a": None}])
    assert (row["mixt"], row["fi"], row["miss"]) == (
        [{"a": 1}, {"a": "x"}],
        [{"a": 1}, {"a": 0.5}],
        [{"a": 1}, {"b": 2}],
    )


def test_a_mapping_of_litdata_names_its_fields(tmp_path):
    root, target = str(GOLDEN / "litdata-dicts"), str(tmp_path / "a.tar")
    assert interop.convert(root, target, source_format="litdata", mapping="tail:cls,s:s.json").samples_out == 2
    with pytest.raises(wds.SpecError, match="'tali', and there is no such field"):
        interop.read(root, "litdata", mapping="tali:cls")


def test_compressed_litdata_is_read():
    records = records_of(GOLDEN / "litdata-zstd", LitData())
    assert [record["x"] for record in records] == [0, 1, 2]
    assert all(record["img"][:3] == b"\xff\xd8\xff" for record in records)


@pytest.mark.parametrize("size", [3, 15, 300, 892])
def test_a_cut_chunk_of_litdata_is_an_error(tmp_path, size):
    root = copied(tmp_path, "litdata")
    (root / "chunk-0-0.bin").write_bytes((root / "chunk-0-0.bin").read_bytes()[:size])
    with pytest.raises(wds.FormatError, match="chunk-0-0.bin"):
        records_of(root, LitData())


# --- referees --------------------------------------------------------------------------------------------------------


def other_python(module, variable):
    python = os.environ.get(variable, sys.executable)
    tried = subprocess.run([python, "-c", f"import {module}"], capture_output=True, text=True)
    if tried.returncode:
        pytest.skip(f"{module} cannot be imported; {variable} names a Python that has it: {tried.stderr[-200:]}")
    return python


ROWS = [
    {
        "__key__": str(n),
        "jpg": jpeg(n),
        "cls": n,
        "x": np.arange(6, dtype=np.float32).reshape(2, 3) + n,
        "f": 0.1 * n,
        "j": {"a": [n]},
    }
    for n in range(20)
]


@pytest.mark.long
def test_streaming_reads_what_we_write(tmp_path):
    python = other_python("streaming", "WDS_STREAMING_PYTHON")
    interop.write(ROWS, str(tmp_path / "mds"), MDS(size_limit=4000, columns={"jpg": "jpeg"}))
    program = """
import json, sys
from streaming import StreamingDataset
data = StreamingDataset(local=sys.argv[1], shuffle=False, batch_size=1, validate_hash="sha1")
print(json.dumps([[int(r["cls"]), r["x"].tolist(), float(r["f"]), r["j"], list(r["jpg"].size)] for r in (data[n] for n in range(len(data)))]))
"""
    out = subprocess.run(
        [python, "-W", "ignore", "-c", program, str(tmp_path / "mds")], capture_output=True, text=True, check=True
    )
    read = json.loads(out.stdout.splitlines()[-1])
    assert read == [[row["cls"], row["x"].tolist(), row["f"], row["j"], [10, 8]] for row in ROWS]


@pytest.mark.long
@pytest.mark.parametrize("mode", ["raw", "jpg", "smart", "proportion"])
def test_ffcv_reads_what_we_write(tmp_path, mode):
    python = other_python("ffcv", "WDS_FFCV_PYTHON")
    rows = [{name: value for name, value in row.items() if name != "__key__"} for row in ROWS]
    interop.write(rows, str(tmp_path / "a.beton"), Beton(page_size=1 << 21, image=ImageOptions(mode, threshold=100)))
    program = """
import json, sys
from ffcv.loader import Loader, OrderOption
from ffcv.fields.json import JSONField
from ffcv.fields.rgb_image import SimpleRGBImageDecoder
loader = Loader(sys.argv[1], batch_size=5, num_workers=1, order=OrderOption.SEQUENTIAL, drop_last=False, pipelines={"jpg": [SimpleRGBImageDecoder()]})
names = list(loader.reader.field_names)
rows = []
for batch in loader:
    data = dict(zip(names, batch))
    for n in range(len(data["cls"])):
        rows.append([int(data["cls"][n]), data["x"][n].tolist(), float(data["f"][n]), JSONField.unpack(data["j"])[n], data["jpg"][n].astype(int).tolist()])
print(json.dumps(rows))
"""
    out = subprocess.run([python, "-c", program, str(tmp_path / "a.beton")], capture_output=True, text=True, check=True)
    read = json.loads(out.stdout.splitlines()[-1])
    assert [row[:4] for row in read] == [[row["cls"], row["x"].tolist(), row["f"], row["j"]] for row in ROWS]
    for row, original in zip(read, ROWS, strict=True):
        pixels = decoded(original["jpg"]).astype(int)
        assert np.abs(np.array(row[4]) - pixels).mean() < 12  # two JPEG decoders, on noise


# --- damage of every kind --------------------------------------------------------------------------------------------


def damaged(data, places):
    data = bytearray(data)
    for place, value in places:
        data[place % len(data)] = value
    return bytes(data)


PLACES = st.lists(st.tuples(st.integers(0, 1 << 20), st.integers(0, 255)), min_size=1, max_size=4)


def refused_or_read(root, kind):
    try:
        for part in kind.parts(root):
            with kind.open(part) as file:
                for number in range(min(len(file), 10)):
                    file[number]
    except wds.WebDatasetError:
        pass


def store(url, data):
    from webdataset import stores

    with stores.open_write(url) as stream:
        stream.write(data)


@settings(max_examples=60)
@given(PLACES, st.booleans())
def test_damaged_mds_is_refused_or_read(places, in_index):
    index, shard = (GOLDEN / "mds" / "index.json").read_bytes(), (GOLDEN / "mds" / "shard.00000.mds").read_bytes()
    store("memory://bad/mds/index.json", damaged(index, places) if in_index else index)
    store("memory://bad/mds/shard.00000.mds", shard if in_index else damaged(shard, places))
    refused_or_read("memory://bad/mds", MDS(check=False))


@settings(max_examples=60)
@given(PLACES, st.booleans(), st.sampled_from(["litdata", "litdata-zstd"]))
def test_damaged_litdata_is_refused_or_read(places, in_index, name):
    index, chunk = (GOLDEN / name / "index.json").read_bytes(), (GOLDEN / name / "chunk-0-0.bin").read_bytes()
    store("memory://bad/lit/index.json", damaged(index, places) if in_index else index)
    store("memory://bad/lit/chunk-0-0.bin", chunk if in_index else damaged(chunk, places))
    refused_or_read("memory://bad/lit", LitData())


@settings(max_examples=40)
@given(
    st.lists(
        st.tuples(st.one_of(st.integers(0, 23), st.integers(24, 11_100)), st.integers(0, 255)), min_size=1, max_size=3
    )
)
def test_a_damaged_beton_is_refused_or_read(places):
    data = gzip.decompress((GOLDEN / "ffcv.beton.gz").read_bytes())
    store("memory://bad/a.beton", damaged(data, places))
    refused_or_read("memory://bad/a.beton", Beton())
