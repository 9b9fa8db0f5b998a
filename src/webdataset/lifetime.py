"""Processes that end with the process that started them, whatever ended it: a normal exit, an exception, any signal.

Three ways, for three kinds of children:

* `Guard` kills the process group of a command: a small shell waits for the end of a pipe that only this process holds.
  `run_shell` runs a command under one.
* `Lifeline` is such a pipe for a Python program of ours, which calls `end_with_lifeline` first of all.
* `end_with(parent)` is called first of all in a worker process of `multiprocessing`. Linux then kills the worker when
  its parent ends (`PR_SET_PDEATHSIG`); where that is not possible a thread watches the parent.

`PR_SET_PDEATHSIG` follows the *thread* that started the child. It is used only where that is the main thread, which
lives as long as its process. A pipe has no such limit: the system closes it when the process is gone. Forked children
close their copies of it.
"""

from __future__ import annotations

import errno
import os
import shutil
import signal
import subprocess
import sys
import threading
import weakref
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, NoReturn

from webdataset.errors import CommandFailed

_PR_SET_PDEATHSIG = 1
_SOON = 0.01

_HINTS = {
    errno.E2BIG: "the command or the environment is too long: put the command into a script",
    errno.EAGAIN: "the limit of processes is reached: ulimit -u",
    errno.EMFILE: "raise the limit of open files: ulimit -n",
    errno.ENOMEM: "free some memory",
}

# Reads the number of the process group, then waits: for "done", or for the end of the process that started it.
_WATCH = 'read -r group || exit 0; read -r word || kill -s KILL -- "-$group"'


def start(*arguments: Any, **options: Any) -> subprocess.Popen[bytes]:
    """Start a process; where the system cannot, that is our error. The caller adds the place.

    >>> start(["no-such-program"])
    Traceback (most recent call last):
    webdataset.errors.CommandFailed: the command cannot be started: No such file or directory – is it installed?

    Args:
        arguments: as `subprocess.Popen` takes them.
        options: more arguments of `subprocess.Popen`.
    """
    try:
        return subprocess.Popen(*arguments, **options)  # noqa: S603 - a constant, or what the user wrote
    except OSError as error:
        hint = _HINTS.get(error.errno or 0, "is it installed?")
        raise CommandFailed(f"the command cannot be started: {error.strerror}", hint=hint) from error


class Guard:
    """Kills the process group of a command when this process ends before `release`.

    Start it before the command, so that there is no moment without it.

    >>> guard = Guard()
    >>> child = subprocess.Popen(["sleep", "1000"], process_group=0)
    >>> guard.watch(child.pid)
    >>> child.kill(); _ = child.wait(); guard.release()
    """

    def __init__(self) -> None:
        self._shell = start(
            ["/bin/sh", "-c", _WATCH],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # a Ctrl-C is for this process and its commands, not for the guard
        )
        _open_pipes.add(self)

    def watch(self, group: int) -> None:
        """Kill this process group when this process ends."""
        self._write(f"{group}\n")

    def release(self) -> None:
        """The command has ended, or is being ended: stop watching it."""
        if self._shell.returncode is None:
            self._write("done\n")
            self.close_copy()
            self._shell.wait()

    def close_copy(self) -> None:
        """Close this process's end of the pipe; in a forked child that leaves the parent's end alone."""
        assert self._shell.stdin is not None
        with suppress(OSError):
            self._shell.stdin.close()

    def forget(self) -> None:
        """In a forked child: the shell is a child of the parent."""
        self.close_copy()
        self._shell.returncode = 0

    def _write(self, line: str) -> None:
        assert self._shell.stdin is not None
        with suppress(OSError):  # the guard was killed: the command runs on without one
            self._shell.stdin.write(line.encode())
            self._shell.stdin.flush()


def run_shell(command: str, *, timeout: float | None = None, **options: Any) -> int:
    """Run a shell command to its end and return its status; with this process, or a timeout, all it started ends.

    >>> run_shell("exit 3")
    3

    Args:
        command: for bash, or sh where there is none.
        timeout: seconds, after which `subprocess.TimeoutExpired` is raised.
        options: more arguments for `subprocess.Popen`.
    """
    guard = Guard()
    try:
        shell = shutil.which("bash") or "/bin/sh"
        process = start([shell, "-c", command], process_group=0, **options)
        guard.watch(process.pid)
        try:
            return process.wait(timeout)
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
    finally:
        guard.release()


def exit_on(number: int, status: int) -> None:
    """Raise `SystemExit` when this signal arrives, once, so that what is being written is removed on the way out.

    An exception that is raised while a finalizer or a weak reference's callback runs is dropped by Python, and the
    process would go on: then the signal is sent again.
    """
    earlier = sys.unraisablehook

    def stop(_number: int, _frame: Any) -> None:
        signal.signal(number, signal.SIG_IGN)  # another one would interrupt the cleaning up
        raise SystemExit(status)

    def dropped(unraisable: sys.UnraisableHookArgs) -> None:
        if isinstance(unraisable.exc_value, SystemExit):
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
        """The child has its copy: close ours."""
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
    """Who starts a child: made by `Parent.here()` before the start, passed to the child, given to `end_with`."""

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
    is_direct = os.getppid() == parent.process  # not so under forkserver, nor when the parent is gone already
    if is_direct and parent.in_main_thread and _ask_linux_to_kill():
        if os.getppid() != parent.process:  # it ended before Linux was asked
            _end_now()
        return
    threading.Thread(target=_watch_parent, args=(parent,), name="webdataset-parent", daemon=True).start()


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
    elif known is not None:  # children that the parent forked later hold copies of this pipe
        multiprocessing.connection.wait([known.sentinel])
    else:
        return
    _end_now()


def _end_now() -> NoReturn:
    """End without cleaning up: the process that would want it is gone, and finalizers might wait for it."""
    os._exit(1)


_open_pipes: weakref.WeakSet[Guard | Lifeline] = weakref.WeakSet()


def _after_fork() -> None:
    for pipe in list(_open_pipes):
        pipe.forget()
    _open_pipes.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
