"""A checkpoint that one process saved is resumed by another, with another hash seed, for everything that is public."""

import json
import os
import subprocess
import sys
import threading
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

import webdataset as wds
from tests.state.public_pipelines import BY_NAME, OTHER, PIPELINES

# The first test waits for two processes that do everything public; on a busy machine that takes minutes.
pytestmark = pytest.mark.timeout(900)

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def outcomes(state_shards, tmp_path_factory):
    """What both processes wrote: one saves all pipelines, the next resumes all of them."""
    path = tmp_path_factory.mktemp("fresh-process") / "states.json"
    with serving(state_shards) as server:
        run_both(path, state_shards, server)
    return json.loads(path.read_text())


@contextmanager
def serving(directory):
    handler = type("Quiet", (SimpleHTTPRequestHandler,), {"log_message": lambda *_: None})
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(handler, directory=str(directory))) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


def run_both(path, directory, server):
    for seed, verb in (("1", "save"), ("2", "resume")):
        environment = {
            **os.environ,
            "PYTHONHASHSEED": seed,
            "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path]),
            "PYTHONWARNINGS": "ignore",
            "ALLOW_OBSOLETE": "1",  # MultiShardSample
            "STATE_SERVER": server,
        }
        command = [sys.executable, "-m", "tests.state.public_pipelines", verb, str(path)]
        subprocess.run(command, cwd=directory, env=environment, check=True, timeout=400)


def test_every_public_name_has_a_pipeline_or_is_none():
    public = {name for name in wds.__all__ if not _is_error(getattr(wds, name))}
    assert sorted(public - OTHER) == sorted(BY_NAME)


def _is_error(value):
    return isinstance(value, type) and issubclass(value, BaseException)


def test_every_fluid_method_has_a_pipeline():
    methods = {name for name in vars(wds.FluidInterface) if not name.startswith("_")}
    renamed = {"mcached": "Cached", "lmdb_cached": "LMDBCached", "dbcache": "DBCache", "pipe": "pipelinefilter"}
    renamed |= {"then": "pipelinefilter", "compose": "DataPipeline"}
    assert sorted(name for name in methods if renamed.get(name, name) not in BY_NAME) == []


@pytest.mark.parametrize("name", PIPELINES)
def test_resumes_in_a_fresh_process(name, outcomes):
    saved, resumed = outcomes[name]["saved"], outcomes[name]["resumed"]
    if saved.get("error", "").startswith(("MissingDependency", "ModuleNotFoundError")):
        pytest.skip(saved["error"])
    assert "error" not in saved, saved.get("trace")
    assert "error" not in resumed, resumed.get("trace")
    assert resumed["result"] == saved["result"]["expected"]


def test_sets_in_arguments_are_the_same_in_every_process():
    """Python gives a set of texts another order in each process."""
    texts = set()
    for seed in "123":
        environment = os.environ | {"PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path])}
        command = [sys.executable, "-m", "tests.state.sets"]
        texts.add(subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout)
    assert len(texts) == 1, texts
    assert all(f"{n}.tar" in text for text in texts for n in range(9))
