"""`widsindex`, called as from a shell."""

import hashlib
import io
import json
import subprocess
import sys

import pytest

import wids
from webdataset.index import build_index, write_dali
from wids._command import main


def shardlist(path):
    return json.loads(path.read_text())["shardlist"]


def test_create(data, capsys):
    out = data / "made.json"
    assert main(["create", f"{data}/train-{{000000..000002}}.tar", "-o", str(out)]) == 0
    assert "10 samples in 3 shards" in capsys.readouterr().out
    assert shardlist(out) == shardlist(data / "dataset.json")
    content = (data / "train-000001.tar").read_bytes()
    assert shardlist(out)[1] == {
        "url": "train-000001.tar",
        "nsamples": 4,
        "filesize": len(content),
        "md5sum": hashlib.md5(content).hexdigest(),
    }
    assert json.loads(out.read_text())["name"] == "train"
    with wids.ShardListDataset(out) as dataset:
        assert len(dataset) == 10 and dataset[9][".cls"] == 9


def test_create_from_a_list_sorted_named_and_with_indexes(data, monkeypatch, tmp_path):
    for index in data.glob("*.idx"):
        index.unlink()
    (tmp_path / "info.txt").write_text("about it")
    names = "".join(f"{data}/train-{n:06d}.tar\n" for n in (2, 0))
    monkeypatch.setattr("sys.stdin", io.StringIO(names))
    out = data / "made.json"
    assert main(["create", "-", "-o", str(out), "-n", "mine", "-i", str(tmp_path / "info.txt"), "-x"]) == 0
    content = json.loads(out.read_text())
    assert (content["name"], content["info"]) == ("mine", "about it")
    assert [entry["url"] for entry in content["shardlist"]] == ["train-000000.tar", "train-000002.tar"]
    shard = data / "train-000002.tar"
    assert shard.with_suffix(".idx").read_bytes() == write_dali(build_index(str(shard)))


def test_create_with_a_base(data, tmp_path):
    out = tmp_path / "made.json"
    assert main(["create", "train-{000000..000002}.tar", "-b", str(data), "-o", str(out)]) == 0
    assert json.loads(out.read_text())["base"] == str(data)
    with wids.ShardListDataset(out, base=str(data)) as dataset:
        assert dataset[9][".cls"] == 9


def test_update_keeps_the_old_one(data):
    path = data / "dataset.json"
    before = path.read_text()
    assert main(["update", str(path), "-n", "other", "-d", "s3://b/x/"]) == 0
    assert (data / "dataset.json.bak").read_text() == before
    assert json.loads(path.read_text())["name"] == "other"
    assert shardlist(path)[0]["url"] == "s3://b/x/train-000000.tar"
    assert main(["update", str(path), "-D"]) == 0
    assert shardlist(path) == json.loads(before)["shardlist"]
    assert main(["update", str(path), "-B", str(data), "-b", "gs://c"]) == 0
    assert shardlist(path)[0]["url"] == f"{data}/train-000000.tar" and json.loads(path.read_text())["base"] == "gs://c"


def test_keep_and_nokeep(data):
    path = data / "dataset.json"
    for flags, kept in ((["-k"], True), ([], True), (["-K"], None)):
        assert main(["update", str(path), *flags]) == 0
        assert json.loads(path.read_text()).get("keep") == kept
    with pytest.raises(SystemExit):
        main(["update", str(path), "-k", "-K"])


def test_info(data, capsys):
    path = str(data / "dataset.json")
    size = sum(shard.stat().st_size for shard in data.glob("*.tar"))
    assert main(["info", path]) == 0
    shown = capsys.readouterr().out
    assert "shards:             3" in shown and f"{size:,}" in shown and "samples per shard:  3.3" in shown
    assert main(["info", "-t", path, path]) == 0
    assert capsys.readouterr().out == f"{path}\t{path}\t3\t10\t{size}\n" * 2


def test_sample(data, capsysbinary):
    path = str(data / "dataset.json")
    assert main(["sample", path, "3"]) == 0
    assert b".txt: 'number 3'" in capsysbinary.readouterr().out
    assert main(["sample", path, "3", "-r", "-w", "5"]) == 0
    assert ".txt: b'num …" in capsysbinary.readouterr().out.decode()
    for key in ("txt", ".txt"):
        assert main(["sample", path, "9", "-c", key]) == 0
        assert capsysbinary.readouterr().out == b"number 9"


def test_failures_have_a_status_and_a_sentence(data, capsys):
    for words in (["info", "none.json"], ["sample", str(data / "dataset.json"), "99"], ["create", f"{data}/none.tar"]):
        assert main(words) == 1
        assert capsys.readouterr().err.startswith("widsindex: ")
    for content in ("{}", "[]", "{", "\0"):
        (data / "odd.json").write_text(content)
        assert main(["update", str(data / "odd.json")]) == 1
        assert capsys.readouterr().err.startswith("widsindex: ")
        assert not (data / "odd.json.bak").exists()


def test_as_a_program(data):
    done = subprocess.run(
        [sys.executable, "-m", "wids._command", "info", str(data / "dataset.json")], capture_output=True, text=True
    )
    assert done.returncode == 0 and "samples:            10" in done.stdout
