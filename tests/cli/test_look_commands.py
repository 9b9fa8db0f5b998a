"""ls, show, get, first, grep, stats, diff, index, query, bench, simulate, doctor: what a user sees."""

import json
import sys

import pytest

from tests.cli.running import run
from tests.tools.caption_shards import captions, picture, write


@pytest.fixture
def shards(tmp_path):
    return captions(tmp_path)


def lines(*arguments, **options):
    return run(*arguments, **options).stdout.splitlines()


def test_ls(shards):
    assert lines("ls", shards[0], "-n", 1) == ["0000\tcls:1 json:12 txt:25"]
    assert lines("ls", "-l", shards[0], "-n", 1) == [f"{shards[0]}\t512\t38\t0000\tcls:1 json:12 txt:25"]
    assert lines("ls", "--keys", *shards) == [f"{n:04d}" for n in range(30)]
    assert json.loads(lines("ls", "--json", shards[0])[0])["fields"] == {"cls": 1, "json": 12, "txt": 25}


def test_ls_reads_standard_input(shards):
    with open(shards[1], "rb") as file:
        assert run("ls", "--keys", "-", input=file.read()).stdout.splitlines()[0] == "0010"


def test_show(tmp_path):
    shard = write(tmp_path / "a.tar", [("a", {"jpg": picture(4, 4), "txt": "hello\nyou"}), ("b", {"txt": "x"})])
    out = run("show", shard).stdout
    assert "picture of 4 x 4" in out
    assert "txt  9 bytes  hello you" in out
    assert "▀" not in out
    assert "▀" in run("show", "--pictures", shard).stdout
    assert lines("show", "-k", "b", shard)[0] == f"b  ({shard})"
    assert json.loads(run("show", "--json", shard).stdout)["fields"][0]["text"] == "picture of 4 x 4"
    assert len(lines("show", "-n", "0", "-f", "txt", shard)) == 4


def test_show_as_a_table(shards):
    assert lines("show", "--format", "tsv", "-f", "cls", "-n", 2, shards[0]) == ["__key__\tcls", "0000\t0", "0001\t1"]
    assert lines("show", "--format", "tsv", "--no-header", "-f", "cls", "-n", 1, shards[0]) == ["0000\t0"]
    row = json.loads(lines("show", "--format", "jsonl", shards[0])[3])
    assert row["json"] == {"width": 30}


def test_control_characters_do_not_reach_the_terminal(tmp_path):
    shard = write(tmp_path / "a.tar", [("a", {"txt": "\x1b[31mred\x07"})])
    for verb in (["show"], ["grep", "red"]):
        assert "\x1b" not in run(*verb, shard).stdout


def test_get(shards, tmp_path):
    assert run("get", "0017", "cls", *shards).stdout == "17"
    run("get", "0017", "json", *shards, "-o", tmp_path / "x.json")
    assert (tmp_path / "x.json").read_bytes() == b'{"width": 170}'
    assert "no sample has the key 'x'" in run("get", "x", "cls", *shards, code=1).stderr


def test_first(shards):
    result = run("first", "-f", "txt", "--where", "json.width > 100", *shards)
    assert result.stdout.startswith("a photo of a dog")
    assert result.stderr.strip() == "0011.txt"


def test_grep(shards):
    assert lines("grep", "-c", "Cat", *shards) == ["10"]
    assert lines("grep", "-l", "number 1$", *shards) == ["0001"]
    assert lines("grep", "number 1$", *shards) == ["0001.txt:2: number 1"]
    assert run("grep", "unicorn", *shards, code=1).stdout == ""


def test_the_keys_that_match_can_be_selected(shards, tmp_path):
    """grep -l and query --keys make lists for select --keys."""
    (tmp_path / "keys").write_text(run("grep", "-l", "Cat", *shards).stdout)
    run("select", "--keys", tmp_path / "keys", *shards, "-o", tmp_path / "cats.tar")
    assert lines("ls", "--keys", tmp_path / "cats.tar") == [f"{n:04d}" for n in range(0, 30, 3)]


def test_stats(shards):
    out = run("stats", *shards).stdout
    assert "3 shards, 30 samples" in out
    assert "█" in out
    assert "█" not in run("stats", "--no-histogram", *shards).stdout
    found = json.loads(run("stats", "--json", *shards).stdout)
    assert found["fields"]["cls"]["count"] == 30


def test_diff(shards, tmp_path):
    assert run("diff", shards[0], shards[0]).stdout == ""
    other = write(tmp_path / "b.tar", [("0001", {"cls": 2}), ("x", {"cls": 1})])
    out = run("diff", shards[0], other, code=1).stdout
    assert "0001.cls: different" in out
    assert "x: only in the second" in out
    assert len(lines("diff", "-n", 3, shards[0], other, code=1)) == 3


def test_index(shards, tmp_path):
    run("index", "info", *shards, code=1)
    assert "30 samples" in run("index", "create", *shards, "-o", tmp_path / "t.json", "--name", "captions").stderr
    assert run("index", "info", tmp_path / "t.json").stdout.startswith("captions: 3 shards, 30 samples, 10.0 per shard")
    assert "0 written again" in run("index", "update", tmp_path / "t.json").stderr
    assert "cls: 12" in run("index", "sample", 12, tmp_path / "t.json").stdout
    assert run("index", "sample", "-c", "cls", 12, *shards).stdout == "12"
    assert "has no field 'jpg'" in run("index", "sample", "-c", "jpg", 12, *shards, code=2).stderr
    assert json.loads(run("index", "info", "--json", *shards).stdout)["samples"] == 30


def test_query(shards, tmp_path):
    pytest.importorskip("duckdb", reason="duckdb is not installed: pip install 'webdataset[query]'")
    sql = "select key, cls from samples where json.width > 270 order by key"
    assert lines("query", sql, *shards) == ["key   cls", "0028   28", "0029   29"]
    assert [json.loads(line) for line in lines("query", "--json", sql, *shards)] == [
        {"key": "0028", "cls": 28},
        {"key": "0029", "cls": 29},
    ]
    assert lines("query", "--keys", sql, *shards) == ["0028", "0029"]
    run("query", "--parquet", tmp_path / "x.parquet", sql, *shards)
    assert (tmp_path / "x.parquet").read_bytes()[:4] == b"PAR1"
    assert "the columns are" in run("query", "select nothing from samples", *shards, code=1).stderr
    assert "more rows" in run("query", "-n", 5, "select key from samples", *shards).stderr


def test_query_without_duckdb(shards, monkeypatch):
    monkeypatch.setitem(sys.modules, "duckdb", None)
    assert "webdataset[query]" in run("query", "select 1", *shards, code=1).stderr


def test_bench(tmp_path):
    shard = write(tmp_path / "a.tar", [(f"{n}", {"jpg": picture()}) for n in range(20)])
    out = run("bench", shard, "--seconds", 60).stdout
    assert "(20 samples)" in out
    assert "bottleneck: " in out
    assert json.loads(run("bench", "--json", shard, "--decode", "").stdout)["decoding"] is None


def test_simulate(shards):
    out = run("simulate", "--shards", 10, "-r", 4, "-w", 2).stdout
    assert "all-reduce would hang" in out
    assert "every rank takes 79 steps" in out
    assert "30 samples" in run("simulate", *shards).stdout
    assert json.loads(run("simulate", "--json", "--shards", 8, "-r", 4).stdout)["equal"] is True
    run("simulate", code=2)


def test_doctor(shards, tmp_path):
    assert "numpy" in run("doctor", shards[0]).stdout
    assert "problem" in run("doctor", tmp_path / "no.tar", code=1).stdout
    assert json.loads(run("doctor", "--json").stdout)[0]["name"] == "python"
