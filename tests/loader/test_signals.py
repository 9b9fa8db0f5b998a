"""Ctrl-C and kill -9 in the middle: a quick end, and nothing left behind."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

import webdataset

SCRIPT = """
import sys, time
import numpy as np
import webdataset as wds

def big(number):
    time.sleep(0.001)
    return {"x": np.full(200_000, number)}

settings = {"threads": {"workers": "threads"}, "processes": {"batch_size": None}}[sys.argv[1]]
loader = wds.WebLoader(wds.DataPipeline(range(10**9), wds.map(big)), num_workers=2, **settings)
for number, batch in enumerate(loader):
    if number == 5:
        print("ready", flush=True)
"""


def start(kind):
    process = subprocess.Popen(
        [sys.executable, "-c", SCRIPT, kind],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(Path(webdataset.__file__).parents[1])},
        start_new_session=True,
    )
    assert process.stdout.readline() == "ready\n"
    return process


def end_of(children, seconds=20):
    """torch's workers look for their parent every five seconds."""
    _, alive = psutil.wait_procs(children, timeout=seconds)
    for process in alive:
        process.kill()
    return alive


@pytest.mark.parametrize("kind", ["threads", "processes"])
def test_ctrl_c_ends_everything(kind):
    before = set(os.listdir("/dev/shm"))
    with start(kind) as process:
        children = psutil.Process(process.pid).children(recursive=True)
        assert len(children) == (2 if kind == "processes" else 0)
        os.killpg(process.pid, signal.SIGINT)
        _, errors = process.communicate(timeout=30)
    assert process.returncode in (-signal.SIGINT, 130)
    assert "KeyboardInterrupt" in errors
    assert not end_of(children)
    assert_no_residue(before)


@pytest.mark.parametrize("victim", ["parent", "worker"])
def test_kill_9_leaves_nothing(victim):
    before = set(os.listdir("/dev/shm"))
    with start("processes") as process:
        children = psutil.Process(process.pid).children(recursive=True)
        os.kill(process.pid if victim == "parent" else children[0].pid, signal.SIGKILL)
        _, errors = process.communicate(timeout=60) if victim == "worker" else (process.wait(30), "")
    assert not end_of(children)
    if victim == "worker":
        assert process.returncode == 1
        assert "killed by signal: Killed" in errors and "want of memory" in errors
    assert_no_residue(before)


def assert_no_residue(before):
    """Other processes of this machine may use shared memory as well, for a moment."""
    deadline = time.monotonic() + 5
    while (new := set(os.listdir("/dev/shm")) - before) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not new
