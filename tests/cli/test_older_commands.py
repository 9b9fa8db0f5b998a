"""The commands of tarp and tarproc, under their names: they do what the verbs of `wds` do."""

import importlib
import importlib.metadata
import tomllib
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.tools.datasets import keys, read

ROOT = Path(__file__).parents[2]
ALL = [f"{n:06d}" for n in range(21)]

SCRIPTS = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]


def old(name, *arguments, data=None):
    """Run an older command as its script would; its standard output."""
    module, _, function = SCRIPTS[name].partition(":")
    command = getattr(importlib.import_module(module), function)
    result = CliRunner().invoke(command, [str(argument) for argument in arguments], input=data)
    assert result.exit_code == 0, result.stderr
    return result.stdout_bytes


@pytest.mark.parametrize("name", SCRIPTS)
def test_every_script_is_there(name):
    module, _, function = SCRIPTS[name].partition(":")
    assert callable(getattr(importlib.import_module(module), function))


def test_tarp(shards, here):
    (here / "recipe").write_text("a.txt text:1\nb.txt text:2\n")
    (here / "made.tar").write_bytes(old("tarp", "create", "-o", "-", "recipe"))
    assert keys("made.tar") == ["a", "b"]
    old("tarp", "cat", "-o", "cat.tar", "-f", "n:cls", "--slice", "1:3", *shards)
    assert read("cat.tar") == {"000001": {"n": b"1"}, "000002": {"n": b"2"}}
    old("tarp", "split", "-c", "10", "-o", "s-%d.tar", "-p", "echo %s >> names", *shards)
    assert (here / "names").read_text().split() == ["s-0.tar", "s-1.tar", "s-2.tar"]
    old("tarp", "proc", "-o", "proc.tar", "-c", "rm sample.json", shards[0])
    assert "json" not in read("proc.tar")["000000"]
    old("tarp", "sort", "-o", "sorted.tar", "-s", "cls", *shards)
    assert len(keys("sorted.tar")) == 21
    old("tarp", "sort", "-o", "shuffled.tar", *shards)
    assert sorted(keys("shuffled.tar")) == ALL != keys("shuffled.tar")


def test_tarscat_and_tarsplit(shards, here):
    """`tarscat … | tarsplit -n 32`."""
    for name in ("tarscat", "tarcats", "tarpcat"):
        stream = old(name, *shards)
        old("tarsplit", "-n", "9", "-o", f"{name}-out", data=stream)
        assert [len(read(f"{name}-out-{n:06d}.tar")) for n in range(3)] == [9, 9, 3]
    (here / "x.tar").write_bytes(old("tarcats", "-s", "2", "-c", "4", *shards))
    assert keys("x.tar") == ["000002", "000003"]


def test_the_other_tarproc_commands(shards, here):
    data = b"".join(Path(url).read_bytes() for url in shards)
    (here / "sorted.tar").write_bytes(old("tarsort", "-s", "cls", "-S", "int", data=data))
    assert [s["cls"] for s in read("sorted.tar").values()] == sorted(s["cls"] for s in read(*shards).values())
    (here / "proc.tar").write_bytes(old("tarproc", "-c", "rm sample.json", "-p", "2", data=data))
    assert "json" not in read("proc.tar")["000003"]
    (here / "mix.yaml").write_text(f"sources:\n- shards: {shards[0]}\n  weight: 2\n- shards: {shards[1]}\n")
    (here / "mix.tar").write_bytes(old("tarmix", "mix.yaml", "-c", "5"))
    assert len(keys("mix.tar")) == 5
    (here / "plan.tsv").write_text("cls\t@bin\n3\tplan.tsv\n")
    for name in ("tsv2tar", "tarcreate"):
        (here / "made.tar").write_bytes(old(name, "plan.tsv"))
        assert read("made.tar")["000000000"]["cls"] == b"3"
    (here / "lines.tar").write_bytes(old("lines2tar", "-k", "txt cls", data=b"one\t1\ntwo\t2\n"))
    assert read("lines.tar") == {"000000000": {"txt": b"one", "cls": b"1"}, "000000001": {"txt": b"two", "cls": b"2"}}
