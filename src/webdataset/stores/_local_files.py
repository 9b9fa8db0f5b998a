"""Local files. A file that is written appears under its name complete, or not at all."""

from __future__ import annotations

import fcntl
import glob
import hashlib
import io
import os
import re
import secrets
import shutil
import stat
import time
from collections.abc import Collection, Iterator
from contextlib import suppress
from typing import IO, Any

from webdataset import config
from webdataset.errors import ShardNotFound, StoreError, Where

from ._globs import is_pattern
from ._parse_address import local_path
from ._store import Stat, Store
from ._system_errors import system_errors
from ._trust import refuse_local
from ._upload import Upload, point_nowhere

# Up to so many bytes, or so many blocks, are collected and written by one system call without a copy.
_GATHERED_BYTES = 1 << 20
_GATHERED_BLOCKS = 1024  # the most that Linux and macOS take at a time
# File systems allow 255 bytes, and our endings take up to 40.
_LONGEST_NAME = 200
# Seconds after which a file that was made is locked.
_SOON_LOCKED = 60.0


class LocalStore(Store):
    """Local files; `#` and `?` in a name are ordinary characters.

    >>> import tempfile
    >>> name = tempfile.mkdtemp() + "/a#1?.tar"
    >>> with LocalStore().open_write(name) as stream:
    ...     _ = stream.write(b"hello")
    >>> LocalStore().read_range(name, 1, 3)
    b'ell'
    """

    def open_read(self, url: str, start: int = 0) -> IO[bytes]:
        path = _allowed(url)
        with system_errors(path):
            stream: IO[bytes] = _open_file(path, config.read("GOPEN_BUFFER"))
            if start:
                stream.seek(start)
            return stream

    def open_write(self, url: str) -> Any:
        path = _allowed(url)
        with system_errors(path):
            if os.path.exists(path) and not stat.S_ISREG(os.stat(path).st_mode):
                return _DeviceUpload(path)  # a link to a pipe, as /dev/stdout or a shell's >(…), has no other name
        path = os.path.realpath(path)
        folder = os.path.dirname(path)
        if not os.path.isdir(folder):
            raise ShardNotFound(
                "the directory to write into does not exist", Where(shard=folder), hint="create it first"
            )
        with system_errors(path):
            return _LocalUpload(path)

    def stat(self, url: str) -> Stat:
        path = _allowed(url)
        with system_errors(path):
            found = os.stat(path)
        return Stat(found.st_size, f"{found.st_ino:x}-{found.st_mtime_ns:x}", found.st_mtime)

    def list(self, prefix: str) -> Iterator[str]:
        path = _allowed(prefix)
        return (name for name in sorted(glob.iglob(glob.escape(path) + "**", recursive=True)) if os.path.isfile(name))

    def glob(self, pattern: str) -> Iterator[str]:
        path = _allowed(pattern)
        if os.path.isdir(path) or path.endswith("/"):
            with system_errors(path):
                names = sorted(os.listdir(path))
            found = [os.path.join(path, name) for name in names if not name.startswith(".")]
        elif os.path.exists(path) or not is_pattern(path):
            found = [path]
        else:
            found = sorted(glob.glob(path, recursive=True))
        return (name for name in found if not os.path.isdir(name))


class _LocalFile(io.FileIO):
    """A file whose read errors are typed errors."""

    def readinto(self, buffer: Any, /) -> int:
        try:
            return os.readv(self.fileno(), [buffer])
        except OSError as error:  # `system_errors` itself would cost 2 µs a call
            with system_errors(str(self.name)):
                raise error from None

    def readall(self) -> bytes:
        with system_errors(str(self.name)):
            return super().readall()


def _open_file(path: str, buffering: int) -> Any:
    file = _LocalFile(path, opener=os.open)
    if buffering == 0:
        return file
    return io.BufferedReader(file, buffering if buffering > 1 else io.DEFAULT_BUFFER_SIZE)


class _DeviceUpload(Upload):
    """A device or a named pipe: no file can be renamed into its place, and what was written stays."""

    def __init__(self, path: str) -> None:
        self._finished = True  # until it is open
        self._path = path
        self._file = open(path, "wb")  # noqa: SIM115 - closed in publish and discard
        self._finished = False

    def write(self, data: Any, /) -> int:
        with system_errors(self._path):
            return self._file.write(data)

    def publish(self) -> None:
        with system_errors(self._path):
            self._file.close()

    def discard(self) -> None:
        self._file.raw.close()  # without what is still in the buffer

    def disown(self) -> None:
        if not self._finished:
            super().disown()
            point_nowhere(self._file.fileno())


class _LocalUpload(Upload):
    """A file beside the target, renamed over it once it is complete and on the disk."""

    def __init__(self, path: str) -> None:
        self._finished = True  # until there is a file to publish or discard
        self._path = path
        self._temporary = _temporary_name(path)
        folder, name = os.path.split(path)
        sweep_folder(folder, {name})
        # O_EXCL: never the file of another process. 0o666: the user's umask decides, as for any file they create.
        self._descriptor = os.open(self._temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
        self._blocks: list[bytes | memoryview] = []
        self._gathered = 0
        self._incomplete = False
        with suppress(OSError):  # a file system without locks: there no sweep removes it
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        self._finished = False

    def write(self, data: Any, /) -> int:
        # The caller may change a buffer after the call, but not bytes.
        block = data if type(data) is bytes else bytes(memoryview(data))
        self._blocks.append(block)
        self._gathered += len(block)
        if self._gathered >= _GATHERED_BYTES or len(self._blocks) == _GATHERED_BLOCKS:
            self._write_gathered()
        return len(block)

    def _write_gathered(self) -> None:
        if self._incomplete:
            raise StoreError("an earlier write failed", Where(shard=self._path), hint="write the file again")
        blocks, self._blocks, self._gathered = self._blocks, [], 0
        self._incomplete = True  # until all is written: what a failure left out must never be published
        with system_errors(self._path):
            while blocks:
                written = os.writev(self._descriptor, blocks)
                while blocks and written >= len(blocks[0]):
                    written -= len(blocks.pop(0))
                if written:  # a disk that is nearly full takes a part
                    blocks[0] = memoryview(blocks[0])[written:]
        self._incomplete = False

    def publish(self) -> None:
        try:
            self._write_gathered()
            with system_errors(self._path):
                os.fsync(self._descriptor)
                # Renamed while the lock is still held, so that no sweep removes it.
                os.replace(self._temporary, self._path)
        except BaseException:
            self._remove()
            raise
        finally:
            with system_errors(self._path):
                os.close(self._descriptor)
        _sync_directory(self._path)

    def discard(self) -> None:
        self._remove()
        with suppress(OSError):
            os.close(self._descriptor)

    def disown(self) -> None:
        if not self._finished:  # the descriptor of a finished one may be another file by now
            super().disown()
            point_nowhere(self._descriptor)

    def _remove(self) -> None:
        with suppress(OSError):  # of a disk that is gone: what failed before says so, and the next writer sweeps
            os.unlink(self._temporary)


def _allowed(url: str) -> str:
    refuse_local(url)
    return local_path(url)


def _host() -> str:
    import socket  # rarely needed, and 1.5 ms of the first sample

    return hashlib.blake2b(socket.gethostname().encode(), digest_size=4).hexdigest()


def _temporary_name(path: str) -> str:
    folder, name = os.path.split(path)
    return os.path.join(folder, f"{temporary_prefix(name)}{secrets.token_hex(4)}.part")


def temporary_prefix(name: str) -> str:
    """How the names of temporary files and folders beside a file begin; eight letters and `.part` follow.

    >>> temporary_prefix("a.tar").startswith(".a.tar.")
    True
    """
    return f"{hidden_name(name)}.{_host()}-{os.getpid()}-"


def lock_folder(path: str) -> int:
    """Lock a temporary folder, so that no sweep removes it, until the descriptor is closed."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    with suppress(OSError):  # a file system without locks: there no sweep removes it
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    return descriptor


def hidden_name(name: str) -> str:
    """How the hidden files beside a file begin: with its name, or with as much of it as leaves room for an ending.

    >>> hidden_name("a.tar"), len(hidden_name("x" * 255))
    ('.a.tar', 198)
    """
    data = os.fsencode(name)
    if len(data) <= _LONGEST_NAME:
        return f".{name}"
    beginning = data[: _LONGEST_NAME - 20].decode("utf-8", "ignore")
    return f".{beginning}-{hashlib.blake2b(data, digest_size=8).hexdigest()}"


def sweep_folder(folder: str, names: Collection[str]) -> None:
    """Remove the temporary files and folders that killed writers of these names left in a folder, if permitted.

    >>> sweep_folder("/nowhere", {"a.tar"})
    """
    kept = {hidden_name(name) for name in names}
    ours = re.compile(rf"(\..+)\.{_host()}-(\d+)-\w{{8}}\.part", re.DOTALL)
    with suppress(OSError):
        for entry in os.listdir(folder or "."):
            found = ours.fullmatch(entry)
            if found and found[1] in kept:
                _remove_abandoned(os.path.join(folder, entry), int(found[2]))


def process_lives(process: object) -> bool:
    """Whether a process of this machine exists.

    >>> process_lives(os.getpid()), process_lives(10**20)
    (True, False)
    """
    if not isinstance(process, int) or process <= 0:
        return False
    try:
        os.kill(process, 0)
    except (ProcessLookupError, OverflowError):  # OverflowError: not a possible process id
        return False
    except PermissionError:  # it belongs to another user
        pass
    return True


def _remove_abandoned(path: str, process: int) -> None:
    """Remove a file or folder that no process has locked: another process may have the number by now.

    Where there are no locks, nothing is removed.
    """
    with suppress(OSError):
        if process_lives(process) and time.time() - os.stat(path).st_mtime < _SOON_LOCKED:
            return  # it may have been made just now, and not be locked yet
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if stat.S_ISDIR(os.fstat(descriptor).st_mode):
                shutil.rmtree(path, ignore_errors=True)
            else:
                os.unlink(path)
        finally:
            os.close(descriptor)


def _sync_directory(path: str) -> None:
    with suppress(OSError):  # some file systems refuse to sync directories; the file itself is safe
        descriptor = os.open(os.path.dirname(path) or ".", os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
