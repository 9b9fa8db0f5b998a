"""Ctrl-C and kill -9 in the middle: a quick end, and nothing left behind."""

import os
import queue
import signal
import subprocess
import sys
import threading
from pathlib import Path

import psutil
import pytest
from torch.utils.data import DataLoader

import webdataset
from webdataset.loader import _processes

from .sources import assert_nothing_new_in_shared_memory, in_shared_memory

SCRIPT = """
import sys, time
import numpy as np
import webdataset as wds

def big(number):
    time.sleep(0.001)
    return {"x": np.full(200_000, number)}

dataset = wds.DataPipeline(range(10**9), wds.map(big))
settings = {"threads": {"workers": "threads"}, "samples": {"batch_size": 1, "shuffle": False}}.get(sys.argv[1])
if settings is None:
    settings = {"batch_size": None}
if sys.argv[1] == "map-style":
    dataset = type("Numbers", (), {"__len__": lambda self: 10**6, "__getitem__": lambda self, n: big(n)})()
    settings["multiprocessing_context"] = "fork"  # such a class cannot be sent to a new process
loader = wds.WebLoader(dataset, num_workers=2, **settings)
for number, batch in enumerate(loader):
    if number == 5:
        print("ready", flush=True)
"""


def environment():
    return {**os.environ, "PYTHONPATH": str(Path(webdataset.__file__).parents[1])}


def hears_ctrl_c():
    """Whoever runs the tests in the background may have switched it off, and children inherit that."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def start(kind):
    process = subprocess.Popen(
        [sys.executable, "-c", SCRIPT, kind],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(),
        start_new_session=True,
        preexec_fn=hears_ctrl_c,
    )
    assert process.stdout.readline() == "ready\n"
    return process


def all_of(process):
    """The processes that a program has started, and those among them that are workers: the others start them."""
    children = psutil.Process(process.pid).children(recursive=True)
    workers = [child for child in children if not child.children() and "resource_tracker" not in str(child.cmdline())]
    return children, workers


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
        children, workers = all_of(process)
        assert len(workers) == (2 if kind == "processes" else 0)
        os.killpg(process.pid, signal.SIGINT)
        _, errors = process.communicate(timeout=30)
    assert process.returncode in (-signal.SIGINT, 130)
    assert "KeyboardInterrupt" in errors
    assert not end_of(children)
    assert_nothing_new_in_shared_memory(before)


@pytest.mark.parametrize("kind", ["processes", "samples", "map-style"])
def test_workers_end_with_a_parent_that_was_killed(kind):
    """Also those that have something to send: torch's own would wait for its receiver for ever."""
    with start(kind) as process:
        children, workers = all_of(process)
        assert len(workers) == 2
        process.kill()
    assert not end_of(children)


WAITING = """
import sys
import torch
import webdataset as wds
from webdataset.multi import MultiLoader

if __name__ == "__main__":
    dataset = wds.WebDataset([f"pipe:cat a.tar; sleep {n}" for n in (1000, 1001)]).to_tuple("txt")
    loaders = {
        "torch": lambda: torch.utils.data.DataLoader(dataset, num_workers=2, batch_size=None),
        "WebLoader": lambda: wds.WebLoader(dataset, num_workers=2, batch_size=None),
        "MultiLoader": lambda: MultiLoader(dataset, workers=2),
    }
    for _ in loaders[sys.argv[1]]():
        print("ready", flush=True)
"""


@pytest.mark.parametrize(
    ("kind", "ending"),
    [
        ("torch", signal.SIGKILL),
        ("MultiLoader", signal.SIGTERM),
        *(
            pytest.param(*case, marks=pytest.mark.long)
            for case in (
                ("torch", signal.SIGTERM),
                ("MultiLoader", signal.SIGKILL),
                ("WebLoader", signal.SIGKILL),
                ("WebLoader", signal.SIGTERM),
            )
        ),
    ],
)
def test_workers_that_wait_for_a_command_end_with_their_parent(kind, ending, tmp_path):
    """Of every loader, torch's own too: a worker does not look for its parent while it waits."""
    with webdataset.TarWriter(str(tmp_path / "a.tar")) as writer:
        for number in range(100):
            writer.write({"__key__": str(number), "txt": "x"})
    program = [sys.executable, "-c", WAITING, kind]
    with subprocess.Popen(program, stdout=subprocess.PIPE, text=True, env=environment(), cwd=tmp_path) as process:
        children = []
        try:
            while len(children) < 6:  # two workers, two commands and their guards
                assert process.stdout.readline() == "ready\n"
                children = psutil.Process(process.pid).children(recursive=True)
        except BaseException:
            process.kill()
            raise
        process.send_signal(ending)
    assert not end_of(children)


@pytest.mark.parametrize("victim", ["parent", "worker"])
def test_kill_9_leaves_nothing(victim):
    before = in_shared_memory()
    with start("processes") as process:
        children, workers = all_of(process)
        os.kill(process.pid if victim == "parent" else workers[0].pid, signal.SIGKILL)
        _, errors = process.communicate(timeout=60) if victim == "worker" else (process.wait(30), "")
    assert not end_of(children)
    if victim == "worker":
        assert process.returncode == 1
        # Who notices first is a race: torch's signal handler, our opening of the batch that the worker had announced, or
        # torch's look at its workers every five seconds, if the handler's error came up where Python ignores errors.
        said = ("killed by signal: Killed", "was killed while its batch was being sent", "exited unexpectedly")
        assert any(each in errors for each in said)
        assert "out of memory" in errors
    assert_nothing_new_in_shared_memory(before)


AT_ANY_MOMENT = """
import faulthandler, random, signal, sys
import webdataset as wds

class Interrupt(Exception):
    pass

def interrupt(*_):
    raise Interrupt

faulthandler.dump_traceback_later(180, exit=True)
signal.signal(signal.SIGALRM, interrupt)
sys.setswitchinterval(1e-5)
for number in range(3000):
    loader = wds.WebLoader(wds.DataPipeline(range(10**9), wds.map(abs)), batch_size=None, num_workers=2, workers="threads")
    items = iter(loader)
    next(items)  # threading itself is not safe while a thread starts
    try:
        signal.setitimer(signal.ITIMER_REAL, random.uniform(0.0001, 0.006))
        for item in items:
            pass
    except Interrupt:
        continue
"""


@pytest.mark.long  # and left to chance
def test_an_interrupt_may_come_at_any_moment():
    """With a lock that is taken in Python code, once in a thousand interrupts nobody gives it back."""
    done = subprocess.run(
        [sys.executable, "-c", AT_ANY_MOMENT], capture_output=True, text=True, env=environment(), timeout=200
    )
    assert done.returncode == 0, done.stderr


def test_a_lock_that_an_interrupt_left_taken_does_not_keep_the_workers():
    posts = iter(DataLoader(range(1000), num_workers=2))
    next(posts)
    workers = posts._workers
    posts._index_queues[1]._notempty.acquire()
    _processes._end_workers(posts)
    assert not any(worker.is_alive() for worker in workers)


class Pinning:
    """As torch's iterator where memory is pinned: when it ends it waits for the thread that fills this queue."""

    def __init__(self):
        self._data_queue = queue.Queue()
        self.filling = threading.Thread(target=self._data_queue.put, args=("a batch",), daemon=True)

    def _shutdown_workers(self):
        self.filling.start()
        self.filling.join(5)


def test_a_lock_that_an_interrupt_left_taken_does_not_keep_the_thread_that_pins():
    posts = Pinning()
    posts._data_queue.mutex.acquire()
    _processes._end_workers(posts)
    waits_for_ever = posts.filling.is_alive()
    if waits_for_ever:
        posts._data_queue.mutex.release()
        posts.filling.join()
    assert not waits_for_ever


ON_THE_WAY = """
import ctypes, os, signal
from webdataset.errors import StageError
from webdataset.loader._shared_memory import Block, receive

if os.getuid() == 0:  # others are told something else about the dead
    os.setuid(65534)
    PR_SET_DUMPABLE = 4
    ctypes.CDLL(None).prctl(PR_SET_DUMPABLE, 1)
here, there = os.pipe()
child = os.fork()
if child == 0:
    block = Block(100)
    os.write(there, repr(block.send()).encode())
    signal.pause()
posted = eval(os.read(here, 100))
print(len(receive(*posted)))
os.kill(child, signal.SIGKILL)
os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)
for reap in (lambda: None, lambda: os.waitpid(child, 0)):
    reap()
    try:
        receive(*posted)
    except StageError as error:
        print(str(error).replace(str(child), "N"))
"""


def test_a_batch_of_a_worker_that_was_killed_meanwhile():
    done = subprocess.run(
        [sys.executable, "-c", ON_THE_WAY], capture_output=True, text=True, env=environment(), timeout=60
    )
    assert done.returncode == 0, done.stderr
    size, *errors = done.stdout.splitlines()
    assert int(size) >= 100
    assert len(errors) == 2
    for error in errors:
        assert error.startswith("worker process N was killed while its batch was being sent – ")


@pytest.mark.parametrize("batch_size", [2, pytest.param(None, marks=pytest.mark.long)])
def test_a_tiny_dev_shm_is_enough(batch_size):
    """Batches of 1.6 MB through 256 kB of /dev/shm, where torch's own collation and hand-over end in an error."""
    script = SCRIPT.replace("10**9", "20").replace('"batch_size": None', f'"batch_size": {batch_size}')
    command = f"mount -t tmpfs -o size=256k tmpfs /dev/shm && exec {sys.executable} -c '{script}' processes"
    if subprocess.run(["unshare", "-m", "mount", "-t", "tmpfs", "tmpfs", "/dev/shm"], capture_output=True).returncode:
        pytest.skip("needs the right to mount a file system")
    done = subprocess.run(
        ["unshare", "-m", "sh", "-c", command], capture_output=True, text=True, env=environment(), timeout=60
    )
    assert (done.returncode, done.stdout) == (0, "ready\n"), done.stderr
