"""Converting: field mappings, keys, series of files, executors, resuming, memory."""

import os
import shlex
import shutil
import signal
import subprocess
import sys
import textwrap
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import webdataset as wds
from tests.interop import converting
from tests.interop.conftest import jpeg, tar_samples
from tests.tools.datasets import digests, hidden
from webdataset import interop
from webdataset.index import read_description
from webdataset.interop import FieldMapping, Pair
from webdataset.tools import Options

ROOT = Path(__file__).parents[2]


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
    assert done.outputs == tuple(str(tmp_path / f"out-0{n}.tar") for n in range(3))
    assert done.samples_out == 12
    assert str(done.mapping) == "image:jpg,label:cls,name:name.txt,name:__key__"
    assert [sample["__key__"] for sample in tar_samples(done.outputs[1])] == ["1/0", "1/1", "1/2", "1/3"]


def test_any_executor_gives_the_same_bytes_and_a_second_run_skips(tfrecords, tmp_path):
    interop.convert(tfrecords, f"{tmp_path}/a/%d.tar", Options(description=f"{tmp_path}/a/all.json"))
    expected = digests(tmp_path / "a")
    assert len(expected) == 7  # three shards, their indexes, the description
    with ThreadPoolExecutor(2) as threads:
        for name, options in {"b": {"workers": 2}, "c": {"engine": threads}}.items():
            seen = []
            options |= {"description": f"{tmp_path}/{name}/all.json", "advance": seen.append}
            done = interop.convert(tfrecords, f"{tmp_path}/{name}/%d.tar", Options(**options))
            assert (done.done, done.samples_out, sum(seen)) == (3, 12, 3)
            assert digests(tmp_path / name) == expected
    done = interop.convert(tfrecords, f"{tmp_path}/b/%d.tar")
    assert (done.done, done.skipped, len(done.outputs)) == (0, 3, 3)


def cut_one_byte(path):
    good = path.read_bytes()
    path.write_bytes(good[:-1])
    return good


def test_an_error_in_one_file_stops_and_the_same_call_goes_on(tfrecords, tmp_path):
    whole = interop.convert(tfrecords, f"{tmp_path}/a/%d.tar")
    damaged = tmp_path / "in-1.tfrecord"
    good = cut_one_byte(damaged)
    for workers in (1, 2):
        with pytest.raises(wds.TruncatedShard, match=r"record 3: .*in-1.tfrecord"):
            interop.convert(tfrecords, f"{tmp_path}/out/%d.tar", Options(workers=workers))
        assert not (tmp_path / "out/1.tar").exists()
        assert hidden(tmp_path / "out") == []
    damaged.write_bytes(good)
    done = interop.convert(tfrecords, f"{tmp_path}/out/%d.tar")
    assert done.done + done.skipped == 3
    assert digests(tmp_path / "out") == digests(tmp_path / "a")
    assert [Path(name).name for name in done.outputs] == [Path(name).name for name in whole.outputs]


@pytest.mark.parametrize("errors", ["skip", "quarantine"])
def test_a_file_that_cannot_be_read_is_left_out_and_named(tfrecords, tmp_path, errors):
    damaged = tmp_path / "in-1.tfrecord"
    good = cut_one_byte(damaged)
    target, options = f"{tmp_path}/out/%d.tar", Options(errors=errors)
    done = interop.convert(tfrecords, target, options)
    assert [failure.item for failure in done.failed] == [str(damaged)]
    assert (done.done, done.samples_out) == (2, 8)
    damaged.write_bytes(good)
    again = interop.convert(tfrecords, target, options)
    assert again.done == (1 if errors == "skip" else 0)
    assert interop.convert(tfrecords, target, Options(retry=True)).complete
    cut_one_byte(damaged)
    one = interop.convert(tfrecords, f"{tmp_path}/one.tar", options)
    assert [failure.item for failure in one.failed] == [str(damaged)]
    assert one.samples_out == 4 + 3 + 4  # what comes before the damage is kept


def test_another_mapping_is_another_job(tfrecords, tmp_path):
    interop.convert(tfrecords, f"{tmp_path}/out/%d.tar")
    with pytest.raises(wds.SpecError, match="another job"):
        interop.convert(tfrecords, f"{tmp_path}/out/%d.tar", mapping="name:txt")
    interop.convert(tfrecords, f"{tmp_path}/out/%d.tar", Options(force=True), mapping="name:txt")
    assert sorted(tar_samples(tmp_path / "out/0.tar")[0]) == ["__key__", "txt"]


def test_a_changed_input_or_a_lost_output_is_converted_again(tfrecords, tmp_path):
    interop.convert(tfrecords, f"{tmp_path}/out/%d.tar")
    (tmp_path / "out/2.tar").unlink()
    interop.write([{"image": jpeg(9), "name": "new.png", "label": 9}], str(tmp_path / "in-0.tfrecord"))
    done = interop.convert(tfrecords, f"{tmp_path}/out/%d.tar")
    assert (done.done, done.skipped) == (2, 1)
    assert [sample["cls"] for sample in tar_samples(tmp_path / "out/0.tar")] == [b"9"]


def test_a_file_without_records_gives_no_output_and_is_finished(tfrecords, tmp_path):
    (tmp_path / "in-1.tfrecord").write_bytes(b"")
    for done in (3, 0):
        report = interop.convert(tfrecords, f"{tmp_path}/out/%d.tar", Options(description=f"{tmp_path}/out/all.json"))
        assert (report.done, report.skipped) == (done, 3 - done)
        assert [Path(name).name for name in report.outputs] == ["0.tar", "2.tar"]
    assert read_description(f"{tmp_path}/out/all.json").counts == [4, 4]


def test_what_exists_is_refused(tfrecords, tmp_path):
    for target in ("out-%d.tar", "all.tar"):
        precious = tmp_path / target.replace("%d", "2" if "%" in target else "")
        precious.write_bytes(b"precious")
        with pytest.raises(wds.SpecError, match="exists"):
            interop.convert(tfrecords, str(tmp_path / target))
        assert precious.read_bytes() == b"precious"
        assert interop.convert(tfrecords, str(tmp_path / target), Options(force=True)).samples_out == 12


def test_arguments(tfrecords, tmp_path):
    for options, match in (
        (Options(workers=2, count=5), "parallel"),
        (Options(shards=3), "number of output files"),
        (Options(errors="ignore"), "errors"),
    ):
        with pytest.raises(wds.SpecError, match=match):
            interop.convert(tfrecords, str(tmp_path / "out-%d.tar"), options)
    with pytest.raises(wds.SpecError, match="tar shards"):
        interop.convert(tfrecords, str(tmp_path / "out-%d.parquet"), Options(description="all.json"))
    with pytest.raises(wds.SpecError, match="twice"):
        interop.convert([str(tmp_path / "in-0.tfrecord")] * 2, str(tmp_path / "out-%d.tar"))
    assert outputs(tmp_path) == []


def run(folder, workers=1, engine="local", kill=0):
    words = [str(folder), str(workers), engine, str(kill)]
    command = [sys.executable, "-m", "tests.interop.converting", *words]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300, start_new_session=True)


def check_killed_at(tmp_path, points, workers=1):
    """Kill the driver at each of these changes of a file; whether one was after the last."""
    converting.run(tmp_path)
    expected = digests(tmp_path / "out")
    shutil.rmtree(tmp_path / "out")
    for point in points:
        killed = run(tmp_path, workers, kill=point).returncode == -signal.SIGKILL
        assert expected.items() >= digests(tmp_path / "out").items(), "something half-written"
        converting.run(tmp_path)
        assert digests(tmp_path / "out") == expected
        assert hidden(tmp_path / "out") == []
        shutil.rmtree(tmp_path / "out")
        if not killed:
            return True
    return False


def test_the_driver_is_killed_and_the_same_call_goes_on(tfrecords, tmp_path):
    check_killed_at(tmp_path, [9, 25])


@pytest.mark.long
@pytest.mark.parametrize("workers", [1, 2])
def test_the_driver_is_killed_at_every_change_of_a_file(tfrecords, tmp_path, workers):
    assert check_killed_at(tmp_path, range(1, 500), workers)


@pytest.mark.long
@pytest.mark.parametrize("engine", ["dask", "ray"])
def test_engines_give_the_same_bytes(tfrecords, tmp_path, engine):
    pytest.importorskip({"dask": "distributed", "ray": "ray"}[engine], reason=f"{engine} is not installed")
    converting.run(tmp_path)
    expected = digests(tmp_path / "out")
    shutil.rmtree(tmp_path / "out")
    finished = run(tmp_path, workers=2, engine=engine)
    assert finished.returncode == 0, finished.stderr
    assert digests(tmp_path / "out") == expected


def test_limits_make_files_of_that_size(tfrecords, tmp_path):
    options = Options(count=5, index=False, description=f"{tmp_path}/all.json")
    done = interop.convert(tfrecords, str(tmp_path / "out-%d.tar"), options)
    assert [len(tar_samples(file)) for file in done.outputs] == [5, 5, 2]
    assert outputs(tmp_path) == ["all.json", "out-0.tar", "out-1.tar", "out-2.tar"]
    assert read_description(f"{tmp_path}/all.json").counts == [5, 5, 2]
    keys = [sample["__key__"] for sample in tar_samples(*done.outputs)]
    assert len(set(keys)) == 12


def test_one_target_takes_everything(tfrecords, tmp_path):
    done = interop.convert(tfrecords, str(tmp_path / "all.tar"))
    assert done.outputs == (str(tmp_path / "all.tar"),)
    assert len(tar_samples(tmp_path / "all.tar")) == 12


@pytest.mark.parametrize("name", ["tfrecord", "parquet", "arrow", "mds", "beton"])
def test_tar_goes_there_and_back(images, tmp_path, name):
    kind = interop.FORMATS[name]
    target = str(tmp_path / f"there.{name}")
    needs_key = "jpg,cls,txt,__key__:key" if name == "beton" else None
    there = interop.convert(images, target, target_format=kind(), mapping=needs_key)
    assert there.samples_out == 6
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


NAMES = st.text(st.sampled_from("ab,:\\ []\n'\"ü"), min_size=1, max_size=6)


@given(st.lists(st.tuples(NAMES, NAMES, st.booleans()), min_size=1, max_size=3, unique_by=lambda pair: pair[1]))
def test_any_mapping_is_printed_as_it_is_read(pairs):
    """What the command prints can be pasted back, whatever the fields are called."""
    mapping = FieldMapping(tuple(Pair(*pair) for pair in pairs))
    assert FieldMapping.parse(str(mapping)) == mapping
    assert shlex.split(f"--mapping {shlex.quote(str(mapping))}")[1] == str(mapping)


def test_the_printed_guess_can_be_pasted_into_a_shell(tmp_path):
    interop.write([{"it's, a:b[] \\": 7}], str(tmp_path / "a.tfrecord"))
    command = f"{shlex.quote(sys.executable)} -m webdataset convert a.tfrecord"
    run = {"shell": True, "cwd": tmp_path, "capture_output": True, "text": True, "check": True}
    said = subprocess.run(f"{command} a.tar", **run).stderr  # noqa: S602 - a shell is what is tested
    (line,) = [line for line in said.splitlines() if line.startswith("mapping: ")]
    subprocess.run(f"{command} b.tar {line.removeprefix('mapping: ')}", **run)  # noqa: S602
    assert (tmp_path / "a.tar").read_bytes() == (tmp_path / "b.tar").read_bytes()


def test_a_mapping_is_guessed_from_the_first_file_that_has_records(tmp_path):
    for number, rows in enumerate(([], [{"label": 7}])):
        interop.write(rows, str(tmp_path / f"{number}.tfrecord"))
        (tmp_path / f"{number}.tfrecord").touch()  # without records nothing was written
    done = interop.convert(str(tmp_path / "{0..1}.tfrecord"), str(tmp_path / "a.tar"))
    assert (str(done.mapping), done.samples_out) == ("label:cls", 1)


@pytest.mark.parametrize("name", ["parquet", "arrow", "mds", "beton"])
def test_a_mapping_of_a_field_that_no_record_has_is_refused(tmp_path, name):
    source = str(tmp_path / "source")
    interop.write([{"label": 7}], source, name)
    for given_mapping in ({"mapping": "label:cls,lable:txt"}, {"mapping": None, "key": "lable"}):
        with pytest.raises(wds.SpecError, match="'lable', and there is no such field – .*source.* – there are label"):
            interop.convert(source, str(tmp_path / "a.tar"), source_format=name, **given_mapping)
        with pytest.raises(wds.SpecError, match="there is no such field"):
            interop.read(source, name, **given_mapping)
    assert not (tmp_path / "a.tar").exists()


def test_a_record_without_its_key_is_an_error(tmp_path):
    interop.write([{"id": "a", "n": 1}, {"n": 2}], str(tmp_path / "a.tfrecord"))
    with pytest.raises(wds.FormatError, match="record 1: the key is missing – field id"):
        interop.convert(str(tmp_path / "a.tfrecord"), str(tmp_path / "a.tar"), key="id")
    assert os.listdir(tmp_path) == ["a.tfrecord"]


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


def labels(folder):
    shards = sorted(str(path) for path in folder.glob("out-*.tar"))
    return [int(sample["cls"]) for sample in wds.WebDataset(shards, shardshuffle=False)]


def test_a_series_keeps_nothing_of_an_earlier_one(tmp_path):
    """What is left of a longer run would be read as if it belonged to this one."""
    inputs = [str(tmp_path / f"in{n}.tfrecord") for n in range(3)]
    for number, name in enumerate(inputs):
        interop.write([{"label": 10 * number + row} for row in range(2)], name)
    target = str(tmp_path / "out-%03d.tar")
    interop.convert(inputs, target)
    for sources, options in ((inputs[1:], {}), (inputs[2], {"count": 1})):
        with pytest.raises(wds.SpecError, match="exists already"):
            interop.convert(sources, target, Options(**options))
        interop.convert(sources, target, Options(force=True, **options))
        assert labels(tmp_path) == ([10, 11, 20, 21] if sources == inputs[1:] else [20, 21])
    (tmp_path / "out-000.tar").unlink()
    with pytest.raises(wds.SpecError, match="out-001"):  # only a later one is there
        interop.convert(inputs[2], target, Options(count=1))


def test_memory_does_not_grow_with_the_dataset(tmp_path):
    """A parquet file and a TFRecord file of 180 MB each, which is more than the limit."""
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
        rows = ({"jpg": bytes(100_000), "cls": n} for n in range(1800))
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
