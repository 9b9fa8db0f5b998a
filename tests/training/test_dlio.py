"""DLIO reads shards through our loader. DLIO needs an environment of its own: DLIO_VENV names it (`examples/dlio/run venv`)."""

import os
import re
import subprocess

import pytest

from .torchrun import EXAMPLES, environment

pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]


@pytest.mark.parametrize("ranks", [1, 2])
def test_dlio_trains_on_our_shards(tmp_path, ranks):
    venv = os.environ.get("DLIO_VENV")
    if venv is None:
        pytest.skip("needs DLIO_VENV: an environment made by examples/dlio/run venv")
    as_root = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    variables = {"DATA": str(tmp_path), "VENV": venv, "FILES": "128", "RANKS": str(ranks), **as_root}
    clean = environment(**variables) | {"PYTHONPATH": str(EXAMPLES.parent / "src")}

    def run(verb):
        command = [str(EXAMPLES / "dlio" / "run"), verb]
        result = subprocess.run(command, env=clean, capture_output=True, text=True, timeout=400)
        assert result.returncode == 0, result.stdout + result.stderr
        return result.stdout

    assert "train: 128 images in 1 shards" in run("generate")
    printed = run("shards")
    assert len(re.findall(r"Epoch [123] .*Throughput .*: [\d.]+", printed)) == 6, printed  # processes, and threads
    steps = 128 // 32 // ranks
    assert (
        f"Starting epoch 3: {steps} steps expected" in (tmp_path / "the-same-jpegs-in-shards-threads.log").read_text()
    )
