"""TFRecord: the golden bytes of the format, other packages' files, damage, indexes, compression."""

import gzip
import json
import os
import struct
import subprocess
import sys
import zlib
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import webdataset as wds
from tests.interop.conftest import records_of, same
from webdataset import interop
from webdataset.interop import Part, Steps, TFRecord
from webdataset.testing import FaultServer
from webdataset.tools import Options

REPLACE = Options(force=True)

pytest.importorskip("google_crc32c")

GOLDEN = bytes.fromhex(
    "1200000000000000241f64250a100a0e0a056c6162656c12051a030a0107368c84b9"
    "2400000000000000422b804d0a220a110a0166120c120a0a080000803f000000400a0d0a03696d6712060a040a026162b39ce5b3"
)
RECORDS = [
    {"label": np.array([7])},
    {"f": np.array([1, 2], np.float32), "img": [b"ab"]},
]


@pytest.fixture
def golden(tmp_path):
    path = tmp_path / "golden.tfrecord"
    path.write_bytes(GOLDEN)
    return path


def test_golden_bytes_are_read(golden):
    assert all(map(same, records_of(golden, None), RECORDS))


def test_golden_bytes_are_written(tmp_path):
    path = tmp_path / "a.tfrecord"
    assert interop.write(RECORDS, str(path)) == 2
    assert path.read_bytes() == GOLDEN
    assert Path(interop.write_tfrecord_index(str(path))).read_text() == "0 34\n34 52\n"


FEATURES = st.one_of(
    st.lists(st.binary(max_size=20), max_size=4),
    st.lists(st.integers(-(2**63), 2**63 - 1), max_size=80).map(lambda v: np.array(v, np.int64)),
    st.lists(st.binary(min_size=4, max_size=4), max_size=4).map(lambda v: np.frombuffer(b"".join(v), "<f4")),
)
EXAMPLES = st.dictionaries(st.text(min_size=1, max_size=8), FEATURES, max_size=4)
STEPS = st.dictionaries(
    st.text(min_size=1, max_size=8),
    st.lists(st.lists(st.binary(max_size=5), max_size=3), max_size=3).map(Steps),
    max_size=2,
)


@given(EXAMPLES)
def test_examples_come_back_bit_for_bit(record):
    assert same(interop.parse_example(interop.write_example(record)), record)


@given(EXAMPLES, STEPS)
def test_sequence_examples_come_back(context, lists):
    record = {**context, **lists}
    assert same(interop.parse_example(interop.write_example(record)), record)


@given(st.binary(max_size=60))
def test_any_bytes_are_parsed_or_refused(data):
    try:
        interop.parse_example(data)
    except wds.FormatError:
        pass


@settings(max_examples=30)
@given(st.lists(EXAMPLES.filter(bool), min_size=1, max_size=5))
@example([{"0": [b"\x93NUMPY"]}])  # begins like an array, and is none
def test_tfrecord_to_tar_and_back_loses_nothing(records):
    """Bytes, int64, float32 bit for bit, unicode, empty lists, missing features."""
    first, shard, back = "memory://rt/a.tfrecord", "memory://rt/a.tar", "memory://rt/b.tfrecord"
    kinds = {}
    for record in records:  # a feature has one kind in a dataset
        for name, value in list(record.items()):
            if kinds.setdefault(name, type(value)) is not type(value) or (
                isinstance(value, np.ndarray) and kinds.setdefault(name + "\0", value.dtype) != value.dtype
            ):
                del record[name]
    records = [record for record in records if record]
    interop.write(records, first)
    done = interop.convert(first, shard, REPLACE)
    interop.convert(shard, back, REPLACE, mapping=done.mapping.inverted())
    again = records_of(back, None)
    assert all(map(same, again, records)), (records, again, str(done.mapping))


def test_sequence_examples_to_tar_and_back():
    records = [
        {
            "n": np.array([k]),
            "words": Steps([[b"a"], [b"b", b""]]),
            "xs": Steps([np.array([1.5, 2], np.float32), np.array([k], np.float32)]),
        }
        for k in range(3)
    ]
    interop.write(records, "memory://seq/a.tfrecord")
    done = interop.convert("memory://seq/a.tfrecord", "memory://seq/a.tar")
    interop.convert("memory://seq/a.tar", "memory://seq/b.tfrecord", mapping=done.mapping.inverted())
    again = records_of("memory://seq/b.tfrecord", None)
    assert all(map(same, again, records))


def test_unpacked_numbers_unknown_fields_and_features_without_a_kind_are_read():
    unpacked_ints = b"\x1a\x04\x08\x05\x08\x06"  # int64_list { value: 5, value: 6 }, one tag each
    unpacked_floats = b"\x12\x05\x0d\x00\x00\x80\x3f"
    entry = lambda name, feature: _field(1, _field(1, name) + _field(2, feature))  # noqa: E731
    features = entry(b"i", unpacked_ints) + entry(b"f", unpacked_floats) + entry(b"none", b"")
    message = _field(1, features) + _field(9, b"unknown") + b"\x78\x05"
    record = interop.parse_example(message)
    assert same(record, {"i": np.array([5, 6]), "f": np.array([1], np.float32)})


def _field(number, content):
    return bytes([number << 3 | 2, len(content)]) + content


def test_an_unknown_feature_kind_is_an_error_with_file_record_and_byte(tmp_path):
    message = _field(1, _field(1, _field(1, b"x") + _field(2, _field(4, b"??"))))
    path = write_frames(tmp_path / "a.tfrecord", [interop.write_example({"x": [b"a"]}), message])
    with pytest.raises(wds.FormatError, match=r"record 1: the feature kind 4 is not known – .*a\.tfrecord, byte \d+"):
        list(records_of(path, None))


def write_frames(path, payloads):
    from google_crc32c import value

    from webdataset.interop._tfrecord_frames import masked

    with open(path, "wb") as stream:
        for payload in payloads:
            length = struct.pack("<Q", len(payload))
            stream.write(length + struct.pack("<I", masked(value(length))))
            stream.write(payload + struct.pack("<I", masked(value(payload))))
    return path


@pytest.mark.parametrize("byte", range(len(GOLDEN)))
def test_every_flipped_byte_is_found(tmp_path, byte):
    path = tmp_path / "bad.tfrecord"
    path.write_bytes(GOLDEN[:byte] + bytes([GOLDEN[byte] ^ 0x10]) + GOLDEN[byte + 1 :])
    with pytest.raises(wds.FormatError) as caught, TFRecord().open(Part(str(path))) as file:
        list(file)
    assert str(path) in str(caught.value)
    assert caught.value.where.offset == (0 if byte < 34 else 34)
    assert f"record {int(byte >= 34)}" in str(caught.value)


@pytest.mark.parametrize("size", [n for n in range(1, len(GOLDEN)) if n != 34])
def test_every_cut_is_found(tmp_path, size):
    path = tmp_path / "cut.tfrecord"
    path.write_bytes(GOLDEN[:size])
    with TFRecord().open(Part(str(path))) as file:
        with pytest.raises(wds.TruncatedShard, match=f"record {int(size > 34)}: the file ends inside"):
            list(file)
        with pytest.raises(wds.TruncatedShard, match=f"record {int(size > 34)}: the file ends inside"):
            len(file)


def test_nothing_half_written_stays(tmp_path, golden):
    golden.write_bytes(GOLDEN[:-1])
    with pytest.raises(wds.TruncatedShard):
        interop.convert(str(golden), str(tmp_path / "out.tar"), mapping="label:cls,img:bin")
    assert os.listdir(tmp_path) == ["golden.tfrecord"]


def test_checks_of_payloads_can_be_left_out(golden):
    golden.write_bytes(GOLDEN[:20] + b"X" + GOLDEN[21:])
    with TFRecord(check=False).open(Part(str(golden))) as file:
        assert len(list(file)) == 2


@pytest.mark.parametrize(
    "pack", [gzip.compress, zlib.compress, lambda d: gzip.compress(d[:34]) + gzip.compress(d[34:])]
)
def test_compressed_files_are_read(tmp_path, pack):
    path = tmp_path / "a.tfrecord"
    path.write_bytes(pack(GOLDEN))
    assert all(map(same, records_of(path, None), RECORDS))
    path.write_bytes(pack(GOLDEN)[:-9])
    with pytest.raises(wds.FormatError):
        records_of(path, None)


@pytest.mark.parametrize("compression", ["gzip", "zlib"])
def test_compressed_files_are_written(tmp_path, compression):
    path = tmp_path / "a.tfrecord"
    interop.write(RECORDS, str(path), TFRecord(compression=compression))
    unpack = gzip.decompress if compression == "gzip" else zlib.decompress
    assert unpack(path.read_bytes()) == GOLDEN


def test_a_stale_index_is_an_error(golden):
    interop.write_tfrecord_index(str(golden))
    with TFRecord().open(Part(str(golden))) as file:
        assert len(file) == 2
    golden.write_bytes(GOLDEN + GOLDEN)
    with TFRecord().open(Part(str(golden))) as file, pytest.raises(wds.StaleIndex, match="ends at byte 86"):
        len(file)


def test_len_and_random_access_over_http(golden):
    with FaultServer() as server:
        with TFRecord().open(Part(server.add("golden.tfrecord", GOLDEN))) as file:
            assert len(file) == 2
            assert same(file[1], RECORDS[1])


def test_the_tfrecord_package_reads_what_we_write_and_we_read_what_it_writes(tmp_path):
    try:
        import tfrecord  # noqa: F401
    except (ImportError, TypeError) as error:  # it does not work with newer versions of protobuf
        pytest.skip(f"tfrecord: {error}")
    from tfrecord.reader import tfrecord_loader
    from tfrecord.tools.tfrecord2idx import create_index
    from tfrecord.writer import TFRecordWriter

    theirs, ours = str(tmp_path / "theirs.tfrecord"), str(tmp_path / "ours.tfrecord")
    writer = TFRecordWriter(theirs)
    for number in range(5):
        writer.write(
            {
                "image": (b"\xff\xd8" + bytes(number), "byte"),
                "label": ([number, -number], "int"),
                "x": ([0.5, number], "float"),
            }
        )
    writer.close()
    records = records_of(theirs, None)
    assert [record["label"].tolist() for record in records] == [[n, -n] for n in range(5)]
    assert [record["image"] for record in records] == [[b"\xff\xd8" + bytes(n)] for n in range(5)]
    interop.write(records, ours)
    assert same(records_of(ours, None), records)
    read = list(tfrecord_loader(ours, None, {"image": "byte", "label": "int", "x": "float"}))
    assert [row["label"].tolist() for row in read] == [[n, -n] for n in range(5)]
    assert [bytes(row["image"]) for row in read] == [b"\xff\xd8" + bytes(n) for n in range(5)]
    create_index(ours, str(tmp_path / "their.idx"))
    assert (tmp_path / "their.idx").read_text() == Path(interop.write_tfrecord_index(ours)).read_text()


def test_a_pipeline_reads_tfrecords_and_resumes(tmp_path):
    for shard in range(3):
        rows = [{"image/encoded": b"\xff\xd8\xff%d" % n, "image/class/label": 10 * shard + n} for n in range(4)]
        interop.write(rows, str(tmp_path / f"a-{shard}.tfrecord"))
    make = lambda: interop.read(str(tmp_path / "a-{0..2}.tfrecord")).to_tuple("cls", "__key__")  # noqa: E731
    dataset = make()
    assert str(dataset.mapping) == "image/class/label:cls,image/encoded:jpg"
    assert len(dataset) == 12
    whole = list(dataset)
    assert [n for n, _ in whole] == [10 * shard + n for shard in range(3) for n in range(4)]
    assert len({key for _, key in whole}) == 12
    assert dataset[7]["cls"] == 13
    for stop in range(12):
        dataset, again = make(), make()
        items = iter(dataset)
        head = [next(items) for _ in range(stop)]
        again.load_state_dict(json.loads(json.dumps(dataset.state_dict())))
        assert head + list(again) == whole


@pytest.mark.parametrize(("ranks", "workers"), [(1, 2), (2, 1), (2, 3), (4, 2)])
def test_ranks_and_workers_read_every_record_once(tmp_path, ranks, workers):
    from webdataset.world import World, pretend

    for shard in range(3):
        interop.write([{"n": 10 * shard + n} for n in range(5)], str(tmp_path / f"a-{shard}.tfrecord"))
    seen = []
    for rank in range(ranks):
        for worker in range(workers):
            with pretend(World(rank, ranks, worker, workers)):
                dataset = interop.read(str(tmp_path / "a-{0..2}.tfrecord"), mapping="n:cls")
                seen += [sample["cls"] for sample in dataset]
    assert sorted(seen) == [10 * shard + n for shard in range(3) for n in range(5)]


def test_a_shuffle_after_records_resumes(tmp_path):
    interop.write([{"n": n} for n in range(20)], str(tmp_path / "a.tfrecord"))
    make = lambda: interop.read(str(tmp_path / "a.tfrecord"), mapping="n:cls").shuffle(8).to_tuple("cls")  # noqa: E731
    whole = list(make())
    dataset, again = make(), make()
    items = iter(dataset)
    head = [next(items) for _ in range(7)]
    again.load_state_dict(dataset.state_dict())
    assert head + list(again) == whole


def test_a_list_where_one_value_is_expected_is_an_error(tmp_path):
    path = str(tmp_path / "a.tfrecord")
    interop.write([{"n": 1}, {"n": [1, 2]}], path)
    with pytest.raises(wds.FormatError, match=r"record 1: expected one value, got 2 – field n, .*n\[\]"):
        interop.convert(path, str(tmp_path / "a.tar"), mapping="n:cls")
    assert os.listdir(tmp_path) == ["a.tfrecord"]


@pytest.mark.long
def test_tensorflow_reads_what_we_write_and_we_read_what_it_writes(tmp_path):
    python = os.environ.get("WDS_TENSORFLOW_PYTHON", sys.executable)
    if subprocess.run([python, "-c", "import tensorflow"], capture_output=True).returncode:
        pytest.skip("TensorFlow is not installed (WDS_TENSORFLOW_PYTHON names a Python that has it)")
    program = """
import sys, json, tensorflow as tf
F, E = tf.train.Feature, tf.train.Example
with tf.io.TFRecordWriter(sys.argv[1] + "/theirs.tfrecord", tf.io.TFRecordOptions(compression_type=sys.argv[2])) as w:
    for n in range(5):
        w.write(E(features=tf.train.Features(feature={
            "i": F(int64_list=tf.train.Int64List(value=[n, -n, 2**63 - 1])),
            "f": F(float_list=tf.train.FloatList(value=[0.1, n])),
            "b": F(bytes_list=tf.train.BytesList(value=[b"x" * n, b"\\0"])),
            "empty": F(int64_list=tf.train.Int64List()),
        })).SerializeToString())
    s = tf.train.SequenceExample()
    s.context.feature["n"].int64_list.value.append(3)
    l = s.feature_lists.feature_list["xs"]
    l.feature.add().float_list.value.extend([1.0, 2.0]); l.feature.add().float_list.value.append(3.0)
    w.write(s.SerializeToString())
rows = []
for raw in tf.data.TFRecordDataset(sys.argv[1] + "/ours.tfrecord"):
    e = E.FromString(raw.numpy())
    rows.append({k: [x.decode("latin-1") if isinstance(x, bytes) else x for x in getattr(v, v.WhichOneof("kind")).value] for k, v in e.features.feature.items()})
print(json.dumps(rows))
"""
    interop.write([{"i": [1, -2], "f": [0.5], "b": [b"ab", b""]}], str(tmp_path / "ours.tfrecord"))
    for compression in ("", "GZIP", "ZLIB"):
        out = subprocess.run(
            [python, "-c", program, str(tmp_path), compression], capture_output=True, text=True, check=True
        )
        assert json.loads(out.stdout) == [{"i": [1, -2], "f": [0.5], "b": ["ab", ""]}]
        records = records_of(tmp_path / "theirs.tfrecord", None)
        assert [record["i"].tolist() for record in records[:5]] == [[n, -n, 2**63 - 1] for n in range(5)]
        assert [record["f"].tolist() for record in records[:5]] == [[np.float32(0.1), n] for n in range(5)]
        assert [record["b"] for record in records[:5]] == [[b"x" * n, b"\0"] for n in range(5)]
        assert records[0]["empty"].shape == (0,)
        assert [step.tolist() for step in records[5]["xs"]] == [[1, 2], [3]]


@pytest.mark.parametrize("target", ["memory://rt/names.tar", "memory://rt/names.parquet"])
def test_features_with_names_of_samples_are_kept(target):
    """Names that begin with `__` mean something in samples; in other formats they are names like any other."""
    record = {"__other__": np.array([1]), "__url__": [b"https://host/a.jpg"], "_": [b"x"], "n": np.array([2])}
    with TFRecord().create("memory://rt/names.tfrecord") as sink:
        sink.write(record)
    done = interop.convert("memory://rt/names.tfrecord", target)
    interop.convert(target, "memory://rt/back.tfrecord", REPLACE, mapping=done.mapping.inverted())
    (back,) = records_of("memory://rt/back.tfrecord", None)
    assert same(back, record)
