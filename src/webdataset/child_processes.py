"""Processes that end with the process that started them, whatever ended it: a normal exit, an exception, any signal.

Three ways, for three kinds of children:

* `Guard` is a process group for a command. Its leader is a small shell, which reads from a pipe whose other end only
  this process has open, and kills the group when that end is closed. `run_shell` runs a command in such a group.
* `Lifeline` is such a pipe for a Python program of ours, which calls `end_with_lifeline` first of all.
* `end_with(parent)` is called first of all in a worker process of `multiprocessing`. Linux then kills the worker when
  its parent ends (`PR_SET_PDEATHSIG`); where that is not possible a thread waits for the end of the parent.
  `end_with_loader` does the same in a worker process that another package has started.

`PR_SET_PDEATHSIG` depends on the *thread* that started the child. It is used only if that is the main thread, which
exists as long as its process. A pipe has no such limit: the system closes it when the process has ended. Forked
children close their copies of it.
"""

from __future__ import annotations

import errno
import os
import shutil
import signal
import sys
import threading
import weakref
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, NoReturn

from webdataset.errors import CommandFailed
from webdataset.redact import warn

if TYPE_CHECKING:  # loaded with the first command: 4 ms
    import subprocess

_PR_SET_PDEATHSIG = 1
_SOON = 0.01

_HINTS = {
    errno.E2BIG: "the command or the environment is too long: put the command into a script",
    errno.EAGAIN: "the limit of processes is reached: ulimit -u",
    errno.EMFILE: "raise the limit of open files: ulimit -n",
    errno.ENOMEM: "free some memory",
}

# Waits for "done", or for the end of the process that started it. The trap makes it survive a `kill 0` in a command.
_WATCH = "trap '' HUP INT QUIT TERM; read -r word || kill -s KILL 0"


def start(*arguments: Any, **options: Any) -> subprocess.Popen[bytes]:
    """Start a process, or raise our error if the system cannot start it; the caller adds where that happened.

    >>> start(["no-such-program"])
    Traceback (most recent call last):
    webdataset.errors.CommandFailed: the command cannot be started: No such file or directory – is it installed?

    Args:
        arguments: as `subprocess.Popen` takes them.
        options: more arguments of `subprocess.Popen`.
    """
    import subprocess

    with _starting():
        return subprocess.Popen(*arguments, **options)  # noqa: S603 - a constant, or what the user wrote


@contextmanager
def _starting() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        hint = _HINTS.get(error.errno or 0, "is it installed?")
        raise CommandFailed(f"the command cannot be started: {error.strerror}", hint=hint) from error


def reap(process: subprocess.Popen[bytes]) -> int:
    """Wait for a process that was killed, and return its status.

    `Popen.wait` would hang if an interrupt had left an earlier `wait` between taking its lock and using it.

    >>> process = start(["sleep", "1000"])
    >>> process.kill()
    >>> reap(process)
    -9
    """
    if process.returncode is None:
        try:
            process.returncode = os.waitstatus_to_exitcode(os.waitpid(process.pid, 0)[1])
        except ChildProcessError:  # waited for already, and interrupted before that was noted
            process.returncode = -signal.SIGKILL
    return process.returncode


class Guard:
    """A process group for one command, which is killed if this process ends, or deletes the guard, before `release`.

    The group exists before the command, so a signal or an exception here can at no moment leave an unknown command
    running: after an exception inside `subprocess.Popen` the number of its child is not known.

    >>> import subprocess
    >>> guard = Guard()
    >>> child = subprocess.Popen(["sleep", "1000"], process_group=guard.group)
    >>> guard.kill()
    >>> child.wait()
    -9
    """

    def __init__(self) -> None:
        import subprocess

        with _starting():
            shell_end, own_end = os.pipe()
        # Not a pipe of Popen, which stays open if the Popen object is deleted before its process has ended.
        self._pipe = os.fdopen(own_end, "wb", buffering=0)
        try:
            self._shell = start(
                ["/bin/sh", "-c", _WATCH],
                stdin=shell_end,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                process_group=0,  # so that Ctrl-C is sent to this process only, which ends the command
            )
        except BaseException:
            self._pipe.close()
            raise
        finally:
            os.close(shell_end)
        self.group = self._shell.pid
        _open_pipes.add(self)

    def release(self) -> None:
        """Release the group of a command that has ended: processes that it left running on purpose go on."""
        if self._shell.returncode is None:
            with suppress(BrokenPipeError):  # the shell was killed
                self._pipe.write(b"done\n")
            self._pipe.close()
            self._shell.wait()

    def kill(self) -> None:
        """Kill the command and all that it started. The caller waits for the command."""
        if self._shell.returncode is None:
            self._kill_group()
            self._pipe.close()
            reap(self._shell)  # without its leader no process can join the group any more
            self._kill_group()  # for a command that joined the group in between

    def forget(self) -> None:
        """Close this copy in a forked child: the shell is a child of the parent."""
        self._pipe.close()
        self._shell.returncode = 0

    def _kill_group(self) -> None:
        with suppress(ProcessLookupError, PermissionError):  # macOS: all that is left of it are ended processes
            os.killpg(self.group, signal.SIGKILL)


def run_shell(command: str, *, timeout: float | None = None, guard: Guard | None = None, **options: Any) -> int:
    """Run a shell command and return its status; kill all it started if this process ends or the time is over.

    >>> run_shell("exit 3")
    3

    Args:
        command: for `shell`; it fails if any part of it fails.
        timeout: seconds after which `subprocess.TimeoutExpired` is raised.
        guard: a guard that another thread can use to kill the command.
        options: more arguments for `subprocess.Popen`.
    """
    guard, process = guard or Guard(), None
    try:
        process = start([*shell(command), command], process_group=guard.group, **options)
        status = process.wait(timeout)
    except BaseException:
        guard.kill()
        if process is not None:
            reap(process)
        raise
    guard.release()
    return 0 if status in accepted(command) else status


def shell(command: str) -> list[str]:
    """Return the program that runs a command line: bash, which reports if any part of it fails; else sh, and warn.

    >>> shell("false | cat")[1:]
    ['-o', 'pipefail', '-c']
    """
    bash = _bash()
    if bash is not None:
        return [bash, "-o", "pipefail", "-c"]
    if "|" in command:
        warn("bash is not installed: sh does not report the failure of a command before the last '|'", stacklevel=2)
    return ["/bin/sh", "-c"]


def accepted(command: str) -> set[int]:
    """Return the exit statuses of a command that are no failure: SIGPIPE ends a part if the next one stops reading.

    >>> accepted("true"), accepted("yes | head")
    ({0}, {0, 141})
    """
    return {0, 128 + signal.SIGPIPE} if "|" in command else {0}


@cache
def _bash() -> str | None:
    return shutil.which("bash")


def exit_on(number: int, status: int) -> None:
    """Raise `SystemExit` when this signal arrives, once, so that `finally` blocks remove unfinished files.

    Python drops an exception that is raised in a finalizer or in the callback of a weak reference, and the process
    would go on: then the signal is sent again. A signal that is ignored stays so, as SIGHUP under `nohup`.
    """
    if signal.getsignal(number) is signal.SIG_IGN:
        return
    earlier = sys.unraisablehook

    def stop(_number: int, _frame: Any) -> None:
        signal.signal(number, signal.SIG_IGN)  # a second signal would interrupt the `finally` blocks
        raise SystemExit(status)

    def dropped(unraisable: sys.UnraisableHookArgs) -> None:
        arrived = signal.getsignal(number) is signal.SIG_IGN
        if arrived and isinstance(unraisable.exc_value, SystemExit):
            signal.signal(number, stop)
            threading.Timer(_SOON, os.kill, (os.getpid(), number)).start()  # after the finalizer
        else:
            earlier(unraisable)

    signal.signal(number, stop)
    sys.unraisablehook = dropped


class Lifeline:
    """The parent's end of a pipe. Pass `child_end` to a program by `pass_fds`, then call `started`.

    >>> lifeline = Lifeline()
    >>> lifeline.started(); lifeline.close()
    """

    def __init__(self) -> None:
        self.child_end, self._own_end = os.pipe()
        _open_pipes.add(self)

    def started(self) -> None:
        """Close this copy of the child's end: the child has started, with a copy of its own."""
        os.close(self.child_end)

    def close(self) -> None:
        """End the child."""
        descriptor, self._own_end = self._own_end, -1
        if descriptor >= 0:
            os.close(descriptor)

    forget = close


def end_with_lifeline(descriptor: int) -> None:
    """End this process when the other end of the pipe is closed; called first of all in the child."""

    def watch() -> None:
        with suppress(OSError):
            os.read(descriptor, 1)
        _end_now()

    threading.Thread(target=watch, name="webdataset-lifeline", daemon=True).start()


@dataclass(frozen=True, slots=True)
class Parent:
    """The process that starts a child: made by `Parent.here()` before the start, for `end_with` in the child."""

    process: int
    in_main_thread: bool

    @classmethod
    def here(cls) -> Parent:
        """This process and thread.

        >>> Parent.here().process == os.getpid()
        True
        """
        return cls(os.getpid(), threading.current_thread() is threading.main_thread())


def end_with(parent: Parent) -> None:
    """End this worker process when its parent ends; called first of all in the worker.

    >>> end_with(Parent(os.getppid(), in_main_thread=False))  # doctest: +SKIP
    """
    global _ends_with_parent  # noqa: PLW0603 - a process has one parent
    _ends_with_parent = os.getpid()
    is_direct = os.getppid() == parent.process  # not with a fork server, nor if the parent has ended already
    if is_direct and parent.in_main_thread and _ask_linux_to_kill():
        if os.getppid() != parent.process:  # it ended before the call
            _end_now()
        return
    threading.Thread(target=_watch_parent, args=(parent,), name="webdataset-parent", daemon=True).start()


def end_with_loader() -> None:
    """End this worker process of another package's loader when its parent ends; more calls do nothing.

    torch's own workers do not check for their parent while they wait for a command or a server.
    """
    import multiprocessing

    parent = multiprocessing.parent_process()
    if parent is not None and parent.pid is not None and _ends_with_parent != os.getpid():
        end_with(Parent(parent.pid, in_main_thread=False))


def _ask_linux_to_kill() -> bool:
    if not sys.platform.startswith("linux"):
        return False
    import ctypes

    try:
        return bool(ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0) == 0)
    except (OSError, AttributeError):
        return False


def _watch_parent(parent: Parent) -> None:
    import multiprocessing.connection

    known = multiprocessing.parent_process()
    if hasattr(os, "pidfd_open"):
        with suppress(ProcessLookupError):
            multiprocessing.connection.wait([os.pidfd_open(parent.process)])
    elif known is not None:  # second choice: children that the parent forked later have copies of this pipe
        multiprocessing.connection.wait([known.sentinel])
    else:
        return
    _end_now()


def _end_now() -> NoReturn:
    """End this process without finalizers, which might wait for the process that has ended."""
    os._exit(1)


_ends_with_parent = 0  # the id of the process that called `end_with`; a forked child has another one
_open_pipes: weakref.WeakSet[Guard | Lifeline] = weakref.WeakSet()


def _after_fork() -> None:
    for pipe in list(_open_pipes):
        pipe.forget()
    _open_pipes.clear()


os.register_at_fork(after_in_child=_after_fork)
