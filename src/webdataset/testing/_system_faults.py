"""Let the n-th system call of this package fail, as with a full disk, a broken disk or a limit of the system.

Python's functions for files are replaced inside a block, in all threads. Only calls from the package itself (or from a
library that it calls) are counted and can fail.
"""

from __future__ import annotations

import builtins
import errno
import fcntl
import io
import multiprocessing
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Collection
from typing import Any, Self

# Errors that nearly every system call can return.
ERRORS = (errno.ENOSPC, errno.EIO, errno.EMFILE, errno.EROFS, errno.ENOMEM)
_READING = ("open", "read", "readv", "pread", "preadv", "listdir", "scandir", "stat", "lstat", "fstat")
_WRITING = ("write", "writev", "pwrite", "fsync", "rename", "replace", "unlink", "link", "mkdir", "utime", "truncate")
_OTHERS = ("dup", "dup2", "ftruncate", "readlink", "pipe", "fork", "memfd_create")
_NAMES = (*_READING, *_WRITING, *_OTHERS, "flock", "lockf", "socket", "spawn")
_PACKAGES = ("webdataset.", "wids.")
_TOOLS = ("webdataset.testing.", "importlib.", "threading")
# How many frames above the system call a function of the package may be: filelock, pathlib, tempfile are in between.
_DEPTH = 14


class SystemFaults:
    """Lets one call fail.

    >>> from webdataset import stores
    >>> with SystemFaults(1, errno.EIO) as faults:
    ...     stores.open_read("/dev/null")
    Traceback (most recent call last):
    webdataset.errors.StoreError: ...
    >>> faults.struck
    'open'

    Args:
        number: Which call fails, counted from 1; 0 lets none fail, and `calls` says how many there are.
        error: Its `errno`.
        lasting: All later calls of the same name fail, too, as on a disk that stays full; or of these names.
        only: Count these calls only; "spawn" is the start of a process.
    """

    def __init__(
        self,
        number: int,
        error: int = errno.EIO,
        *,
        lasting: bool | Collection[str] = False,
        only: Collection[str] = _NAMES,
    ) -> None:
        self.number, self.error, self.lasting, self.only = number, error, lasting, only
        # Shared with worker processes that are forked inside the block.
        self._calls = multiprocessing.get_context("fork").Value("q", 0)
        self._struck = multiprocessing.get_context("fork").Value("q", -1, lock=False)
        self._saved: list[tuple[Any, str, Any]] = []

    @property
    def calls(self) -> int:
        """How many calls there were, in this process and in forked ones."""
        return int(self._calls.value)

    @property
    def struck(self) -> str | None:
        """The name of the call that failed."""
        return None if self._struck.value < 0 else _NAMES[self._struck.value]

    def __enter__(self) -> Self:
        for name in (name for name in (*_READING, *_WRITING, *_OTHERS) if hasattr(os, name)):
            self._replace(os, name, self._failing(getattr(os, name)))
        self._replace(builtins, "open", self._open)
        self._replace(io, "open", self._open)
        self._replace(os, "fdopen", self._open)
        for name in ("flock", "lockf"):
            self._replace(fcntl, name, self._failing_lock(getattr(fcntl, name)))
        self._replace(socket.socket, "__init__", self._failing(socket.socket.__init__, "socket"))
        self._replace(subprocess.Popen, "__init__", self._failing(subprocess.Popen.__init__, "spawn"))
        return self

    def __exit__(self, *_: object) -> None:
        for module, name, function in reversed(self._saved):
            setattr(module, name, function)

    def check(self, name: str) -> None:
        """Count one call, or fail."""
        if name not in self.only or not _from_the_package():
            return
        with self._calls.get_lock():
            self._calls.value += 1
            strikes = self.calls == self.number or (self.struck is not None and name in self._failing_from_now_on)
            if strikes and self.struck is None:
                self._struck.value = _NAMES.index(name)
        if strikes:
            raise OSError(self.error, os.strerror(self.error))

    @property
    def _failing_from_now_on(self) -> Collection[str]:
        if isinstance(self.lasting, bool):
            return (self.struck,) if self.lasting and self.struck else ()
        return self.lasting

    def _replace(self, module: Any, name: str, function: Any) -> None:
        self._saved.append((module, name, getattr(module, name)))
        setattr(module, name, function)

    def _failing(self, function: Callable[..., Any], name: str | None = None) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            self.check(name or function.__name__)
            return function(*args, **kwargs)

        return call

    def _failing_lock(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(file: Any, operation: int, *args: Any) -> Any:
            if not operation & fcntl.LOCK_UN:  # releasing a lock does not fail
                self.check(function.__name__)
            return function(file, operation, *args)

        return call

    def _open(
        self,
        file: Any,
        mode: str = "r",
        buffering: int = -1,
        encoding: Any = None,
        errors: Any = None,
        newline: Any = None,
        closefd: bool = True,
        opener: Any = None,
    ) -> Any:
        """`open` in Python, so that reading and writing through its object can fail as well."""
        self.check("open")
        raw = _FaultyFile(file, mode.replace("b", "").replace("t", ""), closefd, opener)
        raw.faults = self
        if buffering == 0:
            return raw
        size = buffering if buffering > 1 else io.DEFAULT_BUFFER_SIZE
        plain = set(mode) - set("bt")
        buffered: Any
        if "+" in plain:
            buffered = io.BufferedRandom(raw, size)
        elif plain & set("wax"):
            buffered = io.BufferedWriter(raw, size)
        else:
            buffered = io.BufferedReader(raw, size)
        return buffered if "b" in mode else io.TextIOWrapper(buffered, encoding, errors, newline)


class _FaultyFile(io.FileIO):
    faults: SystemFaults | None = None

    def _check(self, name: str) -> None:
        if self.faults is not None:
            self.faults.check(name)

    def write(self, data: Any, /) -> int:
        self._check("write")
        return super().write(data)

    def readinto(self, buffer: Any, /) -> int:
        self._check("read")
        return super().readinto(buffer)

    def read(self, size: int | None = -1, /) -> bytes:
        self._check("read")
        return super().read(-1 if size is None else size)

    def readall(self) -> bytes:
        self._check("read")
        return super().readall()


def _from_the_package() -> bool:
    """Whether a function of the package is near on the stack, before one of the tools or of Python's import."""
    frame = sys._getframe(2)
    for _ in range(_DEPTH):
        name = frame.f_globals.get("__name__", "")
        if name != __name__ and name.startswith(_TOOLS):
            return False
        if name.startswith(_PACKAGES) and name != __name__:
            return True
        if frame.f_back is None:
            return False
        frame = frame.f_back
    return False
