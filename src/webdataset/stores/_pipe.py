"""`pipe:command`: the output of a shell command, or its input.

A child is always reaped. Read to its end, the stream waits for the child and checks its status: a command that fails
late cannot pass for a complete shard. Closed early, the child is ended quietly, whatever it then says.
"""

from __future__ import annotations

import os
import signal
import subprocess
from contextlib import suppress
from typing import IO, TYPE_CHECKING, Any

from webdataset.errors import CommandFailed, SpecError, StoreTimeout, Where

from ._byte_stream import Stream
from ._store import Store, skip
from ._trust import refuse_command

if TYPE_CHECKING:
    from collections.abc import Iterable
    from types import TracebackType

# How long a child may go on after it closed its output; the public library waits two hours.
_LINGER = 60.0


class Pipe(Stream):
    r"""The output (`mode="rb"`) or input (`mode="wb"`) of a child process.

    >>> with Pipe("echo hello", shell=True) as pipe:
    ...     pipe.read()
    b'hello\n'

    Args:
        args: The command, as `subprocess.Popen` takes it.
        mode: "rb" reads what the child writes, "wb" writes what the child reads.
        timeout: Seconds to wait for the child's end after its output ended.
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
            raise SpecError(f"the mode {mode!r} is not known", hint='use "rb" or "wb"')
        self.mode, self.timeout = mode[0] + "b", timeout
        self.ignore_errors, self.ignore_status = ignore_errors, {0, *ignore_status}
        self.command = args[0] if len(args) == 1 else args
        self.status: int | None = None
        channel = "stdout" if self.mode == "rb" else "stdin"
        if os.name == "posix":
            # A group of its own, so that an early close ends the whole command line and not only its shell.
            options.setdefault("process_group", 0)
        options = {"bufsize": -1, **options, channel: subprocess.PIPE}
        try:
            self.proc = subprocess.Popen(*args, **options)  # noqa: S603 - the user wrote the command; _guard decides
        except OSError as error:
            raise CommandFailed(
                f"the command cannot be started: {error.strerror}", Where(shard=self._name()), hint="is it installed?"
            ) from error
        self.stream: IO[bytes] = getattr(self.proc, channel)

    def readable(self) -> bool:
        return self.mode == "rb"

    def writable(self) -> bool:
        return self.mode == "wb"

    def fill(self, view: memoryview) -> int:
        if self.mode != "rb":
            raise SpecError("this pipe is written to, not read", Where(shard=self._name()))
        if self.status is not None:
            self._check()  # who asks once more after a failure must not take it for the end
            return 0
        count: int = self.stream.readinto1(view)  # type: ignore[attr-defined]  # Popen's pipe is a BufferedReader
        if not count:
            self._wait()
            self._check()
        return count

    def write(self, data: Any, /) -> int:
        if self.mode != "wb":
            raise SpecError("this pipe is read, not written to", Where(shard=self._name()))
        try:
            count = self.stream.write(data)
        except BrokenPipeError:
            self._wait()
            self._check(hint="the command ended before it had read everything")
            raise CommandFailed("the command stopped reading", self._where(), hint="it must read all input") from None
        self.position += count
        return count

    def close(self) -> None:
        """Reading: end the child if it still runs. Writing: end its input, wait, and check its status."""
        if self.closed:
            return
        try:
            if self.mode == "wb":
                self._finish_writing()
            else:
                self._end()
        finally:
            super().close()

    def abort(self) -> None:
        """End the child without waiting for a good result."""
        if not self.closed:
            self._end()
            super().close()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.close()
        else:
            self.abort()

    def __del__(self) -> None:
        if hasattr(self, "proc"):
            self.abort()

    def __repr__(self) -> str:
        return f"<Pipe {self._name()}>"

    def _finish_writing(self) -> None:
        broken = False
        try:
            self.stream.close()
        except BrokenPipeError:
            broken = True
        self._wait()
        self._check()
        if broken and not self.ignore_errors:
            raise CommandFailed("the command stopped reading", self._where(), hint="it must read all input")

    def _wait(self) -> None:
        try:
            self.status = self.proc.wait(self.timeout)
        except subprocess.TimeoutExpired as error:
            self._end()
            raise StoreTimeout(
                f"the command closed its output and did not end within {self.timeout:g} s",
                self._where(),
                hint="let it end, or give Pipe a longer timeout",
            ) from error
        self.stream.close()

    def _check(self, hint: str = "run it by hand to see what it says") -> None:
        if self.status not in self.ignore_status and not self.ignore_errors:
            raise CommandFailed(f"the command ended with status {self.status}", self._where(), hint=hint)

    def _end(self) -> None:
        """Kill and reap; a child that we stop early may say what it likes (SIGPIPE is -13, or 141 from a shell)."""
        if self.proc.poll() is None:
            self._kill()
        with suppress(OSError):  # unflushed input of a child that is being thrown away
            self.stream.close()
        self.status = self.proc.wait()

    def _kill(self) -> None:
        with suppress(ProcessLookupError):
            if os.name == "posix" and os.getpgid(self.proc.pid) == self.proc.pid:
                os.killpg(self.proc.pid, signal.SIGKILL)
            else:
                self.proc.kill()

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
        stream = Pipe(_command(url), shell=True, mode="rb")  # noqa: S604 - that is what pipe: means; _guard decides
        try:
            skip(stream, start, url)
        except BaseException:
            stream.abort()
            raise
        return stream

    def open_write(self, url: str) -> Pipe:
        return Pipe(_command(url), shell=True, mode="wb")  # noqa: S604 - the same


def _command(url: str) -> str:
    refuse_command(url)
    command = url.partition(":")[2]
    if not command.strip():
        raise SpecError("there is no command after pipe:", hint="for example pipe:ssh host cat /data/a.tar")
    return command
