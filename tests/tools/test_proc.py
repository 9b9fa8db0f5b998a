"""`wds proc`: what goes in comes out, in the promised order, or an error."""

import pytest

from tests.tools.datasets import keys, read, write_shard
from webdataset import tools
from webdataset.errors import (
    CommandFailed,
    SpecError,
    UnsafeContent,
)
from webdataset.tools import Options


ALL = [f"{n:06d}" for n in range(21)]


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
