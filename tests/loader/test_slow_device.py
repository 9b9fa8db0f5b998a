"""The real streams, events and pinned memory of torch, on a device of our own whose copies come late; needs a compiler."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
TOOLS = ("c++", "ninja")


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.skipif(not all(map(shutil.which, TOOLS)), reason=f"{' and '.join(TOOLS)} build the device")
def test_batches_are_right_on_a_device_that_is_late(tmp_path):
    program = [sys.executable, "-m", "tests.loader.slow_device_program", HERE / "slow_device.cpp", tmp_path]
    result = subprocess.run(program, cwd=HERE.parents[1], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    found = json.loads(result.stdout.splitlines()[-1])
    assert list(found) == ["threads 0", "threads 2", "processes 0", "processes 2"]
    for loader, seen in found.items():
        assert seen["right"] and seen["resumed"], loader
        assert seen["pinned"] == seen["copied beside"] == seen["guarded"] == 120, loader  # two tensors, sixty batches
        assert seen["streams"] == (1 if loader == "threads 0" else 0), loader
