"""Errors of the disk that a cache directory is on, as typed errors."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager

from webdataset.errors import AccessDenied, StoreError, WebDatasetError, Where

_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_HINTS = {
    errno.EMFILE: "raise the limit of open files (ulimit -n)",
    errno.ENFILE: "the system has too many open files",
    errno.ENOMEM: "the machine has no memory left",
    errno.ENOENT: "the cache directory must not be removed while it is used; open the shard again",
}


@contextmanager
def disk_errors(folder: str, url: str | None = None) -> Iterator[None]:
    """Turn errors of the operating system inside the block into ours.

    >>> with disk_errors("/cache", "https://h/a.tar"):
    ...     raise OSError(errno.ENOSPC, "No space left on device")
    Traceback (most recent call last):
    webdataset.errors.StoreError: the disk of the shard cache is full – https://h/a.tar – free some space in /cache, ...

    Args:
        folder: The cache directory.
        url: The shard that was read, if it was one.
    """
    where = Where(shard=folder if url is None else url)
    try:
        yield
    except WebDatasetError:
        raise
    except OSError as error:
        if error.errno in _FULL:
            hint = f"free some space in {folder}, or give it a smaller cache_size"
            raise StoreError("the disk of the shard cache is full", where, hint=hint) from error
        what = f"the cache directory cannot be used: {error.strerror or error}"
        if isinstance(error, PermissionError | FileExistsError | NotADirectoryError) or error.errno == errno.EROFS:
            hint = "give a cache_dir (or WDS_CACHE) that this user may write to"
            raise AccessDenied(what, where, hint=hint) from error
        raise StoreError(what, where, hint=_HINTS.get(error.errno or 0, f"check the disk of {folder}")) from error
