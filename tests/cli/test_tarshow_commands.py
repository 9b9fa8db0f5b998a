"""The commands of `tarproc` under their old names."""

import json

import pytest
from click.testing import CliRunner

from tests.tools.caption_shards import captions, picture, write
from webdataset.cli import _tarproc_commands


@pytest.fixture
def shard(tmp_path):
    return captions(tmp_path, shards=1)[0]


def run(name, *arguments, input=None):
    result = CliRunner().invoke(
        getattr(_tarproc_commands, name), [str(argument) for argument in arguments], input=input
    )
    assert result.exit_code == 0, (result.stdout, result.stderr)
    return result


def test_tarshow(shard):
    out = run("tarshow", "-c", 2, "-f", "txt;cls", shard).stdout
    assert out.splitlines()[0] == f"0000  ({shard})"
    assert len(out.splitlines()) == 6
    assert len(run("tarshow", shard).stdout.splitlines()) == 40


def test_tarfirst(tmp_path):
    shard = write(tmp_path / "a.tar", [("a", {"cls": 1}), ("b", {"cls": 2, "jpg": picture()})])
    result = run("tarfirst", shard)
    assert result.stdout_bytes[:3] == b"\xff\xd8\xff"
    assert result.stderr.strip() == "b.jpg"
    assert run("tarfirst", "-f", "cls", "-S", "cls > 1", shard).stdout == "2"


def test_tar2tsv(shard):
    with open(shard, "rb") as file:
        out = run("tar2tsv", "-f", "cls caption;txt", "-c", 1, "--noheader", "--nokey", input=file.read()).stdout
    assert out == '0\t"a photo of a Cat\nnumber 0"\n'


def test_tar2json(shard):
    out = run("tar2json", "-k", "cls", shard).stdout
    assert [json.loads(line) for line in out.splitlines()][2] == {"__key__": "0002", "cls": 2}
    assert json.loads(run("tar2json", "-f", "json", "--nokey", "-k", "cls", shard).stdout)[9] == {"cls": 9}
