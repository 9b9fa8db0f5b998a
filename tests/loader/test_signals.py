"""Ctrl-C and kill -9 in the middle: a quick end, and nothing left behind."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

import webdataset

from .sources import assert_nothing_new_in_shared_memory, in_shared_memory

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
    before = in_shared_memory()
    with start(kind) as process:
        children = psutil.Process(process.pid).children(recursive=True)
        assert len(children) == (2 if kind == "processes" else 0)
        os.killpg(process.pid, signal.SIGINT)
        _, errors = process.communicate(timeout=30)
    assert process.returncode in (-signal.SIGINT, 130)
    assert "KeyboardInterrupt" in errors
    assert not end_of(children)
    assert_nothing_new_in_shared_memory(before)


@pytest.mark.parametrize("victim", ["parent", "worker"])
def test_kill_9_leaves_nothing(victim):
    before = in_shared_memory()
    with start("processes") as process:
        children = psutil.Process(process.pid).children(recursive=True)
        os.kill(process.pid if victim == "parent" else children[0].pid, signal.SIGKILL)
        _, errors = process.communicate(timeout=60) if victim == "worker" else (process.wait(30), "")
    assert not end_of(children)
    if victim == "worker":
        assert process.returncode == 1
        assert "killed by signal: Killed" in errors and "want of memory" in errors
    assert_nothing_new_in_shared_memory(before)


def test_a_tiny_dev_shm_is_enough():
    """Batches of 1.6 MB through 256 kB of /dev/shm, where torch's own hand-over ends in a bus error."""
    script = SCRIPT.replace("10**9", "20")
    command = f"mount -t tmpfs -o size=256k tmpfs /dev/shm && exec {sys.executable} -c '{script}' processes"
    if subprocess.run(["unshare", "-m", "mount", "-t", "tmpfs", "tmpfs", "/dev/shm"], capture_output=True).returncode:
        pytest.skip("needs the right to mount a file system")
    environment = {**os.environ, "PYTHONPATH": str(Path(webdataset.__file__).parents[1])}
    done = subprocess.run(
        ["unshare", "-m", "sh", "-c", command], capture_output=True, text=True, env=environment, timeout=60
    )
    assert (done.returncode, done.stdout) == (0, "ready\n"), done.stderr
