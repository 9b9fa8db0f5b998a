"""`wds serve` and `wds monitor`, as processes and as functions."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

import webdataset as wds
from tests.serve.conftest import free_address
from tests.serve.pipelines import batches, stream
from webdataset.cli._main import wds as command
from webdataset.serve import Worker
from webdataset.tools import names_function

ROOT = Path(__file__).parents[2]
ENVIRONMENT = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "src")])}

DATA = """
from tests.serve.pipelines import batches
def make():
    return batches({shards!r})
"""


def test_a_file_is_served_until_it_is_told_to_end(few, tmp_path):
    (tmp_path / "data.py").write_text(DATA.format(shards=few))
    worker = subprocess.Popen(
        [sys.executable, "-m", "webdataset", "serve", "data.py:make", "--bind", "tcp://127.0.0.1:*", "--json"],
        stdout=subprocess.PIPE,
        text=True,
        env=ENVIRONMENT,
        cwd=tmp_path,
    )
    address = json.loads(worker.stdout.readline())["address"]
    assert stream(wds.connect(address, patience=2, timeout=20)) == stream(batches(few))
    worker.send_signal(signal.SIGTERM)
    worker.communicate()
    assert worker.returncode == 128 + signal.SIGTERM


def test_errors_are_one_sentence(few, tmp_path):
    def run(*words):
        return CliRunner().invoke(command, ["serve", *words])

    assert "there are no keys" in run(few[0], "--bind", "tcp://0.0.0.0:7880").output
    assert "PIPELINE is missing" in run().output
    assert "has no function 'absent'" in run("tests.serve.pipelines:absent").output
    assert "No module named 'absent'" in run("absent:make").output
    assert "does not exist" in run(f"{tmp_path}/absent.py:make").output
    assert not names_function(few[0])


def test_new_keys(tmp_path):
    result = CliRunner().invoke(command, ["serve", "--new-keys", str(tmp_path / "keys"), "--json"])
    assert json.loads(result.output) == {
        "worker": str(tmp_path / "keys/worker.key"),
        "trainer": str(tmp_path / "keys/trainer.key"),
    }


def test_monitor(few):
    silent = free_address()
    with Worker(batches(few)) as worker:
        stream(wds.connect(worker.address, patience=2))
        words = ["monitor", worker.address, silent, "-c", "1", "-r", "0", "--timeout", "1", "--json"]
        result = CliRunner().invoke(command, words, catch_exceptions=False)
    found = json.loads(result.output)
    assert [each["address"] for each in found["workers"]] == [worker.address, silent]
    assert found["workers"][1]["problem"] == "no connection"
    assert found["bottleneck"] == "No trainer asks for anything."


@pytest.mark.long
def test_shards_are_served_with_options(few):
    worker = subprocess.Popen(
        [sys.executable, "-m", "webdataset", "serve", *few, "--bind", "tcp://127.0.0.1:*", "--json"]
        + ["-b", "4", "--decode", "", "--fields", "__key__ cls", "--order", "random", "--seed", "3", "-j", "2"],
        stdout=subprocess.PIPE,
        text=True,
        env=ENVIRONMENT,
    )
    try:
        address = json.loads(worker.stdout.readline())["address"]
        local = wds.WebDataset(few, order="random", seed=3).decode().to_tuple("__key__", "cls").batched(4)
        assert stream(wds.connect(address, patience=2, timeout=20)) == stream(local)
    finally:
        worker.kill()
        worker.communicate()


@pytest.mark.long
@pytest.mark.timeout(900)  # Ray starts a dozen processes
@pytest.mark.leaks_allowed
def test_workers_on_ray(few):
    ray = pytest.importorskip("ray", reason="ray is not installed")
    ray.init(
        num_cpus=2,
        include_dashboard=False,
        logging_level="error",
        runtime_env={"env_vars": {"PYTHONPATH": ENVIRONMENT["PYTHONPATH"]}},
    )
    try:
        with wds.serve_on_ray(lambda: batches(few), workers=2, insecure=True) as workers:
            dataset = wds.connect(workers.addresses, insecure=True, patience=2, timeout=60)
            assert stream(dataset) == stream(batches(few))
    finally:
        ray.shutdown()
