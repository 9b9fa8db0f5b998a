"""A checkpoint that one process saved is resumed by another, with another hash seed, for everything that is public."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import webdataset as wds
from tests.state.public_pipelines import BY_NAME, OTHER, PIPELINES

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def outcomes(state_shards, tmp_path_factory):
    """What both processes wrote: one saves all pipelines, the next resumes all of them."""
    path = tmp_path_factory.mktemp("fresh-process") / "states.json"
    for seed, verb in (("1", "save"), ("2", "resume")):
        environment = {
            **os.environ,
            "PYTHONHASHSEED": seed,
            "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path]),
            "PYTHONWARNINGS": "ignore",
        }
        command = [sys.executable, "-m", "tests.state.public_pipelines", verb, str(path)]
        subprocess.run(command, cwd=state_shards, env=environment, check=True, timeout=100)
    return json.loads(path.read_text())


def test_every_public_name_has_a_pipeline_or_is_none():
    errors = {name for name in wds.__all__ if isinstance(getattr(wds, name), type) and _is_error(name)}
    assert sorted(set(wds.__all__) - errors - OTHER) == sorted(set(BY_NAME) - {"tar_file_expander"})
    assert not OTHER & set(BY_NAME)


def _is_error(name):
    return issubclass(getattr(wds, name), BaseException)


@pytest.mark.parametrize("name", PIPELINES)
def test_resumes_in_a_fresh_process(name, outcomes):
    saved, resumed = outcomes[name]["saved"], outcomes[name]["resumed"]
    assert "error" not in saved, saved.get("trace")
    assert "error" not in resumed, resumed.get("trace")
    assert resumed["result"] == saved["result"]["expected"]
