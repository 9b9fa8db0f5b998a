"""Whatever is done to a file, reading it ends, stays below its limits, and raises nothing but the library's errors."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="needs /proc to know how much is in use")
HERE = Path(__file__).parents[2]
# Those that import little.
QUICK = (
    "tar",
    "packed tar.zst",
    "tar, indexed",
    "tar, checked",
    "tar, repaired",
    "index",
    "description",
    "npz, inside",
    "npz of rows",
    "zip of samples",
    "mds/shard.00000.mds",
    "litdata-dicts/chunk-0-0.bin",
    "beton",
)


def read_mutated(first, count, *names):
    environment = os.environ | {"PYTHONPATH": f"{HERE / 'src'}{os.pathsep}{HERE}", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "tests.mutated.run", str(first), str(count), *names]
    done = subprocess.run(command, capture_output=True, env=environment, cwd=HERE, errors="replace", text=True)
    assert done.returncode == 0, f"status {done.returncode}:\n{done.stdout[-3000:]}\n{done.stderr[-1000:]}"


def test_mutated_files_neither_kill_nor_hang_nor_fill():
    read_mutated(0, 8, *QUICK)


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("first", range(1000, 2000, 50))
def test_mutated_files_of_every_kind_neither_kill_nor_hang_nor_fill(first):
    read_mutated(first, 50)
