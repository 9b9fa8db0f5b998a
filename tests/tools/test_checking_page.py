"""docs/checking.md: its commands run, and its table is that of the code.

`python -m tests.tools.test_checking_page` writes the table.
"""

import re
import shlex
from pathlib import Path

import numpy as np
import pytest

from tests.cli.running import run
from tests.tools.caption_shards import write
from webdataset.tools import Kind

PAGE = Path(__file__).parents[2] / "docs" / "checking.md"
TABLE = re.compile(r"(<!-- findings -->\n).*?(<!-- end of findings -->)", re.S)
BLOCK = re.compile(r"(<!-- not run: [^\n]+ -->\s*)?^```sh\n(.*?)^```", re.S | re.M)


def table():
    rows = ["| kind | severity | which program is affected | what to do |", "|---|---|---|---|"]
    names = {"hf": "Hugging Face", "dali": "DALI", "gnu": "GNU tar", "windows": "Windows", None: "every reader"}
    rows += [f"| `{kind}` | {kind.severity} | {names[kind.target]} | {kind.remedy} |" for kind in Kind]
    return "\n".join(rows) + "\n"


def test_the_table_is_that_of_the_code():
    assert TABLE.search(PAGE.read_text())[0] == f"<!-- findings -->\n{table()}<!-- end of findings -->"


def commands():
    blocks = [found[2] for found in BLOCK.finditer(PAGE.read_text()) if found[1] is None]
    return [line for block in blocks for line in block.splitlines() if line.strip()]


def run_line(line):
    """One line of a shell script, in this process; `> FILE` is all that it may have of a shell's language."""
    words = shlex.split(line, comments=True)
    target = words[words.index(">") + 1] if ">" in words else None
    words = words[: words.index(">")] if ">" in words else words
    assert words[0] == "wds"
    result = run(*words[1:])
    if target is not None:
        Path(target).write_bytes(result.stdout_bytes)


def test_every_command_of_the_page_runs(tmp_path, monkeypatch):
    pytest.importorskip("duckdb", reason="duckdb is not installed: pip install 'webdataset[query]'")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data").mkdir()
    rng = np.random.default_rng(0)
    for shard in range(8):
        samples = []
        for n in range(10):
            picture = rng.integers(0, 255, (16, 20, 3), dtype=np.uint8)
            samples.append((f"{shard:02d}{n:02d}", {"jpg": picture, "cls": n, "json": {"n": n}, "txt": f"number {n}"}))
        write(tmp_path / f"data/train-{shard:06d}.tar", samples)
    for line in commands():
        run_line(line)
    assert (tmp_path / "picture.jpg").read_bytes()[:2] == b"\xff\xd8"
    assert len((tmp_path / "keys.txt").read_text().split()) == 16


def test_the_page_names_every_verb_that_looks_checks_or_runs():
    text = PAGE.read_text()
    for verb in "ls show get first grep stats diff index query check bench simulate doctor".split():
        assert f"wds {verb} " in text


if __name__ == "__main__":
    PAGE.write_text(TABLE.sub(lambda found: f"{found[1]}{table()}{found[2]}", PAGE.read_text()))
