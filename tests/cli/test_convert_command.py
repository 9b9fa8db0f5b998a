"""`wds convert`: formats by suffix or by name, the printed mapping, workers, resuming, refusals."""

import json
import re
import shlex

import pytest
from click.testing import CliRunner

from tests.interop.conftest import jpeg, tar_samples
from webdataset import interop
from webdataset.cli._main import wds

pytest.importorskip("google_crc32c")


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for shard in range(3):
        rows = [{"image/encoded": jpeg(n), "image/class/label": n, "name": f"{shard}/{n}.png"} for n in range(4)]
        interop.write(rows, f"in-{shard}.tfrecord")
    return tmp_path


def invoke(*arguments, code=0):
    result = CliRunner().invoke(wds, ["convert", *map(str, arguments)])
    assert result.exit_code == code, result.output
    return result


def test_the_mapping_that_is_printed_can_be_pasted_back(here):
    out = invoke("in-{0..2}.tfrecord", "a-%d.tar")
    (text,) = shlex.split(re.search(r"--mapping (.*)", out.output)[1])
    assert text == "image/class/label:cls,image/encoded:jpg,name:name.txt"
    assert "3 shards written" in out.output
    out = invoke("in-{0..2}.tfrecord", "b-%d.tar", "--mapping", text, "-j", 2)
    assert "mapping" not in out.output
    for number in range(3):
        assert (here / f"a-{number}.tar").read_bytes() == (here / f"b-{number}.tar").read_bytes()


def test_the_report_as_json(here):
    out = invoke("in-0.tfrecord", "a.tar", "-m", "image/encoded:jpg,image/class/label:cls", "-k", "name", "--json")
    report = json.loads(out.output)
    assert (report["samples_out"], report["outputs"], report["failed"]) == (4, ["a.tar"], [])
    assert report["mapping"] == "image/encoded:jpg,image/class/label:cls,name:__key__"
    assert [sample["__key__"] for sample in tar_samples("a.tar")] == ["0/0", "0/1", "0/2", "0/3"]


def test_formats_can_be_named(here):
    (here / "odd").write_bytes((here / "in-0.tfrecord").read_bytes())
    invoke("odd", "out", "--from", "tfrecord", "--to", "tar", "-m", "name:txt")
    assert len(tar_samples("out")) == 4
    assert "the format of 'odd' is not known" in invoke("odd", "b.tar", code=1).output


def test_the_same_command_goes_on_and_outputs_of_others_are_refused(here):
    arguments = ["in-{0..2}.tfrecord", "a-%d.tar", "-m", "name:txt"]
    invoke(*arguments)
    (here / "a-1.tar").unlink()
    out = invoke(*arguments).output
    assert "4 samples, " in out
    assert "1 shard written, 2 shards finished before" in out
    assert "12 samples" in invoke(*arguments, "--force").output
    (here / "b-1.tar").write_bytes(b"precious")
    out = invoke("in-{0..2}.tfrecord", "b-%d.tar", "-m", "name:txt", code=1).output
    assert "the output exists already – b-1.tar" in out


def test_a_file_that_cannot_be_read_is_reported(here):
    (here / "in-1.tfrecord").write_bytes((here / "in-1.tfrecord").read_bytes()[:-1])
    out = invoke("in-{0..2}.tfrecord", "a-%d.tar", "-m", "name:txt", "--errors", "skip", code=1).output
    assert "failed: in-1.tfrecord: record 3" in out
    assert "2 shards written" in out


def test_a_bad_file_is_one_sentence_and_nothing_is_half_written(here):
    (here / "in-1.tfrecord").write_bytes((here / "in-1.tfrecord").read_bytes()[:-1])
    out = invoke("in-1.tfrecord", "a.tar", "-m", "name:txt", code=1)
    assert "record 3: the file ends inside this record – in-1.tfrecord, byte" in out.output
    assert not (here / "a.tar").exists()


def test_dry_run_and_limits(here):
    assert "image/encoded:jpg" in invoke("in-0.tfrecord", "a.tar", "--dry-run").output
    assert not (here / "a.tar").exists()
    out = invoke("in-0.tfrecord", "in-1.tfrecord", "a-%d.tar", "-n", 5, "-m", "name:txt")
    assert "2 shards written" in out.output
