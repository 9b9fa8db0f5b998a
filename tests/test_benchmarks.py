"""The benchmarks run, and so does every command by which the documents say that something was measured.

With `BENCH_SMALL` they have little data, one round, and no other libraries: how fast it was is not the question here.
"""

import os
import re
import runpy
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
BENCHMARKS = ROOT / "benchmarks"
DOCUMENTS = [ROOT / "README.md", BENCHMARKS / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
# The others take minutes together.
QUICK = {"index.py", "read.py --rows views", "stages.py", "transport.py loopback", "write.py"}


def commands():
    """What the documents say after `python benchmarks/`, each once."""
    text = "\n".join(path.read_text() for path in DOCUMENTS if "_build" not in path.parts)
    return sorted({match.strip() for match in re.findall(r"python benchmarks/(\w+\.py[^`\n#]*)", text)})


def marked(command):
    return pytest.param(command, marks=[] if command in QUICK else pytest.mark.long)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Run a command of the documents with little data, and return its lines. The data are made once."""
    environment = os.environ | {"BENCH_SMALL": str(tmp_path_factory.mktemp("bench"))}

    def run(command):
        name, *words = shlex.split(command)
        done = subprocess.run(
            [sys.executable, BENCHMARKS / name, *words], capture_output=True, text=True, check=False, env=environment
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.splitlines()

    return run


@pytest.mark.parametrize("path", sorted(BENCHMARKS.glob("*.py")), ids=lambda path: path.name)
def test_what_a_benchmark_imports_exists(path, monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    assert runpy.run_path(str(path), run_name="imported")["__doc__"]


def test_commands_are_found():
    assert set(commands()) >= QUICK


def test_a_benchmark_that_is_named_exists():
    texts = [path.read_text() for path in (*DOCUMENTS, *(ROOT / "src").rglob("*.py"))]
    assert {name for text in texts for name in re.findall(r"benchmarks/(\w+\.py)", text)} <= set(os.listdir(BENCHMARKS))


@pytest.mark.parametrize("command", commands())
def test_a_command_of_the_documents_has_options_that_exist(command, monkeypatch, capsys):
    name, *words = shlex.split(command)
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    monkeypatch.setattr(sys, "argv", [name, *words, "--help"])
    with pytest.raises(SystemExit) as ended:
        runpy.run_path(str(BENCHMARKS / name), run_name="__main__")
    assert ended.value.code == 0, capsys.readouterr().err


@pytest.mark.parametrize("command", [marked(command) for command in commands()])
def test_a_command_of_the_documents_runs(command, run):
    if "--again" in command:
        run("bench.py --rows tokens")
    if command.startswith("before.py") and not is_commit(shlex.split(command)[1]):
        pytest.skip("the history of this repository is not here")
    lines = run(command)
    assert lines
    if not command.startswith("before.py"):  # an older commit may fail at what it could not do yet
        assert not [line for line in lines if "skipped: fails" in line]


def is_commit(name):
    return not subprocess.run(
        ["git", "-C", ROOT, "cat-file", "-e", f"{name}^{{commit}}"], capture_output=True
    ).returncode


@pytest.mark.skipif(not is_commit("HEAD"), reason="not a git repository")
def test_two_commits_are_compared_and_the_worktree_is_removed(run):
    worktrees = ["git", "-C", ROOT, "worktree", "list"]
    before = subprocess.check_output(worktrees)
    _, _, *rows = run('before.py HEAD --rows tokens "index text" "photo bytes, gzip"')
    assert len(rows) == 5
    for row in rows:
        assert re.fullmatch(r"\| [^|]+( \| [\d,]+/s \([\d,.]+ µs\)){2}( \| [\d.]+){2} \|", row)
    assert subprocess.check_output(worktrees) == before
