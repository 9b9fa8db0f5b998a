"""docs/checking.md: its commands run, and its table is that of the code.

`python -m tests.tools.test_checking_page` writes the table.
"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import webdataset
from tests.tools.caption_shards import write
from webdataset.tools import RULES

PAGE = Path(__file__).parents[2] / "docs" / "checking.md"
TABLE = re.compile(r"(<!-- findings -->\n).*?(<!-- end of findings -->)", re.S)
BLOCK = re.compile(r"(<!-- not run: [^\n]+ -->\s*)?^```sh\n(.*?)^```", re.S | re.M)


def table():
    rows = ["| kind | severity | who trips over it | what to do |", "|---|---|---|---|"]
    names = {"hf": "Hugging Face", "dali": "DALI", "gnu": "GNU tar", "windows": "Windows", None: "every reader"}
    rows += [f"| `{kind}` | {rule.severity} | {names[rule.target]} | {rule.remedy} |" for kind, rule in RULES.items()]
    return "\n".join(rows) + "\n"


def test_the_table_is_that_of_the_code():
    assert TABLE.search(PAGE.read_text())[0] == f"<!-- findings -->\n{table()}<!-- end of findings -->"


def commands():
    blocks = [found[2] for found in BLOCK.finditer(PAGE.read_text()) if found[1] is None]
    return [line for block in blocks for line in block.splitlines() if line.strip()]


def test_every_command_of_the_page_runs(tmp_path):
    if shutil.which("bash") is None:
        pytest.skip("there is no bash here")
    pytest.importorskip("duckdb", reason="duckdb is not installed: pip install 'webdataset[query]'")
    (tmp_path / "data").mkdir()
    rng = np.random.default_rng(0)
    for shard in range(8):
        fields = lambda n: {"jpg": rng.integers(0, 255, (16, 20, 3), dtype=np.uint8), "cls": n, "json": {"n": n}, "txt": f"number {n}"}  # noqa: E731
        write(tmp_path / f"data/train-{shard:06d}.tar", [(f"{shard:02d}{n:02d}", fields(n)) for n in range(10)])
    script = "set -e\nwds() { " + f'"{sys.executable}" -m webdataset "$@"; }}\n' + "\n".join(commands())
    source = str(Path(webdataset.__file__).parents[1])
    environment = {**os.environ, "PYTHONPATH": source}
    done = subprocess.run(["bash", "-c", script], cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "picture.jpg").read_bytes()[:2] == b"\xff\xd8"
    assert len((tmp_path / "keys.txt").read_text().split()) == 16


def test_the_page_names_every_verb_that_looks_checks_or_runs():
    text = PAGE.read_text()
    for verb in "ls show get first grep stats diff index query check bench simulate doctor".split():
        assert f"wds {verb} " in text


if __name__ == "__main__":
    PAGE.write_text(TABLE.sub(lambda found: f"{found[1]}{table()}{found[2]}", PAGE.read_text()))
