"""A verb that is ended ends its commands and worker processes, whatever ended it, and at once."""

import os
import signal
import subprocess
import sys
import time

import psutil
import pytest

from tests.tools.datasets import write_shard

# It tells that it runs, and then waits.
WAITS = "touch {folder}/$$.started; sleep 1000"
VERBS = {
    "check": ["check", f"pipe:cat 0.tar; {WAITS}"],
    "check in processes": ["check", "-j", "2", f"pipe:cat 0.tar; {WAITS}", f"pipe:cat 1.tar; {WAITS}"],
    "proc": ["proc", "-c", WAITS, "-o", "out.tar", "0.tar"],
    "proc in threads": ["proc", "-c", WAITS, "-o", "out.tar", "-j", "2", "0.tar"],
    "proc in processes": ["proc", "-c", WAITS, "-o", "out/", "-j", "2", "0.tar", "1.tar"],
    "split": ["split", "-o", "s-%06d.tar", "-n", "1", "-p", WAITS, "0.tar"],
    "cat": ["cat", "-o", "out.tar", f"pipe:cat 0.tar; {WAITS}"],
}


USUAL = {
    ("proc in processes", "SIGKILL"),
    ("proc", "SIGHUP"),
    ("proc in processes", "SIGHUP"),
    ("check in processes", "SIGTERM"),
    ("proc in threads", "SIGKILL"),
}
USUAL |= {(verb, "SIGTERM") for verb in ("proc", "proc in threads", "split", "cat")}


@pytest.mark.parametrize(
    ("verb", "ending"),
    [
        pytest.param(verb, ending, marks=() if (verb, ending) in USUAL else pytest.mark.long)
        for verb in VERBS
        for ending in ("SIGKILL", "SIGTERM", "SIGINT", "SIGHUP")
    ],
)
def test_nothing_goes_on(verb, ending, tmp_path):
    ending = signal.Signals[ending]
    for name in ("0.tar", "1.tar"):
        write_shard(tmp_path / name, [{"__key__": f"{name[0]}{number}", "txt": b"x"} for number in range(4)])
    arguments = [each.replace("{folder}", str(tmp_path)) for each in VERBS[verb]]
    program = subprocess.Popen(
        [sys.executable, "-m", "webdataset", *arguments],
        cwd=tmp_path,
        env={**os.environ, "TMPDIR": str(tmp_path)},  # what SIGKILL leaves there
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        start_new_session=True,
        preexec_fn=lambda: [signal.signal(each, signal.SIG_DFL) for each in (signal.SIGINT, signal.SIGHUP)],
    )
    expected = 2 if " in " in verb else 1
    with program:
        while len(list(tmp_path.glob("*.started"))) < expected:
            assert program.poll() is None, program.stderr.read().decode()
            time.sleep(0.01)
        children = psutil.Process(program.pid).children(recursive=True)
        assert len(children) >= expected
        os.kill(program.pid, ending)
        program.wait(60)
    if ending in {signal.SIGTERM, signal.SIGHUP}:
        assert program.returncode == 128 + ending
    if ending != signal.SIGKILL:
        assert not [path.name for path in tmp_path.iterdir() if path.name.startswith(".wds.")]
    _, alive = psutil.wait_procs(children, timeout=60)
    for process in alive:
        process.kill()
    assert not alive


def test_a_signal_that_is_ignored_stays_so(tmp_path):
    """`nohup wds …` goes on when its terminal is closed."""
    write_shard(tmp_path / "0.tar", [{"__key__": "a", "txt": b"x"}])
    command = "kill -HUP $PPID; sleep 0.1"
    done = subprocess.run(
        ["nohup", sys.executable, "-m", "webdataset", "proc", "-c", command, "-o", "out.tar", "0.tar"],
        cwd=tmp_path, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "out.tar").exists()


def run_with_closed(folder, numbers, *arguments):
    return subprocess.run(
        [sys.executable, "-m", "webdataset", *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        preexec_fn=lambda: [os.close(number) for number in numbers],
    )


@pytest.mark.parametrize("numbers", [[0], [1], [2], [0, 1, 2]])
def test_what_commands_print_never_gets_into_an_archive(tmp_path, numbers):
    """A file that is opened takes the number of a standard stream that is closed."""
    write_shard(tmp_path / "0.tar", [{"__key__": f"{number}", "txt": b"x"} for number in range(4)])
    command = "cat; echo printed; echo printed >&2; true"
    for closed, output in (([], "a.tar"), (numbers, "b.tar")):
        done = run_with_closed(tmp_path, closed, "proc", "-c", command, "-o", output, "0.tar")
        assert done.returncode == 0, done.stderr
    assert (tmp_path / "a.tar").read_bytes() == (tmp_path / "b.tar").read_bytes()


@pytest.mark.parametrize("arguments", [["ls", "0.tar"], ["cat", "0.tar", "-o", "-"], ["get", "0", "txt", "0.tar"]])
def test_a_closed_standard_output_is_an_error_of_one_line(tmp_path, arguments):
    write_shard(tmp_path / "0.tar", [{"__key__": f"{number}", "txt": b"x"} for number in range(4)])
    done = run_with_closed(tmp_path, [1], *arguments)
    assert done.returncode == 1
    assert len(done.stderr.splitlines()) == 1 and "standard output" in done.stderr, done.stderr
