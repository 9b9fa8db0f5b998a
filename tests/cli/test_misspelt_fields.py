"""A field that a user names and no sample has: every verb says so on standard error."""

import importlib
import tomllib
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from tests.tools.datasets import write_shard
from webdataset.cli._main import wds

SCRIPTS = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]["scripts"]
# Parameters that name fields, by their names in the code.
NAMES = {"field", "fields", "drop", "cat", "by", "sortfield", "sortkey", "mapping", "key"}
# … and those of them that are something else: a format, a regular expression, the key of a sample, or what trainers get.
OTHERS = {
    ("wds create", "key"),
    ("wds rename", "key"),
    ("wds get", "key"),
    ("tsv2tar", "key"),
    ("tarcreate", "key"),
    ("wds serve", "fields"),
}

# The arguments of each verb; `tyt` is the field, A the shards, B one shard with the same keys.
SAYS = {
    ("wds cat", "fields"): ["-f tyt -o o.tar A", "-f new:tyt -o o/ A"],
    ("wds select", "fields"): ["-f tyt -o o.tar A", "-f tyt --invert -o o.tar A", "-f tyt --invert -o o/ A"],
    ("wds check", "fields"): ["-f tyt A"],
    ("wds show", "fields"): ["-f tyt A", "-f tyt -k 000001 A", "-f tyt --json A", "-f tyt --format tsv A"],
    ("wds get", "field"): ["B 000001 tyt"],
    ("wds first", "fields"): ["-f tyt A"],
    ("wds grep", "fields"): ["-f tyt . A", "-f tyt -l . A"],
    ("wds index sample", "cat"): ["-c tyt 0 A"],
    ("wds sort", "by"): [
        "--by tyt -o o.tar A",
        "--by tyt --missing last -o o.tar A",
        "--by tyt.x --missing first -o o/ A",
    ],
    ("tarp sort", "sortfield"): ["-s tyt -o o.tar A"],
    ("tarsort", "sortkey"): ["-s tyt -o o.tar B"],
    ("wds join", "fields"): ["-f tyt --replace -w A -o o.tar B", "-f tyt --replace -w A -o o.json B"],
    ("wds rename", "fields"): ["-f new=tyt -o o.tar A", "-f new=tyt,jpg -o o/ A"],
    ("wds rename", "drop"): ["-d tyt -o o.tar A", "-d tyt -q -o o/ A"],
    ("wds recode", "fields"): ["-f tyt --short 8 -o o.tar A", "-f tyt --short 8 -o o/ A"],
    ("wds convert", "mapping"): ["-m tyt:new,cls:cls A o.tfrecord", "-m tyt:new A o-%d.tfrecord"],
    ("wds convert", "key"): ["-k tyt A o.tfrecord"],
    ("tarp cat", "fields"): ["-f tyt -o o.tar A"],
    ("tarshow", "fields"): ["-f tyt B"],
    ("tarfirst", "fields"): ["-f tyt B"],
    ("tar2tsv", "fields"): ["-f tyt B"],
    ("tar2json", "fields"): ["-k tyt B"],
}


def commands(command, name):
    """All commands below one, with the words that call them."""
    if isinstance(command, click.Group):
        with click.Context(command) as context:
            for each in command.list_commands(context):
                yield from commands(command.get_command(context, each), f"{name} {each}")
    else:
        yield name, command


def every_command():
    for script, place in SCRIPTS.items():
        module, _, function = place.partition(":")
        command = wds if script == "wds" else getattr(importlib.import_module(module), function)
        if isinstance(command, click.Command):
            yield from commands(command, script)


COMMANDS = dict(every_command())


def test_every_parameter_that_names_a_field_is_tried():
    found = {(name, each.name) for name, command in COMMANDS.items() for each in command.params if each.name in NAMES}
    assert found - OTHERS == set(SAYS)


def run(name, words, data):
    given = [each for word in words.split() for each in data.get(word, [word])]
    return CliRunner().invoke(COMMANDS[name], given)


@pytest.mark.parametrize(("name", "words"), [(name, words) for (name, _), all_ in SAYS.items() for words in all_])
def test_a_field_that_no_sample_has(name, words, shards, tmp_path, monkeypatch):
    done = run(name, words, {"A": shards, "B": shards[:1]})
    assert "tyt" in done.stderr + done.stdout * (name == "wds check")  # whose result it is
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    "words", ["rename -d tyt -o o.tar A", "rename -d tyt -o o/ A", "grep -f tyt . A", "show -n 0 -f tyt A"]
)
def test_nothing_is_said_of_a_field_that_one_sample_has(words, shards):
    """In the last shard, and found again by a run that has nothing left to do."""
    name, words = f"wds {words.split()[0]}", words.partition(" ")[2]
    last = write_shard("data/last.tar", [{"__key__": "x", "txt": "a", "tyt": "a"}])
    for _ in range(2 if "o/" in words else 1):
        done = run(name, words, {"A": [*shards, last]})
        assert (done.exit_code, "has the field" in done.stderr) == (0, False)
    if "o/" in words:
        assert "none of 21 samples has the field tyt" in run(name, words.replace("o/", "p/"), {"A": shards}).stderr
        assert "none of 21 samples has the field tyt" in run(name, words.replace("o/", "p/"), {"A": shards}).stderr
