"""Files of other formats whose author wants memory, other files of the machine, or a crash: a typed error instead."""

import gzip
import io
import json
import os
import struct
import subprocess
import sys
import tracemalloc
import zipfile
from contextlib import suppress
from itertools import islice
from pathlib import Path

import numpy as np
import pytest

from webdataset.errors import FormatError, UnsafeContent, WebDatasetError
from webdataset.interop import read
from webdataset.interop._litdata import _json
from webdataset.interop._tfrecord_frames import crc32c_function, masked
from webdataset.tools import create

LIMIT = 1 << 20
LARGE = bytes(4 * LIMIT)


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("WDS_DECOMPRESS_LIMIT", str(LIMIT))
    return tmp_path


def zipped(members):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return out.getvalue()


def npy(shape, kind="<f8"):
    """An array that claims a shape and has 64 bytes."""
    header = f"{{'descr': {kind!r}, 'fortran_order': False, 'shape': {shape}, }}".encode()
    header += b" " * (-(len(header) + 11) % 64) + b"\n"
    return b"\x93NUMPY\x01\0" + struct.pack("<H", len(header)) + header + bytes(64)


def frame(length, payload=b""):
    """A record of a TFRecord file whose length has the right checksum, whatever follows."""
    crc, head = crc32c_function(), struct.pack("<Q", length)
    return head + struct.pack("<I", masked(crc(head))) + payload + struct.pack("<I", masked(crc(payload)))


def arrays(**named):
    out = io.BytesIO()
    np.savez_compressed(out, **named)
    return out.getvalue()


def mds(packed):
    """The index of a dataset with one compressed shard."""
    data = {"basename": "shard.mds", "bytes": 0, "hashes": {}}
    shard = {
        "format": "mds", "compression": "gz", "hashes": [], "samples": 1, "size_limit": None, "version": 2,
        "column_names": ["a"], "column_encodings": ["bytes"], "column_sizes": [None], "raw_data": data,
        "zip_data": {"basename": "shard.mds.gz", "bytes": len(packed), "hashes": {}},
    }  # fmt: skip
    return json.dumps({"version": 2, "shards": [shard]}).encode()


LENGTHS = [2**64 - 1, 2**63 - 1, 2**62, 2**40, 2**33, LIMIT + 1]
HOSTILE = {
    "zip, large member": ("a.zip", lambda: zipped({"a.txt": LARGE})),
    "npz, large row": ("a.npz", lambda: arrays(a=np.zeros((2, LIMIT)))),
    "npz, objects": ("a.npz", lambda: zipped({"a.npy": npy("(2,)", "|O")})),
    **{f"npy {shape}": ("a.npz", lambda shape=shape: zipped({"a.npy": npy(shape)}))
       for shape in ("(1, 2**60)", "(1, 1152921504606846976)", "(4611686018427387904, 4)", "(2, (3,))", "[2]", "()", "(2, -1)")},
    **{f"tfrecord {length:x}": ("a.tfrecord", lambda length=length: frame(length, b"x")) for length in LENGTHS},
    **{f"tfrecord, compressed {length:x}": ("a.tfrecord", lambda length=length: gzip.compress(frame(length, b"x")))
       for length in LENGTHS},
    "tfrecord, compressed": ("a.tfrecord", lambda: gzip.compress(frame(len(LARGE), LARGE))),
    "tfrecord of zeros": ("a.tfrecord", lambda: frame(1000, bytes(1000))),
}  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_file_is_an_error(name, here):
    pytest.importorskip("google_crc32c", reason="TFRecord needs it")
    path, make = HOSTILE[name]
    (here / path).write_bytes(make())
    with pytest.raises(WebDatasetError) as caught:
        list(read(path, mapping=False))
    assert path in str(caught.value)


@pytest.mark.parametrize("good", [True, False])
def test_a_compressed_shard_of_mds_stops_at_the_limit(good, here):
    """Unpacked to a temporary file, which would fill the disk."""
    zstd = pytest.importorskip("backports.zstd", reason="zstd is not installed")
    packed = zstd.compress(bytes((LIMIT // 2) if good else 1 << 28))
    (here / "shard.mds.gz").write_bytes(packed)
    (here / "index.json").write_bytes(mds(packed).replace(b'"gz"', b'"zstd"'))
    with pytest.raises(FormatError, match="damaged|ends|bytes" if good else "raise WDS_DECOMPRESS_LIMIT"):
        list(read(str(here), "mds", mapping=False))


def test_hdf5_does_not_read_other_files(here):
    """A dataset may be stored in a file of any name; it would be read with the permissions of the reader."""
    h5py = pytest.importorskip("h5py")
    secret = here / "secret"
    secret.write_bytes(b"password")
    with h5py.File("external.h5", "w") as file:
        file.create_dataset("leak", (8,), "u1", external=[(str(secret), 0, 8)])
    with h5py.File("other.h5", "w") as file:
        file["x"] = np.arange(5)
    with h5py.File("virtual.h5", "w") as file:
        layout = h5py.VirtualLayout((5,), "i8")
        layout[:] = h5py.VirtualSource(str(here / "other.h5"), "x", (5,))
        file.create_virtual_dataset("leak", layout)
    with h5py.File("linked.h5", "w") as file:
        file["good"] = np.arange(5)
        file["leak"] = h5py.ExternalLink(str(here / "other.h5"), "x")
    for path in ("external.h5", "virtual.h5"):
        with pytest.raises(UnsafeContent, match="stored in another file"):
            list(read(path, mapping=False))
    assert {name for row in read("linked.h5", mapping=False) for name in row if name[0] != "_"} == {"good"}


def test_hdf5_rows_stop_at_the_limit(here):
    h5py = pytest.importorskip("h5py")
    with h5py.File("sparse.h5", "w") as file:  # a few kilobytes
        file.create_dataset("z", (2, LIMIT), "f8", chunks=(1, LIMIT), compression="gzip")
    with pytest.raises(FormatError, match="raise WDS_DECOMPRESS_LIMIT"):
        list(read("sparse.h5", mapping=False))


def test_hdf5_texts_that_all_rows_share_stop_at_the_limit(here):
    """The text is stored once."""
    h5py = pytest.importorskip("h5py")
    with h5py.File("texts.h5", "w") as file:
        file.create_dataset("t", (1000,), h5py.string_dtype(), fillvalue="x" * (LIMIT // 4))
    tracemalloc.start()
    try:
        assert [len(row["t"]) for row in islice(read("texts.h5", mapping=False), 20)] == [LIMIT // 4] * 20
        assert tracemalloc.get_traced_memory()[1] < 8 * LIMIT
    finally:
        tracemalloc.stop()


def test_hdf5_chunks_stop_at_the_limit(here):
    """A chunk is unpacked as a whole, however small the row that is read."""
    h5py = pytest.importorskip("h5py")
    with h5py.File("chunks.h5", "w") as file:
        file.create_dataset("z", (LIMIT, 2), "f8", chunks=(LIMIT, 2), compression="gzip")
    with pytest.raises(FormatError, match="raise WDS_DECOMPRESS_LIMIT"):
        list(read("chunks.h5", mapping=False))


def test_lists_of_litdata_without_keys_are_no_more_than_their_bytes():
    with pytest.raises(FormatError, match="1,000,000 rows are more than"):
        _json(struct.pack("<BII", 6, 10**6, 0))


def test_an_idx_file_whose_items_have_no_bytes(here):
    (here / "images-idx3-ubyte").write_bytes(struct.pack(">HBB3I", 0, 8, 3, 2**32 - 1, 0, 28))
    with pytest.raises(FormatError, match=r"items of shape \[0, 28\] have no bytes"):
        list(read("images-idx3-ubyte", "mnist", mapping=False))


def test_offsets_of_an_arrow_file_are_checked_before_they_are_followed(here):
    """pyarrow would read text from anywhere in memory."""
    pa = pytest.importorskip("pyarrow")
    out = io.BytesIO()
    table = pa.table({"txt": ["ab", "cd", "ef"]})
    with pa.ipc.new_file(out, table.schema) as sink:
        sink.write_table(table)
    offsets = struct.pack("<4i", 0, 2, 4, 6)
    assert offsets in out.getvalue()
    (here / "a.arrow").write_bytes(out.getvalue().replace(offsets, struct.pack("<4i", 0, 2, 2**31 - 1, 6)))
    with pytest.raises(FormatError, match="a.arrow"):
        list(read("a.arrow", mapping=False))


def test_a_parquet_file_that_has_other_rows_than_it_says(here):
    pq = pytest.importorskip("pyarrow.parquet")
    pa = pytest.importorskip("pyarrow")
    out = io.BytesIO()
    pq.write_table(pa.table({"x": [1, 2, 3]}), out)
    rows = b"\x16\x06"  # three, of the file and of its row group
    footer = out.getvalue().rindex(b"x\x15")
    changed = out.getvalue()[:footer] + out.getvalue()[footer:].replace(rows, b"\x16\x08")
    (here / "a.parquet").write_bytes(changed)
    with pytest.raises(FormatError, match="expected 4 rows, got 3 – a.parquet"):
        list(read("a.parquet", mapping=False))


@pytest.mark.parametrize("compression", ["snappy", "gzip", "zstd", "brotli", "lz4"])
@pytest.mark.parametrize("reader", ["read", "create"])
def test_parquet_rows_stop_at_the_limit(here, compression, reader):
    """Nothing of the column is read: the file says how large it is."""
    pq = pytest.importorskip("pyarrow.parquet")
    pa = pytest.importorskip("pyarrow")
    few = pa.table({"txt": [bytes(16 * LIMIT)]})
    pq.write_table(few, "bomb.parquet", compression=compression, use_dictionary=False)
    before = pa.total_allocated_bytes()
    with pytest.raises(FormatError, match=r"bomb.parquet – raise WDS_DECOMPRESS_LIMIT"):
        if reader == "read":
            list(read("bomb.parquet", mapping=False))
        else:
            create(["bomb.parquet"], "out.tar")
    assert pa.total_allocated_bytes() - before < LIMIT


def read_damaged_parquet():
    """In the child: each byte of the metadata is another one in turn."""
    pq, pa = pytest.importorskip("pyarrow.parquet"), pytest.importorskip("pyarrow")
    table = pa.table({"x": [1, 2], "y": [["a"], None], "z": [{"a": 1}, None]})
    pq.write_table(table, "good.parquet")
    data = Path("good.parquet").read_bytes()
    for at in range(len(data) - 8 - int.from_bytes(data[-8:-4], "little"), len(data)):
        Path("bad.parquet").write_bytes(data[:at] + bytes([(data[at] + 1) % 256]) + data[at + 1 :])
        print(at, flush=True)
        with suppress(WebDatasetError):
            list(read("bad.parquet", mapping=False))


def test_no_metadata_of_parquet_end_the_process(here):
    """pyarrow does, where it returns the metadata of a column: one byte in twenty was enough."""
    pytest.importorskip("pyarrow.parquet")
    root = Path(__file__).parents[2]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(root / "src"), str(root)])}
    code = "from tests.interop.test_hostile_formats import read_damaged_parquet as f; f()"
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-10:] + done.stderr[-500:]


def test_many_small_rows_of_parquet_stop_at_the_limit_too(here):
    """Out of a few kilobytes, no row of them too large."""
    pq = pytest.importorskip("pyarrow.parquet")
    pa = pytest.importorskip("pyarrow")
    rows = pa.table({"x": [bytes(LIMIT // 32)] * 512})
    pq.write_table(rows, "bomb.parquet", compression="zstd", use_dictionary=False)
    with pytest.raises(FormatError, match=r"of the column 'x' decompress to .*WDS_DECOMPRESS_LIMIT"):
        next(iter(read("bomb.parquet", mapping=False)))


def test_a_value_that_parquet_stores_once(here):
    """The file says truly that it is small; a thousand rows of it are not."""
    pq = pytest.importorskip("pyarrow.parquet")
    pa = pytest.importorskip("pyarrow")
    pq.write_table(pa.table({"x": [bytes(LIMIT // 16)] * 1000}), "bomb.parquet", compression="zstd")
    with pytest.raises(FormatError, match=r"bytes of a row group decompress to .*WDS_DECOMPRESS_LIMIT"):
        list(read("bomb.parquet", mapping=False))


def test_a_large_parquet_file_is_no_bomb(here):
    """More than the limit in one row group, but not out of nothing."""
    pq = pytest.importorskip("pyarrow.parquet")
    pa = pytest.importorskip("pyarrow")
    rows = [np.random.default_rng(number).bytes(LIMIT // 4) for number in range(8)]
    pq.write_table(pa.table({"x": rows}), "large.parquet", compression="zstd")
    assert [row["x"] for row in read("large.parquet", mapping=False)] == rows
