"""The benchmarks can be started: what they import exists, so that a renamed function is noticed before someone measures."""

import json
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parent.parent / "benchmarks"


@pytest.mark.parametrize("path", sorted(BENCHMARKS.glob("*.py")), ids=lambda path: path.name)
def test_what_a_benchmark_imports_exists(path, monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    assert runpy.run_path(str(path), run_name="imported")["__doc__"]


def test_the_benchmark_of_the_index_runs():
    command = [sys.executable, BENCHMARKS / "index.py", "--small"]
    assert json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
