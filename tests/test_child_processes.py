"""Children end with their parent, whatever ended it.

Each test starts a program that starts a child, ends the program in one way, and waits until the child is gone.
"""

import os
import re
import shutil
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import psutil
import pytest

from webdataset import stores
from webdataset.cli._split_command import run_after
from webdataset.errors import CommandFailed
from webdataset.child_processes import Guard, Lifeline, Parent
from webdataset.tools._proc import run_command
from wids import wids_dl

pytestmark = pytest.mark.skipif(os.name != "posix", reason="process groups are those of POSIX")

SOURCE = str(Path(stores.__file__).parents[2])

# What the program starts; each prints the process ids to watch.
CHILDREN = {
    "a command that waits": """
        stream = stores.open_read("pipe:sleep 1000 & echo $! $$; wait")
        print(stream.readline().decode(), end="", flush=True)
    """,
    "a pipeline": """
        stream = stores.open_read("pipe:(echo $$; sleep 1000) | cat")
        print(int(stream.readline()), stream.proc.pid, flush=True)
    """,
    "a command that is run to its end": """
        threading.Thread(target=child_processes.run_shell, args=("sleep 1000 & echo $! $$; wait",), daemon=True).start()
    """,
    "a command that is written to": """
        stream = stores.open_write("pipe:cat > /dev/null; sleep 1000")
        print(stream.proc.pid, flush=True)
    """,
    "a command opened by a thread that has ended": """
        streams = []
        thread = threading.Thread(target=lambda: streams.append(stores.open_read("pipe:echo go; sleep 1000")))
        thread.start(); thread.join()
        assert streams[0].readline() == b"go\\n"
        print(streams[0].proc.pid, flush=True)
    """,
    "a broker": """
        from webdataset.stores import _broker
        broker = _broker.take_broker()
        assert broker.ask("drop") is None
        print(broker._process.pid, flush=True)
    """,
    "a broker in the middle of a request": """
        from webdataset.stores import _broker
        broker = _broker.take_broker()
        assert broker.ask("drop") is None
        _broker.send(broker._process.stdin, ("open_read", "pipe:sleep 1000", 5))
        print(broker._process.pid, flush=True)
    """,
    "a worker of multiprocessing (fork)": """
        queue = worker("fork")
        print(queue.get(), flush=True)
    """,
    "a worker of multiprocessing (spawn)": """
        queue = worker("spawn")
        print(queue.get(), flush=True)
    """,
    "a worker of multiprocessing (forkserver)": """
        queue = worker("forkserver")
        print(queue.get(), flush=True)
    """,
    "a worker that a thread started": """
        found = []
        thread = threading.Thread(target=lambda: found.append(worker("fork")))
        thread.start(); thread.join()
        print(found[0].get(), flush=True)
    """,
}
ENDINGS = {
    "normal exit": "sys.stdin.readline()",
    "exception": "sys.stdin.readline(); raise RuntimeError",
    "os._exit": "sys.stdin.readline(); os._exit(3)",
    "SIGTERM": signal.SIGTERM,
    "SIGKILL": signal.SIGKILL,
    "SIGINT": signal.SIGINT,
}
PROGRAM = """
import multiprocessing, os, sys, threading, time
sys.path.insert(0, {source!r})
from webdataset import child_processes, stores

def work(parent, queue):
    child_processes.end_with(parent)
    queue.put(os.getpid())
    time.sleep(1000)

def worker(method):
    context = multiprocessing.get_context(method)
    queue = context.SimpleQueue()
    context.Process(target=work, args=(child_processes.Parent.here(), queue), daemon=True).start()
    return queue

if __name__ == "__main__":
{child}
    {ending}
"""


def run(tmp_path, children, ending):
    """Start the program with these children, end it, and return the processes that each child had told about."""
    at_the_end = "time.sleep(1000)" if isinstance(ending, signal.Signals) else ending
    # Each child in a function of its own that stays referenced: a stream that is collected would end its command.
    text = "kept = []\n"
    for number, child in enumerate(children):
        body = textwrap.indent(textwrap.dedent(CHILDREN[child]).strip(), "    ")
        text += f"def start_{number}():\n{body}\n    kept.append(locals())\nstart_{number}()\n"
    text = textwrap.indent(text, "    ")
    script = tmp_path / "program.py"
    script.write_text(PROGRAM.format(source=SOURCE, child=text, ending=at_the_end))
    program = subprocess.Popen(
        [sys.executable, str(script)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    with program:
        told = {}
        for child in children:  # a line each; the signal must not come while one is still being started, see below
            told |= {psutil.Process(int(number)): child for number in program.stdout.readline().split()}
            assert child in told.values() and all(process.is_running() for process in told), child
        if isinstance(ending, signal.Signals):
            program.send_signal(ending)
        else:
            program.stdin.write(b"\n")
            program.stdin.flush()
        program.wait()
    return told


# All at once, and each alone in the long run. At exit multiprocessing ends its daemons and then waits for all children;
# for one that a thread starts between these two it waits for ever. No program can avoid that but by not starting
# processes in threads while it ends (SECURITY.md says so).
AT_ONCE = [("all", list(CHILDREN), ending) for ending in ENDINGS]
WAITS = "a command that waits"
ALONE = [(child, [child], ending) for child in CHILDREN for ending in ENDINGS if (child, ending) != (WAITS, "SIGINT")]


@pytest.mark.parametrize(("children", "ending"), [
    *(pytest.param(children, ending, id=f"{name}-{ending}") for name, children, ending in AT_ONCE),
    pytest.param([WAITS], "SIGINT", id=f"{WAITS}-SIGINT"),
    *(pytest.param(children, ending, id=f"{name}-{ending}", marks=pytest.mark.long) for name, children, ending in ALONE),
])  # fmt: skip
def test_children_end_with_their_parent(tmp_path, children, ending):
    told = run(tmp_path, children, ENDINGS[ending])
    _, alive = psutil.wait_procs(told, timeout=60)
    assert not alive, [told[process] for process in alive]


def test_a_guard_leaves_alone_what_a_command_left_running_on_purpose():
    guard = Guard()
    with subprocess.Popen(["sleep", "1000"], process_group=guard.group) as child:
        guard.release()
        assert child.poll() is None
        child.kill()


def ignores(process, number):
    [mask] = re.findall(r"SigIgn:\s+(\w+)", Path(f"/proc/{process}/status").read_text())
    return bool(int(mask, 16) >> (number - 1) & 1)


@pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="no /proc")
def test_a_command_that_signals_its_group_does_not_end_its_guard():
    guard = Guard()
    while not ignores(guard.group, signal.SIGTERM):  # its shell has just been started
        time.sleep(0.01)
    with subprocess.Popen(["/bin/sh", "-c", "kill 0"], process_group=guard.group) as child:
        assert child.wait() == -signal.SIGTERM
    assert psutil.Process(guard.group).status() != psutil.STATUS_ZOMBIE
    guard.release()


# Raises at the n-th line (or instruction) of what starts and ends a command, for every n: what is raised inside of
# subprocess.Popen takes the number of its child with it.
INTERRUPTED_EVERYWHERE = """
import gc, subprocess, sys
import psutil
from webdataset import child_processes, stores
from webdataset.stores import _pipe

class Interrupt(BaseException):
    pass

event = sys.argv[2]
files = {module.__file__ for module in (child_processes, _pipe, subprocess)}

def start_a_command():
    if sys.argv[1] == "run_shell":
        child_processes.run_shell("sleep 1000", timeout=0)
    with stores.open_read("pipe:sleep 1000") as stream:
        stream.fileno

def callers(frame):
    while frame:
        yield frame
        frame = frame.f_back

def trace(frame, kind, _argument):
    global left
    if frame.f_code.co_filename in files and "__del__" not in (f.f_code.co_name for f in callers(frame)):
        frame.f_trace_opcodes = event == "opcode"
        if kind == event and frame.f_lineno is not None:  # else it is an instruction that no signal interrupts
            left -= 1
            if left == 0:
                raise Interrupt
    return trace

number, was_interrupted = 0, True
while was_interrupted:
    number += 1
    left, was_interrupted = number, False
    sys.settrace(trace)
    try:
        start_a_command()
    except Interrupt:
        was_interrupted = True
    except subprocess.TimeoutExpired:
        pass
    finally:
        sys.settrace(None)
    gc.collect()
    for child in psutil.Process().children():
        try:
            while child.status() != psutil.STATUS_ZOMBIE:  # never, if it was left behind
                pass
        except psutil.NoSuchProcess:
            pass
    subprocess._active.clear()  # the next Popen would begin with a look at these: more moments each time
print(number)
"""


@pytest.mark.parametrize("way", ["run_shell", "open_read"])
@pytest.mark.parametrize("event", ["line", pytest.param("opcode", marks=pytest.mark.long)])
def test_an_interrupt_at_any_moment_leaves_no_command_behind(way, event):
    """Else it would run on with nobody who knows it: once `wds proc` hung after Ctrl-C, waiting for such a command."""
    program = [sys.executable, "-c", INTERRUPTED_EVERYWHERE, way, event]
    done = subprocess.run(program, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 100  # so many moments


def test_a_forked_child_does_not_hold_the_pipes_of_its_parent():
    """Otherwise the end of the parent would not be seen before the end of its children."""
    lifeline = Lifeline()
    own_end = lifeline._own_end
    process = os.fork()
    if process == 0:
        try:
            os.fstat(own_end)
        except OSError:
            os._exit(0)
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) == 0
    os.fstat(own_end)
    lifeline.started()
    lifeline.close()
    assert Parent.here().in_main_thread


def test_a_forked_child_writes_nothing_into_the_command_of_its_parent(tmp_path):
    target = tmp_path / "out"
    with stores.open_write(f"pipe:cat > {target}") as stream:
        stream.write(b"once")  # still in the buffer
        process = os.fork()
        if process == 0:
            stream.close()
            os._exit(0)
        assert os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) == 0
    assert target.read_bytes() == b"once"


# --- what a command line reports -----------------------------------------------------------------------------------


@pytest.mark.skipif(shutil.which("bash") is None, reason="bash is not installed")
@pytest.mark.parametrize(
    "command", ["false | cat", "exit 3 | cat", "cat /no/such/file | cat | cat", "(echo x; exit 7) | cat"]
)
def test_a_failure_before_the_last_bar_is_a_failure(command):
    with stores.open_read(f"pipe:{command} 2>/dev/null") as stream, pytest.raises(CommandFailed, match="status"):
        stream.read()
        stream.read(1)
    if "cat" in command:
        with pytest.raises(CommandFailed), stores.open_write(f"pipe:({command}) > /dev/null 2>&1") as stream:
            stream.write(b"x")


@pytest.mark.skipif(shutil.which("bash") is None, reason="bash is not installed")
def test_a_failure_before_the_last_bar_is_one_wherever_commands_are_run(tmp_path):
    """Of `wds proc`, of `wds split --post` and of the downloads of wids as of `pipe:`."""
    runs = [
        lambda command: run_command(command, tmp_path),
        lambda command: run_after(command, "a.tar"),
        lambda command: wids_dl.download_file("x:a", str(tmp_path / "a"), handlers={"x": f"{command} > {{local}}"}),
    ]
    for run_it in runs:
        with pytest.raises(CommandFailed, match="status"):
            run_it("(echo x; exit 7) | cat")
        run_it("yes | head -c 100")


@pytest.mark.parametrize("command", ["yes | head -c 100", "yes | head -c 100 | cat", "cat /dev/zero | head -c 100"])
def test_a_command_that_stops_reading_on_purpose_is_no_failure(command):
    with stores.open_read(f"pipe:{command}") as stream:
        assert len(stream.read()) == 100


def test_without_bash_a_warning_says_what_is_not_noticed(monkeypatch):
    monkeypatch.setattr("webdataset.child_processes._bash", lambda: None)
    with pytest.warns(UserWarning, match="bash is not installed"), stores.open_read("pipe:false | printf x") as stream:
        assert stream.read() == b"x"
    with stores.open_read("pipe:printf y") as stream:
        assert stream.read() == b"y"


@pytest.mark.parametrize("size", [1, 100, 8192, 70_000, 1_000_000])
@pytest.mark.parametrize("command", ["exit 0", "exit 5", "exec <&-; sleep 0; exit 0"])
@pytest.mark.parametrize("ending", ["close", "flush", "with"])
def test_a_command_that_does_not_read_is_always_the_same_error(command, size, ending):
    """Whatever the size of the writes and whatever notices it first: never BrokenPipeError."""
    stream = stores.open_write(f"pipe:{command}")
    stream.proc.wait()  # it has ended for certain: no race
    with pytest.raises(CommandFailed):
        stream.write(bytes(size))
        if ending == "flush":
            stream.flush()
        stream.close()
    stream.close()
    assert stream.closed and stream.proc.returncode is not None


def test_a_signal_is_not_lost_while_a_finalizer_runs():
    """Python drops what a handler raises there: the program would go on."""
    program = textwrap.dedent("""
        import signal, time
        from webdataset.child_processes import exit_on

        class Finalized:
            def __del__(self):
                signal.raise_signal(signal.SIGTERM)

        exit_on(signal.SIGTERM, 43)
        Finalized()
        time.sleep(1000)
    """)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (43, b"")
