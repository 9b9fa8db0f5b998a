"""`wds check`: what a user sees, exit codes, and --fix."""

import json
import subprocess

import pytest

from tests.cli.running import run
from tests.tools.caption_shards import captions
from tests.tools.faults import END, PICTURE, good, sample


@pytest.fixture
def shards(tmp_path):
    return captions(tmp_path)


def damaged(tmp_path, data, name="bad.tar"):
    (tmp_path / name).write_bytes(data)
    return str(tmp_path / name)


def test_a_good_dataset(shards):
    result = run("check", *shards)
    assert result.stdout == ""
    assert "3 shards, 30 samples" in result.stderr
    assert "0 errors, 0 warnings" in result.stderr


def test_what_is_wrong_with_a_shard(tmp_path):
    """The wish: find out what is wrong with a shard, with one command."""
    shard = damaged(tmp_path, good() + sample("x", cls=b"seven"))
    result = run("check", shard, code=1)
    assert "error no-end-mark: the archive ends without an end-of-archive mark" in result.stdout
    assert "error undecodable-field" in result.stdout
    assert f"sample x, field cls, {shard}, byte {len(good())}" in result.stdout
    assert "wds check --fix" in result.stdout


def test_json_has_everything(tmp_path):
    shard = damaged(tmp_path, good())
    report = json.loads(run("check", "--json", shard, code=1).stdout)
    assert not report["ok"]
    (finding,) = report["findings"]
    assert finding["kind"] == "no-end-mark"
    assert finding["severity"] == "error"
    assert finding["shard"] == shard
    assert finding["offset"] == len(good())
    assert finding["remedy"]


def test_many_findings_are_counted_and_not_all_shown(tmp_path):
    shard = damaged(tmp_path, b"".join(sample(f"{n}", cls=b"?") for n in range(30)) + END)
    lines = run("check", shard, code=1).stdout.splitlines()
    assert len(lines) == 6
    assert "… and 25 more" in lines[-1]


def test_notes_are_shown_on_request(tmp_path):
    shard = damaged(tmp_path, good() + sample("a b") + END)
    result = run("check", shard)
    assert result.stdout == "" and result.stderr.endswith(" notes (-v shows them)\n")
    assert "note name-with-space" in run("check", "-v", shard).stdout
    assert "warning name-with-space" in run("check", "--dali", shard, code=1).stdout


def test_fields_that_must_be_there(shards):
    run("check", "--fields", "txt cls", *shards)
    assert "the sample has no field 'jpg'" in run("check", "--fields", "txt,jpg", shards[0], code=1).stdout


def test_the_rule_of_hugging_face(tmp_path):
    shard = damaged(tmp_path, sample("a", txt=b"1") + sample("b", txt=b"1", cls=b"1") + END)
    run("check", shard)
    assert "load_dataset refuses the shards" in run("check", "--hf", shard, code=1).stdout


def test_a_description(shards, tmp_path):
    run("index", "create", *shards, "-o", tmp_path / "train.json")
    run("check", tmp_path / "train.json")
    with open(shards[1], "ab") as file:
        file.write(bytes(1024))
    assert "wrong-md5" in run("check", tmp_path / "train.json", code=1).stdout


def test_fix(tmp_path):
    """The wish: repair a shard, with one command."""
    bad = damaged(tmp_path, (good() + sample("x", cls=b"?", jpg=PICTURE, json=b"1") + good(6))[:-2000])
    fine = damaged(tmp_path, good(20) + END, "fine.tar")
    result = run("check", bad, fine, "--fix", "-o", f"{tmp_path}/out/")
    assert "samples saved in" in result.stdout
    assert "set aside x" in result.stdout
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["bad.quarantine.tar", "bad.tar"]
    run("check", tmp_path / "out" / "bad.tar")
    subprocess.run(["tar", "-tf", tmp_path / "out" / "bad.tar"], check=True, capture_output=True)
    report = json.loads(run("check", bad, "--json", "--fix", "-o", f"{tmp_path}/more/").stdout)
    assert report["repairs"][0]["saved"] == 11
    assert {action["deed"] for action in report["repairs"][0]["actions"]} == {"lost", "set aside"}


def test_fix_fails_where_nothing_can_be_saved(tmp_path):
    result = run("check", damaged(tmp_path, b"<html>" * 200), "--fix", "-o", f"{tmp_path}/out/", code=1)
    assert "nothing could be saved" in result.stdout


def test_outputs_are_refused_unless_forced(tmp_path):
    bad = damaged(tmp_path, good())
    run("check", bad, "--fix", "-o", f"{tmp_path}/out/")
    assert "exists already" in run("check", bad, "--fix", "-o", f"{tmp_path}/out/", code=1).stderr
    run("check", bad, "--fix", "-o", f"{tmp_path}/out/", "--force")


@pytest.mark.parametrize("arguments", [("--fix",), ("-o", "out/")])
def test_fix_and_its_output_belong_together(tmp_path, arguments):
    assert "belong together" in run("check", damaged(tmp_path, good()), *arguments, code=2).stderr


def test_a_missing_shard_is_a_finding(shards, tmp_path):
    assert "error missing-shard" in run("check", shards[0], tmp_path / "no.tar", code=1).stdout


def test_names_that_are_no_text_can_be_printed(tmp_path):
    shard = damaged(tmp_path, good() + sample("x\udcff\x1b[31m") + END)
    out = run("check", shard, code=1).stdout
    assert "\\udcff" in out
    assert "\x1b" not in out


def test_standard_input_is_checked(shards):
    with open(shards[0], "rb") as file:
        run("check", "-", input=file.read())
    assert "no-end-mark" in run("check", "-", input=good(), code=1).stdout


def test_fix_repairs_what_it_can_and_says_what_it_cannot(tmp_path):
    bad = damaged(tmp_path, good())
    result = run("check", bad, tmp_path / "no.tar", "--fix", "-o", f"{tmp_path}/out/", code=1)
    assert "6 samples saved" in result.stdout
    assert "no.tar: nothing could be saved" in result.stdout
