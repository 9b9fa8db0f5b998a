"""Errors of the operating system, as typed errors."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager

from webdataset.errors import AccessDenied, ShardNotFound, StoreError, Where

_HINTS = {
    errno.EMFILE: "raise the limit of open files (ulimit -n)",
    errno.ENFILE: "the system has too many open files",
    errno.EIO: "check the disk",
}


@contextmanager
def system_errors(path: str) -> Iterator[None]:
    """Turn errors of the operating system inside the block into typed errors; subclasses of libraries pass unchanged.

    >>> with system_errors("a.tar"):
    ...     open("/no/such/file")
    Traceback (most recent call last):
    webdataset.errors.ShardNotFound: file not found – a.tar – check the name and the directory
    """
    try:
        yield
    except OSError as error:
        if type(error).__module__ != "builtins":
            raise
        raise _typed_error(error, Where(shard=path)) from error


def _typed_error(error: OSError, where: Where) -> StoreError:
    if isinstance(error, FileNotFoundError):
        return ShardNotFound("file not found", where, hint="check the name and the directory")
    if isinstance(error, PermissionError):
        return AccessDenied("permission denied", where, hint="check the owner and mode of the file and its directory")
    if isinstance(error, IsADirectoryError):
        return StoreError("this is a directory", where, hint="add / at the end to name the files in it")
    if error.errno in {errno.ENOSPC, errno.EDQUOT}:
        return StoreError("the disk is full", where, hint="free some space or write elsewhere")
    if error.errno == errno.EROFS:
        return AccessDenied("the file system is read-only", where, hint="write elsewhere")
    what = f"the operating system reports: {error.strerror or error}"
    return StoreError(what, where, hint=_HINTS.get(error.errno or 0, "check the name and the system's limits"))
