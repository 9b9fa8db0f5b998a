"""A terminal never obeys what a stranger wrote: names, fields and errors are shown with escapes."""

import io
import os
import pty
import re
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest
from click.testing import CliRunner

import webdataset as wds
from tests.test_opening import READING_VERBS, SHOW_PROBLEMS
from webdataset.cli._main import wds as command
from webdataset.errors import StoreError, Where

TITLE = "\x1b[2J\x1b]0;owned\x07"  # clears the screen and renames the window
CLEAR = "\x9b2J"  # the same in one character
TURNED = "\u202egnp.exe"  # shown from right to left
FAKED = "\nwds: all is well\r"
NAMES = [TITLE, CLEAR, TURNED, FAKED]
OBEYED = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]|^wds: all is well", re.MULTILINE)


def write(path, members):
    with tarfile.open(path, "w", format=tarfile.PAX_FORMAT) as tar:
        for name, data in members:
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))


@pytest.fixture
def shards(tmp_path, monkeypatch):
    """Hostile keys, fields, values and file names, in shards that are good, broken, and full of things to complain of."""
    monkeypatch.chdir(tmp_path)
    write("here.tar", [("plain.txt", b"one")])
    values = "".join(NAMES).encode()
    good = [
        (f"a{name}.{kind}", b"1" if kind == "cls" else values) for name in NAMES for kind in ("txt", "cls", f"x{name}")
    ]
    write("good.tar", good)
    write(f"name{TITLE}.tar", good)
    write("twice.tar", [(f"a{TITLE}.txt", b"1"), (f"a{TITLE}.txt", b"2")])
    write("undecodable.tar", [(f"a{TITLE}.{kind}", values) for kind in ("jpg", "json", "cls", "npy", "pkl", "wav")])
    broken = Path("good.tar").read_bytes()
    Path("broken.tar").write_bytes(broken[: len(broken) // 2 + 100])
    return ["good.tar", f"name{TITLE}.tar", "twice.tar", "undecodable.tar", "broken.tar", f"missing{TITLE}.tar"]


MORE = {
    "ls": ("@", "-l"), "check": ("@", "--decode"), "stats": ("@", "--histogram"), "index": ("sample", 0, "@"),
    "proc": ("@", "-c", "exit 3", "-o", "o.tar"), "get": ("no such key", "txt", "@"),
}  # fmt: skip


# `first` writes the bytes of a field, and `serve` serves those shards that are good.
@pytest.mark.parametrize("verb", sorted(set(READING_VERBS) - {"first", "serve"}))
def test_no_verb_prints_what_a_terminal_obeys(verb, shards):
    said = ""
    for number, shard in enumerate(shards):
        for arguments in filter(None, (READING_VERBS[verb], MORE.get(verb))):
            line = [str(part).replace("@", shard).replace("out", f"out{number}") for part in arguments]
            # click removes the sequences that it knows where the output is no terminal
            result = CliRunner().invoke(command, [verb.split()[0], *line, "-v"], color=True)
            found = OBEYED.search(result.output)
            assert found is None, (line, result.output[max(0, found.start() - 80) : found.end() + 20])
            said += result.output
    assert "\\x1b" in said or verb in {"bench", "create", "simulate", *SHOW_PROBLEMS}, (
        "nothing hostile was shown: the test tries nothing"
    )


def test_an_error_of_the_library_is_one_line_that_a_terminal_shows(shards):
    """In a program of the user's own, in a log file, in a notebook."""
    with pytest.raises(wds.errors.DuplicateField) as caught:
        list(wds.WebDataset("twice.tar", shardshuffle=False))
    assert "a\\x1b[2J" in str(caught.value) and not OBEYED.search(str(caught.value))
    assert str(Where(key=FAKED)).isprintable()
    assert str(StoreError("two\nlines")) == "two\nlines"


def test_a_table_of_values_is_escaped_on_a_terminal_only(shards):
    """A file gets the values as they are."""
    line = [sys.executable, "-m", "webdataset", "show", "--format", "tsv", "good.tar"]
    piped = subprocess.run(line, capture_output=True, check=True).stdout
    assert TITLE.encode() in piped
    ours, theirs = pty.openpty()
    with subprocess.Popen(line, stdout=theirs):
        os.close(theirs)
        shown = b""
        while True:
            try:
                piece = os.read(ours, 1 << 16)
            except OSError:  # Linux: the other end was closed
                break
            if not piece:
                break
            shown += piece
    os.close(ours)
    assert b"\\x1b]0;owned" in shown and b"\x1b" not in shown
