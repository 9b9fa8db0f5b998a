"""Every other scheme that fsspec supports: sftp, ssh, ftp, hdfs, webdav, github, …

The version of a file is requested separately, and some file systems read each block with another request. So the
version is requested again after the bytes: if it is the same, the bytes in between belong to it.
"""

from __future__ import annotations

import io
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from webdataset.address import Birth, birth_of
from webdataset.errors import AccessDenied, MissingDependency, ShardNotFound, StoreError, UnknownScheme, Where
from webdataset.optional import require

from ._parse_address import refuse_another_name, scheme_of
from ._resuming_stream import Body, Patience, ResumingStream, persist, retryable
from ._same_object import BytesRead, changed
from ._store import Stat, Store
from ._trust import refuse_local
from ._upload import Upload

_OURS = "http, https, s3, gs, az, hf, ais, file, pipe, memory"
# The names that file systems use for the time of the last change.
_TIMES = ("mtime", "modify", "modified", "LastModified", "last_modified", "updated", "created")
# Schemes of fsspec that open local files.
_DISGUISES = {"local", "dir", "simplecache", "filecache", "blockcache"}


class FsspecStore(Store):
    """All schemes that fsspec can open.

    >>> FsspecStore().open_read("nonsense://x")
    Traceback (most recent call last):
    webdataset.errors.UnknownScheme: unknown URL scheme 'nonsense' – nonsense://x, byte 0 – ...
    """

    kind = "fsspec"

    def __init__(self, patience: Patience | None = None) -> None:
        self.patience = patience or Patience()

    def open_read(self, url: str, start: int = 0) -> ResumingStream:
        return ResumingStream(url, lambda at, _: _FsspecBody(url, at, self.stat), start, self.patience, self.kind)

    def read_range(
        self, url: str, start: int, length: int, version: str | None = None, size: int | None = None
    ) -> bytes:
        data = super().read_range(url, start, length, version, size)
        if version is not None or size is not None:
            found = self.stat(url)
            BytesRead(url, start, version, size).check(found.etag, found.size, start)
        return data

    def stat(self, url: str) -> Stat:
        return persist(lambda: _stat(url), url, self.patience, self.kind)

    def open_write(self, url: str) -> _FsspecUpload:
        return _FsspecUpload(url)

    def list(self, prefix: str) -> Iterator[str]:
        fs, path = _file_system_and_path(prefix)
        if prefix.endswith("/") and not path.endswith("/"):
            path += "/"  # some file systems remove it
        folder, _, _ = path.rpartition("/")
        start = prefix[: len(prefix) - len(path)] if prefix.endswith(path) else f"{scheme_of(prefix)}://"
        names = persist(lambda: _find(fs, folder or "/", prefix), prefix, self.patience, self.kind)
        return (start + name for name in names if name.startswith(path))


class _FsspecBody(Body):
    def __init__(self, url: str, start: int, stat: Callable[[str], Stat]) -> None:
        fs, path = _file_system_and_path(url)
        self._url, self.start, self._at, self.ranged, self._stat = url, start, start, True, stat
        self._found = found = _stat(url)
        self.size, self.version = found.size, found.etag
        with fsspec_errors(url):
            self._file: Any = fs.open(path, "rb")
            if start:
                self._file.seek(start)

    def read1(self, size: int) -> bytes:
        with fsspec_errors(self._url):
            piece: bytes = self._file.read(size)
        self._at += len(piece)
        if (not piece or self._at == self.size) and (now := self._stat(self._url)) != self._found:
            raise changed(self._url, self._at, f"it was {self._found} and is now {now}")
        return piece

    def close(self) -> None:
        with suppress(Exception):  # a broken connection may fail to close
            self._file.close()


class _FsspecUpload(Upload):
    """Written next to the target and moved over it where the server can move files."""

    def __init__(self, url: str) -> None:
        self._finished = True  # until there is something to publish or discard
        self._url = url
        self._fs, self._path = _file_system_and_path(url)
        self._temporary = f"{self._path}.{secrets.token_hex(4)}.part"  # a name of its own for every writer
        with fsspec_errors(url):
            self._file: Any = self._fs.open(self._temporary, "wb")
        self._finished = False

    def write(self, data: Any, /) -> int:
        with fsspec_errors(self._url):
            self._file.write(bytes(data))
        return len(data)

    def publish(self) -> None:
        with fsspec_errors(self._url):
            self._file.close()
            try:
                self._fs.mv(self._temporary, self._path)
            except Exception:  # each library raises its own; some servers do not replace files by moving
                if not self._fs.exists(self._path):
                    raise
                self._fs.rm_file(self._path)
                self._fs.mv(self._temporary, self._path)

    def discard(self) -> None:
        with fsspec_errors(self._url):
            self._file.close()
            self._fs.rm_file(self._temporary)


def _find(fs: Any, folder: str, prefix: str) -> list[str]:
    with fsspec_errors(prefix):
        return sorted(fs.find(folder))


def _stat(url: str) -> Stat:
    fs, path = _file_system_and_path(url)
    with fsspec_errors(url):
        fs.invalidate_cache(fs._parent(path))  # a listing in the file system's cache may have an old version
        found = fs.info(path)
    if found.get("type") == "directory":
        raise StoreError("this is a directory", Where(shard=url), hint="add / at the end to name the files in it")
    etag = found.get("ETag") or found.get("etag")
    modified = next((found[name] for name in _TIMES if found.get(name)), None)
    # A time is a weak validator: see _same_object.
    return Stat(found.get("size"), str(etag) if etag else f'W/"{modified}"' if modified else None)


def _file_system_and_path(url: str) -> tuple[Any, str]:
    """The file system of an address, and the path in it."""
    fsspec = require("fsspec", extra="fsspec", why=f"to open {url}")
    if "::" in url or scheme_of(url) in _DISGUISES:
        refuse_local(url)
    try:
        fs, path = fsspec.core.url_to_fs(url)
    except ImportError as error:
        raise MissingDependency(error.name or "a package", extra="fsspec", why=f"to open {url}: {error}") from error
    except ValueError as error:
        raise UnknownScheme(
            f"unknown URL scheme {scheme_of(url)!r}",
            Where(shard=url),
            hint=f"use one of {_OURS}, one that fsspec supports, or add yours to stores.schemes",
        ) from error
    except OSError as error:
        raise _typed_error(error, url) from error
    if "file" in (fs.protocol if isinstance(fs.protocol, tuple) else (fs.protocol,)):
        refuse_local(url)
    refuse_another_name(url, "", changed=birth_of(url) is Birth.LISTING and not url.endswith(path))
    return fs, path


@contextmanager
def fsspec_errors(url: str) -> Iterator[None]:
    """Turn exceptions of file systems into typed errors."""
    try:
        yield
    except StoreError:
        raise
    except (OSError, EOFError, io.UnsupportedOperation) as error:
        raise _typed_error(error, url) from error
    except Exception as error:
        # Each file system uses a library with exceptions of its own (paramiko, ftplib, …): treated as temporary.
        raise retryable(StoreError(f"{type(error).__name__}: {error}", Where(shard=url))) from error


def _typed_error(error: BaseException, url: str) -> StoreError:
    where = Where(shard=url)
    if isinstance(error, FileNotFoundError):
        return ShardNotFound("file not found", where, hint="check the address")
    if isinstance(error, PermissionError):
        return AccessDenied(f"permission denied: {error}", where, hint="check the credentials for this server")
    if isinstance(error, io.UnsupportedOperation | NotImplementedError | IsADirectoryError):
        return StoreError(f"this file system cannot do that: {error}", where, hint="use another kind of address")
    return retryable(StoreError(f"the connection failed: {str(error) or type(error).__name__}", where))
