"""Every test must leave the process as it found it: descriptors, threads, children, shared memory, temporary files."""

import gc
import multiprocessing.forkserver
import multiprocessing.resource_tracker
import multiprocessing.util
import os
import shutil
import signal
import sys
import tempfile
import threading
import time
from contextlib import suppress
from importlib.util import find_spec
from itertools import count
from pathlib import Path

import hypothesis
import psutil
import pytest

from webdataset.loader import _thread_choice

# A deadline per example would be a timing assertion: on a busy machine it fails for no fault of the code.
hypothesis.settings.register_profile("project", deadline=None)
hypothesis.settings.load_profile("project")

# A runner in the background of a shell ignores Ctrl-C, and so would the programs that tests start and interrupt.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# This process's temporary files, apart from those of others; pytest keeps its own where they were.
os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", tempfile.gettempdir())
_TEMPORARY = tempfile.mkdtemp(prefix="wds-", dir=os.environ["PYTEST_DEBUG_TEMPROOT"])
os.environ["TMPDIR"] = tempfile.tempdir = _TEMPORARY
# After the directories that multiprocessing makes in it, which it removes with priority -100.
multiprocessing.util.Finalize(None, shutil.rmtree, args=(_TEMPORARY, True), exitpriority=-200)

# Functions of one item run on a loader's threads, however cheap they are: in place is what a loader without them does.
_thread_choice._EXPENSIVE = 0.0

# Python's own helpers for spawned processes live as long as the interpreter: start them before anybody counts.
multiprocessing.resource_tracker.ensure_running()
if multiprocessing.get_all_start_methods()[0] == "forkserver":  # the default since Python 3.14
    if find_spec("torch") is not None:
        multiprocessing.set_forkserver_preload(["torch"])  # each worker would import it again, for seconds
    multiprocessing.forkserver.ensure_running()


def _descriptors():
    """What our descriptors point to; sockets and pipes of the test runner itself come and go with their inode numbers."""
    here = Path("/proc/self/fd")
    if not here.exists():
        return set()
    found = set()
    for entry in here.iterdir():
        try:
            target = os.readlink(entry)
        except OSError:
            continue
        # Datasets that live longer than a test share their epoch counters at the first fork (pipeline/test_epoch_counter.py).
        if "/dev/" not in target and "/proc/" not in target and "wds-epochs-" not in target:
            found.add((entry.name, target))
    return found


def _shared_memory():
    """What this process has in /dev/shm; other test processes have theirs there too, so names tell them apart."""
    here = str(os.getpid())
    return {name for name in os.listdir("/dev/shm") if here in name} if os.path.isdir("/dev/shm") else set()


def _temporary_files():
    """Directories of `multiprocessing`, torch, Dask and Ray live as long as the process."""
    return {name for name in os.listdir(_TEMPORARY) if not name.startswith(("pymp-", "torch", "dask", "ray"))}


def _children():
    """The processes that this one and its children started; looking through all processes takes 25 times as long."""
    if not os.path.exists("/proc/self/task"):
        return {child.pid for child in psutil.Process().children(recursive=True)}
    found, parents = set(), [os.getpid()]
    while parents:
        here = f"/proc/{parents.pop()}/task"
        with suppress(FileNotFoundError, ProcessLookupError):  # it has ended meanwhile
            for thread in os.listdir(here):
                children = Path(here, thread, "children").read_text().split()
                found.update(children)
                parents += children
    return found


def _observe():
    return {
        "descriptors": _descriptors(),
        "threads": {thread for thread in threading.enumerate() if thread.is_alive()},
        "children": _children(),
        "shared memory": _shared_memory(),
        "temporary files": _temporary_files(),
    }


@pytest.fixture(autouse=True)
def nothing_left_behind(request):
    """Fail a test that leaks. Mark a module-wide server fixture by starting it before the test (autouse order)."""
    if "leaks_allowed" in request.keywords:
        yield
        return
    before = _observe()
    yield
    if "webdataset.stores" in sys.modules:
        sys.modules["webdataset.stores"].close_connections()  # kept open on purpose; given back before we look
    deadline = time.monotonic() + 5
    for looks in count():  # many, too: a machine that stands still for five seconds is no leak
        after = _observe()
        leaked = {kind: after[kind] - before[kind] for kind in before if after[kind] - before[kind]}
        if not leaked or (looks > 50 and time.monotonic() > deadline):
            break
        gc.collect()  # only when something may be waiting for it
        time.sleep(0.02)
    assert not leaked, f"left behind: {leaked}"


def pytest_collection_finish():
    """Thousands of tests live as long as the run: looking at them takes garbage collection half a second each time."""
    gc.collect()
    gc.freeze()


def pytest_sessionfinish():
    gc.unfreeze()  # or libraries say at the end that their objects are still there
