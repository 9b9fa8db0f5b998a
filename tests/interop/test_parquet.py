"""Parquet, Arrow and Hugging Face: round trips, pyarrow and `datasets` as referees, damage, resuming."""

import datetime
import decimal
import json
import os

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import webdataset as wds
from tests.interop.conftest import jpeg, records_of, same, tar_samples
from webdataset import interop
from webdataset.tools import Options
from webdataset.interop import Arrow, Parquet
from webdataset.world import World, pretend

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

REPLACE = Options(force=True)

COLUMNS = {
    "i": st.integers(-(2**63), 2**63 - 1),
    "f": st.binary(min_size=8, max_size=8).map(lambda b: float(np.frombuffer(b, "<f8")[0])),
    # By way of a double, which makes quiet NaNs of signalling ones, as pyarrow does.
    "single": st.binary(min_size=4, max_size=4).map(lambda b: np.float32(float(np.frombuffer(b, "<f4")[0]))),
    "b": st.binary(max_size=20),
    "s": st.text(st.characters(exclude_categories=["Cs"]), max_size=10),
    "v": st.lists(st.integers(0, 255), max_size=4).map(lambda v: np.array(v, np.uint8)),
    "m": st.lists(st.floats(width=32, allow_nan=False), min_size=4, max_size=4).map(
        lambda v: np.array(v, np.float32).reshape(2, 2)
    ),
    "flag": st.booleans(),
}
ROWS = st.lists(st.fixed_dictionaries({}, optional=COLUMNS), min_size=1, max_size=5)


@settings(max_examples=40)
@given(ROWS, st.sampled_from([Parquet(), Parquet(compression="zstd", row_group_size=1), Arrow()]))
def test_rows_come_back_bit_for_bit(rows, kind):
    """int64, floats bit for bit, unicode, empty lists, missing values, arrays with their types."""
    rows = [{name: rows[0][name] for name in rows[0]}, *rows]
    known = set(rows[0])
    rows = [{name: value for name, value in row.items() if name in known} for row in rows]
    if not known:
        return
    url = f"memory://arrow/a.{kind.name}"
    interop.write(rows, url, kind)
    read = records_of(url, kind)
    read = [{name: value for name, value in row.items() if value is not None} for row in read]
    assert all(map(same, read, rows)), (read, rows)


@settings(max_examples=20)
@given(ROWS)
def test_parquet_to_tar_and_back_loses_nothing(rows):
    rows = [row for row in rows if row] or [{"i": 1}]
    interop.write(rows, "memory://arrow/in.parquet", Parquet(row_group_size=1 << 20))
    done = interop.convert("memory://arrow/in.parquet", "memory://arrow/mid.tar", REPLACE)
    interop.convert("memory://arrow/mid.tar", "memory://arrow/out.parquet", REPLACE, mapping=done.mapping.inverted())
    before, after = records_of("memory://arrow/in.parquet", None), records_of("memory://arrow/out.parquet", None)
    plain = [{name: value for name, value in row.items() if value is not None} for row in after]
    for row in plain:
        if "flag" in row:  # a flag is kept as an array without dimensions
            row["flag"] = bool(row["flag"])
    assert all(map(same, plain, [{n: v for n, v in row.items() if v is not None} for row in before]))


def test_pyarrow_reads_what_we_write(tmp_path):
    rows = [{"__key__": str(n), "cls": n, "x": np.arange(n, dtype=np.int16), "jpg": jpeg(n)} for n in range(5)]
    interop.write(rows, str(tmp_path / "a.parquet"), Parquet(row_group_size=2000))
    table = pq.read_table(tmp_path / "a.parquet")
    assert table["cls"].to_pylist() == list(range(5))
    assert table["x"].type == pa.list_(pa.int16())
    assert table["jpg"].to_pylist()[3] == {"bytes": jpeg(3), "path": "3.jpg"}
    assert pq.ParquetFile(tmp_path / "a.parquet").num_row_groups > 1
    assert [record["jpg"] for record in records_of(tmp_path / "a.parquet", None)] == [jpeg(n) for n in range(5)]


@pytest.mark.parametrize("begin", [pa.ipc.new_file, pa.ipc.new_stream])
def test_arrow_files_and_streams_of_pyarrow_are_read(tmp_path, begin):
    table = pa.table({"n": list(range(200)), "s": [str(n) for n in range(200)]})
    with open(tmp_path / "a.arrow", "wb") as stream, begin(stream, table.schema) as writer:
        for batch in table.to_batches(max_chunksize=70):
            writer.write_batch(batch)
    assert records_of(tmp_path / "a.arrow", None) == table.to_pylist()


def test_a_schema_that_changes_between_files_is_an_error(tmp_path):
    interop.write([{"a": 1}], str(tmp_path / "a-0.parquet"))
    interop.write([{"a": "x"}], str(tmp_path / "a-1.parquet"))
    with pytest.raises(
        wds.FormatError, match=r"the field a: expected int64 as in .*a-0.parquet, got string – .*a-1.parquet"
    ):
        interop.convert(str(tmp_path / "a-{0..1}.parquet"), str(tmp_path / "a.tar"))
    assert sorted(os.listdir(tmp_path)) == ["a-0.parquet", "a-1.parquet"]


def test_a_pipeline_refuses_a_schema_that_changes(tmp_path):
    interop.write([{"a": 1}], str(tmp_path / "a-0.parquet"))
    interop.write([{"a": "x"}], str(tmp_path / "a-1.parquet"))
    dataset = interop.read(str(tmp_path / "a-{0..1}.parquet"))
    with pytest.raises(wds.FormatError, match="the field a: expected int64 as in"):
        list(dataset)
    seen = []
    lenient = interop.read(str(tmp_path / "a-{0..1}.parquet"), handler=lambda error: seen.append(error) or True)
    assert len(list(lenient)) == 1
    assert len(seen) == 1


def test_random_access_keeps_the_last_file_open(tmp_path):
    for part in range(2):
        interop.write([{"a": 10 * part + n} for n in range(5)], str(tmp_path / f"a-{part}.parquet"))
    dataset = interop.read(str(tmp_path / "a-{0..1}.parquet"), mapping="a:cls")
    assert [dataset[n]["cls"] for n in (9, 0, 1, 8, 4, 5)] == [14, 0, 1, 13, 4, 10]
    with pytest.raises(IndexError, match="sample 10 of 10"):
        dataset[10]
    dataset.close()


def test_a_row_that_does_not_fit_is_an_error_and_nothing_is_written(tmp_path):
    rows = [{"a": 1}, {"a": 2}, {"a": "three"}]
    with pytest.raises(wds.EncodingError, match="row 2: the field does not fit int64"):
        interop.write(rows, str(tmp_path / "a.parquet"), Parquet(row_group_size=1))
    with pytest.raises(wds.EncodingError, match="row 1: the field is not in the first rows"):
        interop.write([{"a": 1}, {"b": 1}], str(tmp_path / "a.parquet"), Parquet(row_group_size=1))
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("name", ["a.parquet", "a.arrow"])
def test_files_of_another_kind_and_cut_files_are_errors(tmp_path, name):
    path = tmp_path / name
    path.write_bytes(b"not this kind of file" * 10)
    with pytest.raises(wds.FormatError, match=f"not a.* file.* – .*{name}"):
        records_of(path, None)
    interop.write([{"a": bytes(1000)}] * 9, str(path))
    path.write_bytes(path.read_bytes()[:-3000])
    with pytest.raises(wds.FormatError, match=name):
        records_of(path, None)


def test_an_image_that_is_only_named_is_an_error(tmp_path):
    kind = pa.struct({"bytes": pa.binary(), "path": pa.string()})
    table = pa.table({"image": pa.array([{"bytes": None, "path": "/etc/passwd"}], kind)})
    pq.write_table(table, tmp_path / "a.parquet")
    with pytest.raises(wds.FormatError, match="is not in the file, which only names '/etc/passwd'"):
        records_of(tmp_path / "a.parquet", None)


# --- Hugging Face ----------------------------------------------------------------------------------------------------


@pytest.fixture
def datasets(tmp_path, monkeypatch):
    monkeypatch.setenv("HF_DATASETS_CACHE", str(tmp_path / "hf"))
    module = pytest.importorskip("datasets")
    # Not the variable: whoever imports the hub's library first would be offline for the rest of the process.
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    monkeypatch.setattr(module.config, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(module.config, "HF_DATASETS_CACHE", tmp_path / "hf")
    module.disable_progress_bars()
    monkeypatch.setattr("tqdm.tqdm.monitor_interval", 0)  # it would start a thread that stays
    return module


@pytest.fixture
def parquets(tmp_path):
    rows = [
        {"__key__": f"{n:03d}", "jpg": jpeg(n), "cls": n, "x": np.arange(n % 3, dtype=np.float32)} for n in range(40)
    ]
    for part in range(4):
        interop.write(rows[10 * part : 10 * part + 10], str(tmp_path / f"p-{part}.parquet"))
    return rows, str(tmp_path / "p-*.parquet")


def loaded(datasets, files, **options):
    return datasets.load_dataset("parquet", data_files=files, split="train", **options)


def without_meta(samples):
    return [
        {name: value for name, value in sample.items() if name[:2] != "__" or name == "__key__"} for sample in samples
    ]


def expected(rows):
    return [{**{n: v for n, v in row.items() if n != "x"}, "x.npy": row["x"]} for row in rows]


@pytest.mark.parametrize("streaming", [False, True])
def test_from_hf_gives_what_was_stored(datasets, parquets, streaming):
    rows, files = parquets
    dataset = loaded(datasets, files, streaming=streaming)
    assert isinstance(dataset.features["jpg"], datasets.Image)
    samples = wds.from_hf(dataset)
    assert str(samples.mapping) == "jpg:jpg,cls:cls,x:x.npy,__key__:__key__"
    assert all(map(same, without_meta(samples), expected(rows)))
    assert sum(sample["jpg"].shape == (8, 10, 3) for sample in samples.decode("rgb8")) == 40
    if not streaming:
        assert len(samples) == 40
        assert samples[7]["cls"] == 7


@pytest.mark.parametrize("streaming", [False, True])
@pytest.mark.parametrize("stop", [0, 1, 9, 10, 31, 32, 33, 39])
def test_from_hf_resumes(datasets, parquets, streaming, stop):
    dataset = loaded(datasets, parquets[1], streaming=streaming)
    make = lambda: wds.from_hf(dataset, mapping="cls:cls").to_tuple("cls")  # noqa: E731
    first, again = make(), make()
    items = iter(first)
    head = [next(items) for _ in range(stop)]
    again.load_state_dict(json.loads(json.dumps(first.state_dict())))
    assert head + list(again) == [(n,) for n in range(40)]
    assert list(again) == [(n,) for n in range(40)]


@pytest.mark.parametrize("streaming", [False, True])
@pytest.mark.parametrize(("ranks", "workers"), [(1, 3), (2, 1), (3, 2)])
def test_from_hf_is_split_among_ranks_and_workers(datasets, parquets, streaming, ranks, workers):
    dataset = loaded(datasets, parquets[1], streaming=streaming)
    seen, keys = [], []
    for rank in range(ranks):
        for worker in range(workers):
            with pretend(World(rank, ranks, worker, workers)):
                samples = list(wds.from_hf(dataset, mapping="cls:cls"))
                seen += [sample["cls"] for sample in samples]
                keys += [sample["__key__"] for sample in samples]
    assert sorted(seen) == list(range(40))
    assert len(set(keys)) == 40


def test_to_hf_gives_what_the_shards_hold(datasets, images):
    stream = wds.to_hf(images)
    assert stream.num_shards == 2
    rows = list(stream)
    assert [row["cls"] for row in rows] == [0, 1, 2, 0, 1, 2]
    assert rows[4]["txt"] == "nümber 1"
    assert rows[4]["jpg"].size == (10, 8)
    items = iter(stream)
    for _ in range(4):
        next(items)
    again = wds.to_hf(images)
    again.load_state_dict(stream.state_dict())
    assert [row["__key__"] for row in again] == ["11", "12"]
    whole = wds.to_hf(images, streaming=False)
    assert len(whole) == 6
    assert whole[4]["__key__"] == "11"


def test_there_and_back_again(datasets, images):
    dataset = wds.to_hf(images, streaming=False)
    samples = without_meta(wds.from_hf(dataset, mapping="jpg,cls,txt,__key__"))
    assert [sample["jpg"] for sample in samples] == [sample["jpg"] for sample in tar_samples(images)]
    assert [sample["__key__"] for sample in samples] == ["00", "01", "02", "10", "11", "12"]


def test_a_field_that_is_no_feature_is_an_error(datasets, tmp_path):
    with wds.TarWriter(str(tmp_path / "a.tar")) as sink:
        for n in range(101):
            sink.write({"__key__": str(n), "cls": n, **({"txt": "late"} if n == 100 else {})})
    with pytest.raises(wds.FormatError, match="the field txt is not among the features – sample 100"):
        list(wds.to_hf(str(tmp_path / "a.tar")))


def test_the_parquet_builder_decodes_our_images(datasets, parquets):
    dataset = loaded(datasets, parquets[1])
    assert dataset[3]["jpg"].size == (10, 8)
    assert dataset[5]["x"] == [0.0, 1.0]


DAY = datetime.date(2024, 2, 29)


@pytest.mark.parametrize(
    ("values", "kind", "read"),
    [
        ([datetime.datetime(2024, 2, 29, 1, 2, 3, 4)], None, "2024-02-29 01:02:03.000004"),
        ([1709168523000000001], pa.timestamp("ns"), "2024-02-29 01:02:03.000000001"),
        ([DAY], None, "2024-02-29"),
        ([datetime.time(1, 2, 3)], None, "01:02:03.000000"),
        ([datetime.timedelta(seconds=2)], None, 2000000),
        ([decimal.Decimal("1.10")], None, "1.10"),
        ([[DAY]], None, ["2024-02-29"]),
        ([{"day": DAY, "image": b"\xff"}], None, {"day": "2024-02-29", "image": b"\xff"}),
        ([2**64 - 1], pa.uint64(), 2**64 - 1),
        ([[b"\xff", b""]], None, [b"\xff", b""]),
    ],
)
def test_columns_of_every_type_reach_a_shard_and_come_back(tmp_path, values, kind, read):
    pq.write_table(pa.table({"a": pa.array(values, kind)}), tmp_path / "a.parquet")
    done = interop.convert(str(tmp_path / "a.parquet"), str(tmp_path / "a.tar"))
    assert records_of(tmp_path / "a.parquet", None) == [{"a": read}]
    interop.convert(str(tmp_path / "a.tar"), str(tmp_path / "b.parquet"), mapping=done.mapping.inverted())
    assert records_of(tmp_path / "b.parquet", None) == [{"a": read}]


@pytest.mark.parametrize(("name", "write"), [("a.parquet", pq.write_table), ("a.arrow", None)])
def test_two_columns_of_one_name_are_an_error(tmp_path, name, write):
    table = pa.Table.from_arrays([pa.array([1]), pa.array([2])], ["a", "a"])
    if write is not None:
        write(table, tmp_path / name)
    else:
        with pa.OSFile(str(tmp_path / name), "wb") as stream, pa.ipc.new_file(stream, table.schema) as writer:
            writer.write_table(table)
    with pytest.raises(wds.FormatError, match=f"there are two columns 'a' – .*{name}"):
        records_of(tmp_path / name, None)


def test_a_dataset_without_rows_or_with_an_unknown_column_is_refused(datasets):
    def nothing():
        yield from ()

    for empty in (datasets.Dataset.from_dict({"a": []}), datasets.IterableDataset.from_generator(nothing)):
        with pytest.raises(wds.SpecError, match="no record to guess a mapping from"):
            wds.from_hf(empty)
    with pytest.raises(wds.SpecError, match="'b', and there is no such field – Dataset – there are a"):
        wds.from_hf(datasets.Dataset.from_dict({"a": [1]}), mapping="b:cls")


def test_features_come_from_the_first_shard_that_has_samples(datasets, tmp_path):
    wds.TarWriter(str(tmp_path / "0.tar")).close()
    with wds.TarWriter(str(tmp_path / "1.tar")) as sink:
        sink.write({"__key__": "a", "txt": "x", "cls": 1})
    assert list(wds.to_hf(str(tmp_path / "{0..1}.tar"))) == [{"__key__": "a", "cls": 1, "txt": "x"}]
