"""Jobs whose driver or workers are killed at any moment, on every engine: the same bytes, and nothing left behind."""

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.tools.datasets import digests, hidden, write_inputs
from tests.tools.mapping import Upper
from webdataset.tools import map_shards

PROGRAM = Path(__file__).with_name("mapping.py")


def run(folder, workers=1, engine="local", kill=0, **options):
    command = [sys.executable, str(PROGRAM), str(folder), str(workers), engine, str(kill)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options)


def finish(process):
    stdout, stderr = process.communicate(timeout=300)
    assert process.returncode == 0, stderr
    return json.loads(stdout)


def go_on(folder):
    """What the program does, in this process; the report."""
    inputs = sorted(str(path) for path in (folder / "in").glob("*.tar"))
    return map_shards(Upper(), inputs, f"{folder}/out/", job="upper", description=f"{folder}/out/all.json")


@pytest.fixture
def expected(tmp_path):
    write_inputs(tmp_path)
    go_on(tmp_path)
    found = digests(tmp_path / "out")
    assert len(found) == 11
    shutil.rmtree(tmp_path / "out")
    return found


def leftovers_are_swept(folder, expected):
    assert digests(folder / "out") == expected
    assert hidden(folder / "out") == []


def check_driver_killed_at(tmp_path, expected, points):
    for point in points:
        process = run(tmp_path, kill=point)
        process.communicate(timeout=120)
        died = process.returncode == -signal.SIGKILL
        published = digests(tmp_path / "out")
        assert all(expected[name] == digest for name, digest in published.items()), "something half-written"
        go_on(tmp_path)
        leftovers_are_swept(tmp_path, expected)
        for path in (tmp_path / "out").iterdir():
            path.unlink()
        if not died:
            return point
    return None


def test_the_driver_is_killed_at_any_change_of_a_file(tmp_path, expected):
    check_driver_killed_at(tmp_path, expected, [4, 23])


@pytest.mark.long
def test_the_driver_is_killed_at_every_change_of_a_file(tmp_path, expected):
    assert check_driver_killed_at(tmp_path, expected, range(1, 1000)) is not None


def check_random_kills(tmp_path, expected, times, rng):
    """Kill the driver, or one of its workers, at a random moment of its work, again and again.

    The moment is drawn from the time that the work takes here, which an undisturbed run tells.
    """
    out = tmp_path / "out"
    shutil.rmtree(out, ignore_errors=True)
    duration = seconds_of_work(run(tmp_path, workers=2), out)
    shutil.rmtree(out)
    kills = 0
    while kills < times:
        process = run(tmp_path, workers=2)
        wait_for_ledger(process, out)
        try:
            process.wait(timeout=rng.uniform(0, duration))
        except subprocess.TimeoutExpired:
            victim = process.pid
            if rng.random() < 0.5:
                victim = rng.choice(workers_of(process.pid) or [process.pid])
            kill(victim)
            kills += 1
        process.communicate(timeout=120)
        assert expected.items() >= digests(out).items(), "something half-written"
        if process.returncode == 0:
            assert digests(out) == expected
            shutil.rmtree(out)
    go_on(tmp_path)
    leftovers_are_swept(tmp_path, expected)


def seconds_of_work(process, out):
    wait_for_ledger(process, out)
    start = time.perf_counter()
    finish(process)
    return time.perf_counter() - start


def wait_for_ledger(process, out):
    """Until the job has begun: its ledger is there."""
    while process.poll() is None and not list(out.glob(".wds-*")):
        time.sleep(0.001)


def workers_of(pid):
    import psutil

    try:
        return [child.pid for child in psutil.Process(pid).children() if "spawn_main" in " ".join(child.cmdline())]
    except psutil.Error:
        return []


def kill(pid):
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


def test_workers_and_driver_are_killed_at_random(tmp_path, expected):
    check_random_kills(tmp_path, expected, 2, random.Random(0))


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_workers_and_driver_are_killed_at_a_thousand_random_points(tmp_path, expected):
    check_random_kills(tmp_path, expected, 1000, random.Random(1))


def test_workers_end_with_their_driver(tmp_path, expected):
    """No worker outlives a driver that was killed: nobody would ever end it."""
    import psutil

    process = run(tmp_path, workers=2)
    children = []
    while process.poll() is None and not children:
        children = workers_of(process.pid)
        time.sleep(0.005)
    kill(process.pid)
    process.communicate(timeout=60)
    gone, alive = psutil.wait_procs([psutil.Process(pid) for pid in children if psutil.pid_exists(pid)], timeout=60)
    assert alive == []


# Starting Ray takes longer than most tests of this file together.
@pytest.mark.parametrize("engine", ["dask", pytest.param("ray", marks=pytest.mark.long)])
def test_engines_give_the_same_bytes(tmp_path, expected, engine):
    pytest.importorskip({"dask": "distributed", "ray": "ray"}[engine], reason=f"{engine} is not installed")
    report = finish(run(tmp_path, workers=2, engine=engine, start_new_session=True))
    assert (report["done"], report["samples_out"]) == (5, 20)
    leftovers_are_swept(tmp_path, expected)
    assert go_on(tmp_path).skipped == 5
