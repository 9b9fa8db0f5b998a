"""`pipe:command`: the output of a shell command, or its input.

The command runs in bash with `pipefail`, so that `pipe:a | b` fails if `a` fails. Without bash it runs in `sh`, which
reports the status of the last command only; one warning is given for a command that contains `|`. A command that ends
by SIGPIPE because the next one stopped reading (`a | head -c 100`) has not failed.

The child is always waited for. A stream that is read to its end checks the exit status: the output of a command that
fails late is not a complete shard. A stream that is closed early kills the command and ignores its status. When this
process ends, for any reason, the command is killed (`webdataset.child_processes`).
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Iterable
from contextlib import suppress
from typing import IO, Any, NoReturn

from webdataset.child_processes import Guard, accepted, reap, shell, start
from webdataset.errors import CommandFailed, SpecError, StoreTimeout, Where, located
from webdataset.redact import redacted

from ._byte_stream import Stream
from ._store import Store, skip
from ._trust import refuse_command
from ._upload import close_or_abort, point_nowhere

# Seconds that a child may run after it closed its output; the public library waits two hours.
_LINGER = 60.0


class Pipe(Stream):
    r"""The output (`mode="rb"`) or input (`mode="wb"`) of a child process.

    >>> with Pipe("echo hello", shell=True) as pipe:
    ...     pipe.read()
    b'hello\n'

    Args:
        args: The command, as `subprocess.Popen` takes it.
        mode: "rb" reads the output of the child, "wb" writes to its input.
        timeout: Seconds to wait for the end of the child after the end of its output.
        ignore_errors: Accept every exit status.
        ignore_status: Exit statuses to accept besides 0.
        options: More arguments for `subprocess.Popen`.
    """

    def __init__(
        self,
        *args: Any,
        mode: str = "rb",
        timeout: float = _LINGER,
        ignore_errors: bool = False,
        ignore_status: Iterable[int] = (),
        **options: Any,
    ) -> None:
        super().__init__()
        if mode not in {"rb", "wb", "r", "w"}:
            raise SpecError(f"expected mode 'rb' or 'wb', got {mode!r}")
        self.mode, self.timeout = mode[0] + "b", timeout
        self.ignore_errors, self.ignore_status = ignore_errors, {0, *ignore_status}
        self.command = args[0] if len(args) == 1 else args
        self.status: int | None = None
        self._guard: Guard | None = None
        with located(shard=f"pipe:{self._name()}"):
            self._start(args, {"bufsize": -1, **options})
        _open.add(self)

    def readable(self) -> bool:
        return self.mode == "rb"

    def writable(self) -> bool:
        return self.mode == "wb"

    def fill(self, view: memoryview) -> int:
        if self.mode != "rb":
            raise SpecError("expected a pipe for reading, got one for writing", Where(shard=self._name()))
        if self.status is not None:
            self._check()  # a failed command fails again: this is not the end of the data
            return 0
        count: int = self.stream.readinto1(view)  # type: ignore[attr-defined]  # Popen's pipe is a BufferedReader
        if not count:
            self._wait()
            self._check()
        return count

    def write(self, data: Any, /) -> int:
        if self.mode != "wb":
            raise SpecError("expected a pipe for writing, got one for reading", Where(shard=self._name()))
        try:
            count = self.stream.write(data)
        except BrokenPipeError:
            self._raise_stopped_reading()
        self.position += count
        return count

    def flush(self) -> None:
        """Send what is buffered; a command that stopped reading is an error, as in `write`."""
        if self.mode == "wb" and self.status is None and not self.closed:
            try:
                self.stream.flush()
            except BrokenPipeError:
                self._raise_stopped_reading()

    def close(self) -> None:
        """Reading: kill the child if it still runs. Writing: end its input, wait for it, and check its status."""
        if self.closed:
            return
        try:
            if self.mode == "rb":
                self._end()
            elif self.status is None:
                self._finish_writing()
        finally:
            super().close()

    def abort(self) -> None:
        """Kill the child, and ignore its status."""
        if not self.closed:
            self._end()
            super().close()

    def disown(self) -> None:
        """In a forked child: the command belongs to the parent, and nothing may be written to it from here."""
        self.proc.returncode, self._guard = 0, None
        if self.mode == "wb":
            with suppress(OSError, ValueError):  # closed already
                point_nowhere(self.stream.fileno())
            self.status = 0

    __exit__ = close_or_abort

    def __del__(self) -> None:
        if hasattr(self, "stream"):
            self.abort()

    def __repr__(self) -> str:
        return f"<Pipe {redacted(self._name())}>"

    def _start(self, args: tuple[Any, ...], options: dict[str, Any]) -> None:
        import subprocess

        channel = "stdout" if self.mode == "rb" else "stdin"
        options[channel] = subprocess.PIPE
        own_group = options.get("process_group", 0) == 0 and not options.get("start_new_session")
        if own_group:
            # A process group of its own: closing early kills the whole command line and not only its shell.
            self._guard = Guard()
            options["process_group"] = self._guard.group
        try:
            self.proc = start(*args, **options)
            self.stream: IO[bytes] = getattr(self.proc, channel)
        except BaseException:
            if self._guard is not None:
                self._guard.kill()
            raise

    def _raise_stopped_reading(self) -> NoReturn:
        self._wait()
        self._check(hint="the command ended before it had read everything")
        raise CommandFailed("the command stopped reading", self._where(), hint="it must read all input") from None

    def _finish_writing(self) -> None:
        is_complete = self._close_stream()
        self._wait()
        self._check()
        if not is_complete and not self.ignore_errors:
            raise CommandFailed("the command stopped reading", self._where(), hint="it must read all input")

    def _close_stream(self) -> bool:
        """Close our end; False if buffered data could not be sent any more."""
        try:
            self.stream.close()
        except BrokenPipeError:
            return False
        return True

    def _wait(self) -> None:
        import subprocess

        self._close_stream()  # the command may wait for the end of its input
        try:
            self.status = self.proc.wait(self.timeout)
        except subprocess.TimeoutExpired as error:
            self._end()
            raise StoreTimeout(
                f"the command closed its pipe and did not end within {self.timeout:g} s",
                self._where(),
                hint="let it end, or give Pipe a longer timeout",
            ) from error
        self._release()

    def _check(self, hint: str = "run it by hand to see its messages") -> None:
        if self.status not in self.ignore_status and not self.ignore_errors:
            raise CommandFailed(f"the command ended with status {self.status}", self._where(), hint=hint)

    def _end(self) -> None:
        """Kill the child and wait for it; its status is ignored."""
        if self.proc.poll() is None:
            (self.proc if self._guard is None else self._guard).kill()
        with suppress(OSError):  # input that could not be sent to a child that is being stopped
            self.stream.close()
        self.status = reap(self.proc)
        self._release()

    def _release(self) -> None:
        guard, self._guard = self._guard, None
        if guard is not None:
            guard.release()

    def _name(self) -> str:
        return self.command if isinstance(self.command, str) else " ".join(map(str, self.command))

    def _where(self) -> Where:
        return Where(shard=f"pipe:{self._name()}", offset=self.position)


class PipeStore(Store):
    """Shell commands.

    >>> PipeStore().open_read("pipe:printf abc", 1).read()
    b'bc'
    """

    def open_read(self, url: str, start: int = 0) -> Pipe:
        stream = _ShellPipe(_command(url), mode="rb")
        skip(stream, start, url)
        return stream

    def open_write(self, url: str) -> Pipe:
        return _ShellPipe(_command(url), mode="wb")


class _ShellPipe(Pipe):
    """A command line, with the failure of every part of a pipeline noticed where the shell can do that."""

    def __init__(self, command: str, mode: str) -> None:
        self._line = command
        super().__init__([*shell(command), command], mode=mode, ignore_status=accepted(command))
        self.command = command

    def _name(self) -> str:
        return self._line


def _command(url: str) -> str:
    refuse_command(url)
    command = url.partition(":")[2]
    if not command.strip():
        raise SpecError("there is no command after pipe:", hint="for example pipe:ssh host cat /data/a.tar")
    return command


_open: weakref.WeakSet[Pipe] = weakref.WeakSet()


def _disown_all() -> None:
    for pipe in list(_open):
        pipe.disown()
    _open.clear()


os.register_at_fork(after_in_child=_disown_all)
