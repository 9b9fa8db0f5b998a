"""Converting: field mappings, keys, series of files, executors, resuming, memory."""

import os
import subprocess
import sys
import textwrap
from pathlib import Path
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor

import numpy as np
import pytest

import webdataset as wds
from tests.interop.conftest import jpeg, records_of, same, tar_samples
from webdataset import interop
from webdataset.interop import FieldMapping, Tar


@pytest.fixture
def tfrecords(tmp_path):
    pytest.importorskip("google_crc32c")
    for shard in range(3):
        rows = [{"image": jpeg(n), "name": f"{shard}/{n}.png", "label": n} for n in range(4)]
        interop.write(rows, str(tmp_path / f"in-{shard}.tfrecord"))
    return str(tmp_path / "in-{0..2}.tfrecord")


def outputs(tmp_path):
    return sorted(name for name in os.listdir(tmp_path) if not name.startswith("in-"))


def test_each_input_file_becomes_an_output_file(tfrecords, tmp_path):
    done = interop.convert(tfrecords, str(tmp_path / "out-%02d.tar"), key="name")
    assert done.files == tuple(str(tmp_path / f"out-0{n}.tar") for n in range(3))
    assert done.samples == 12
    assert str(done.mapping) == "image:jpg,label:cls,name:name.txt,name:__key__"
    assert [sample["__key__"] for sample in tar_samples(done.files[1])] == ["1/0", "1/1", "1/2", "1/3"]


@pytest.mark.parametrize("executor", [ThreadPoolExecutor, ProcessPoolExecutor])
def test_the_result_does_not_depend_on_the_executor(tfrecords, tmp_path, executor):
    import multiprocessing

    options = {"mp_context": multiprocessing.get_context("spawn")} if executor is ProcessPoolExecutor else {}
    interop.convert(tfrecords, str(tmp_path / "a-%d.tar"))
    seen = []
    with executor(2, **options) as pool:
        done = interop.convert(tfrecords, str(tmp_path / "b-%d.tar"), executor=pool, progress=seen.append)
    assert sum(written.samples for written in seen) == done.samples == 12
    for number in range(3):
        assert (tmp_path / f"a-{number}.tar").read_bytes() == (tmp_path / f"b-{number}.tar").read_bytes()


def test_an_error_in_one_file_stops_the_others_and_leaves_no_half_file(tfrecords, tmp_path):
    path = tmp_path / "in-1.tfrecord"
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(wds.TruncatedShard, match="record 3: .*in-1.tfrecord"):
        interop.convert(tfrecords, str(tmp_path / "out-%d.tar"))
    assert outputs(tmp_path) == ["out-0.tar"]
    with ThreadPoolExecutor(2) as pool, pytest.raises(wds.TruncatedShard):
        interop.convert(tfrecords, str(tmp_path / "out-%d.tar"), executor=pool)
    assert "out-1.tar" not in outputs(tmp_path)


def test_a_conversion_is_resumed_file_by_file(tfrecords, tmp_path):
    whole = interop.convert(tfrecords, str(tmp_path / "a-%d.tar"))
    path = tmp_path / "in-1.tfrecord"
    good = path.read_bytes()
    path.write_bytes(good[:-1])
    with pytest.raises(wds.TruncatedShard):
        interop.convert(tfrecords, str(tmp_path / "out-%d.tar"))
    path.write_bytes(good)
    done = interop.convert(tfrecords, str(tmp_path / "out-%d.tar"), existing="skip")
    assert done.skipped == (str(tmp_path / "out-0.tar"),)
    assert done.samples == 8
    for number, name in enumerate(whole.files):
        assert Path(name).read_bytes() == (tmp_path / f"out-{number}.tar").read_bytes()


def test_limits_make_files_of_that_size(tfrecords, tmp_path):
    done = interop.convert(tfrecords, str(tmp_path / "out-%d.tar"), maxcount=5)
    assert [len(tar_samples(file)) for file in done.files] == [5, 5, 2]
    keys = [sample["__key__"] for sample in tar_samples(*done.files)]
    assert len(set(keys)) == 12
    with pytest.raises(wds.SpecError, match="can go on where it was"):
        interop.convert(tfrecords, str(tmp_path / "out-%d.tar"), maxcount=5, existing="skip")


def test_one_target_takes_everything(tfrecords, tmp_path):
    done = interop.convert(tfrecords, str(tmp_path / "all.tar"))
    assert done.files == (str(tmp_path / "all.tar"),)
    assert len(tar_samples(tmp_path / "all.tar")) == 12


@pytest.mark.parametrize("name", ["tfrecord", "parquet", "arrow", "mds", "beton"])
def test_tar_goes_there_and_back(images, tmp_path, name):
    kind = interop.FORMATS[name]
    target = str(tmp_path / f"there.{name}")
    needs_key = "jpg,cls,txt,__key__:key" if name == "beton" else None
    there = interop.convert(images, target, target_format=kind(), mapping=needs_key)
    assert there.samples == 6
    back = "jpg,cls,txt,key:__key__" if name == "beton" else "jpg,cls,txt,__key__"
    interop.convert(target, str(tmp_path / "back.tar"), source_format=kind(), mapping=back)
    assert tar_samples(tmp_path / "back.tar") == tar_samples(images)


@pytest.mark.parametrize("name", ["tfrecord", "parquet", "mds"])
def test_a_guess_for_the_way_back_gives_the_same_fields(images, tmp_path, name):
    target = str(tmp_path / f"there.{name}")
    interop.convert(images, target, target_format=name)
    interop.convert(target, str(tmp_path / "back.tar"), source_format=name)
    assert tar_samples(tmp_path / "back.tar") == tar_samples(images)


@pytest.mark.parametrize(
    "text",
    ["a:jpg,b:cls", "image/encoded:jpg", "ids[]:ids.npy", r"a\,b:x\:y,c:__key__", "same"],
)
def test_a_mapping_is_printed_as_it_is_read(text):
    mapping = FieldMapping.parse(text)
    assert FieldMapping.parse(str(mapping)) == mapping


@pytest.mark.parametrize("text", ["", "a:b:c", ":x", "a:x,b:x"])
def test_a_bad_mapping_is_refused(text):
    with pytest.raises(wds.SpecError):
        FieldMapping.parse(text)


def test_unknown_formats_and_directions_are_refused(tmp_path):
    with pytest.raises(wds.SpecError, match="the format of 'a.xyz' is not known"):
        interop.convert("a.xyz", "b.tar")
    with pytest.raises(wds.SpecError, match="the format 'xyz' is not known"):
        interop.convert("a.tar", "b.tar", source_format="xyz")
    with pytest.raises(wds.SpecError, match="litdata cannot be written"):
        interop.convert("a.tar", str(tmp_path / "b"), target_format="litdata")
    with pytest.raises(wds.ShardNotFound):
        interop.convert(str(tmp_path / "none.tar"), str(tmp_path / "b.tar"))


def test_memory_does_not_grow_with_the_dataset(tmp_path):
    """A parquet file and a TFRecord file of 250 MB each."""
    pytest.importorskip("pyarrow")
    if not os.path.exists("/proc/self/status"):
        pytest.skip("only Linux tells the most memory that a process held")
    program = textwrap.dedent(
        """
        import sys
        import pyarrow.parquet
        from webdataset import interop
        pyarrow.array([b""])  # imports pandas where it is installed
        held = lambda name: [int(line.split()[1]) for line in open("/proc/self/status") if line.startswith(name)][0]
        before = held("VmRSS")
        rows = ({"jpg": bytes(100_000), "cls": n} for n in range(2500))
        interop.write(rows, sys.argv[1] + "/a.parquet")
        interop.convert(sys.argv[1] + "/a.parquet", sys.argv[1] + "/a.tfrecord")
        interop.convert(sys.argv[1] + "/a.tfrecord", sys.argv[1] + "/a-%03d.tar", mapping="jpg,cls")
        print(held("VmHWM") - before)
        """
    )
    out = subprocess.run([sys.executable, "-c", program, str(tmp_path)], capture_output=True, text=True, check=True)
    assert int(out.stdout) < 120_000  # kB; with the interpreter, NumPy and pyarrow below 200 MB


def test_dali_arguments(tmp_path):
    long = "x" * 150
    with wds.TarWriter(str(tmp_path / "a.tar"), format="gnu") as sink:
        sink.write({"__key__": long, "cls": 7, "jpg": jpeg()})
    arguments = wds.dali.reader_args(str(tmp_path / "a.tar"))
    assert arguments == {"paths": [str(tmp_path / "a.tar")], "index_paths": [str(tmp_path / "a.idx")]}
    line = (tmp_path / "a.idx").read_text().splitlines()[1].split()
    data = (tmp_path / "a.tar").read_bytes()
    offset, size = int(line[1]), int(line[2])
    assert data[offset : offset + size] == (b"7" if line[0] == "cls" else jpeg())
    elsewhere = wds.dali.reader_args(str(tmp_path / "a.tar"), index=tmp_path / "indexes")
    assert elsewhere["index_paths"][0].startswith(str(tmp_path / "indexes"))
    for url, hint in (("https://host/a.tar", "DALI cannot read https"), ("s3://bucket/a.tar", "local indexes")):
        with pytest.raises(wds.SpecError, match=hint):
            wds.dali.reader_args(url)


@pytest.mark.long
def test_dali_reads_with_these_arguments(tmp_path):
    python = os.environ.get("WDS_DALI_PYTHON", sys.executable)
    if subprocess.run([python, "-c", "import nvidia.dali"], capture_output=True).returncode:
        pytest.skip("DALI is not installed (WDS_DALI_PYTHON names a Python that has it)")
    for shard in range(2):
        with wds.TarWriter(str(tmp_path / f"a-{shard}.tar")) as sink:
            for n in range(3):
                sink.write({"__key__": "k" * 150 + str(n), "cls": 10 * shard + n, "bin": bytes([n]) * 5})
    arguments = wds.dali.reader_args(str(tmp_path / "a-{0..1}.tar"))
    program = """
import json, sys
from nvidia.dali import fn, pipeline_def
@pipeline_def(batch_size=6, num_threads=1, device_id=None)
def pipe():
    return tuple(fn.readers.webdataset(**json.loads(sys.argv[1]), ext=["cls", "bin"]))
p = pipe(); p.build(); cls, bin = p.run()
print(json.dumps([[bytes(cls.at(n)).decode(), bytes(bin.at(n)).hex()] for n in range(6)]))
"""
    import json

    out = subprocess.run([python, "-c", program, json.dumps(arguments)], capture_output=True, text=True, check=True)
    assert json.loads(out.stdout.splitlines()[-1]) == [
        [str(10 * shard + n), (bytes([n]) * 5).hex()] for shard in range(2) for n in range(3)
    ]
