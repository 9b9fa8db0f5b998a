"""Open, measure and list: every address that the package opens comes through here."""

from __future__ import annotations

import inspect
import logging
import os
from functools import cache
from typing import Any

from webdataset import config
from webdataset.address import Address, Birth, is_from_data, like
from webdataset.errors import SpecError, StoreError
from webdataset.redact import redacted

from ._globs import is_pattern
from ._parse_address import as_address, local_file, local_path, refuse_malformed
from ._registry import scheme, store_for
from ._rewrite import rewrite_url
from ._store import Stat, Store
from ._system_errors import system_errors
from ._trust import check, check_rewritten, refuse_local
from ._user_opener import HandlerStore

_log = logging.getLogger(__name__)


def open_read(url: str | os.PathLike[str], *, start: int = 0, trusted: bool = True) -> Any:
    """A binary stream of what is stored at `url`, from byte `start` on.

    >>> with open_write("memory://open/a.tar") as stream:
    ...     _ = stream.write(b"hello")
    >>> with open_read("memory://open/a.tar", start=1) as stream:
    ...     stream.read(3)
    b'ell'

    The end of the stream is verified: a short body or a failed command raises instead of ending.

    Args:
        url: A path or an address of any scheme in `schemes`.
        start: The first byte to read.
        trusted: False for an address that was read from data (a member of a shard, say): commands and local files are
            then refused, and no stored credentials are sent.
    """
    name, store = _resolve(url, trusted=trusted)
    with system_errors(name):
        return store.open_read(name, start)


def open_write(url: str | os.PathLike[str]) -> Any:
    """A binary stream whose bytes appear at `url` when it is closed, and never after `abort()` or an exception.

    >>> with open_write("memory://open/b.tar") as stream:
    ...     _ = stream.write(b"hello")
    >>> stat("memory://open/b.tar").size
    5
    """
    name, store = _resolve(url, writing=True)
    with system_errors(name):
        return store.open_write(name)


def read_bytes(url: str | os.PathLike[str]) -> bytes:
    """Everything that is stored at `url`."""
    with open_read(url) as stream:
        data: bytes = stream.read()
    return data


def write_bytes(url: str | os.PathLike[str], data: bytes) -> None:
    """Store `data` at `url`.

    >>> write_bytes("memory://open/e.tar", b"hello")
    >>> read_bytes("memory://open/e.tar")
    b'hello'
    """
    with open_write(url) as stream:
        stream.write(data)


def read_range(
    url: str | os.PathLike[str],
    start: int,
    length: int,
    *,
    version: str | None = None,
    size: int | None = None,
    trusted: bool = True,
) -> bytes:
    """Exactly `length` bytes from `start` on; an error if the store reports another version or size of the object.

    >>> with open_write("memory://open/c.tar") as stream:
    ...     _ = stream.write(b"hello")
    >>> read_range("memory://open/c.tar", 1, 3)
    b'ell'

    Args:
        url: A path or an address.
        start: The first byte.
        length: How many bytes.
        version: What `stat(url).etag` was.
        size: What `stat(url).size` was.
        trusted: As for `open_read`.
    """
    if start < 0 or length < 0:
        raise SpecError(f"expected start >= 0 and length >= 0, got {start} and {length}")
    name, store = _resolve(url, trusted=trusted)
    with system_errors(name):
        if _compares_sizes(type(store)):
            return store.read_range(name, start, length, version, size)
        return store.read_range(name, start, length, *(() if version is None else (version,)))


def stat(url: str | os.PathLike[str], *, trusted: bool = True) -> Stat:
    """Size, etag and time of change of what is stored at `url`.

    >>> with open_write("memory://open/d.tar") as stream:
    ...     _ = stream.write(b"hello")
    >>> stat("memory://open/d.tar").size
    5
    """
    name, store = _resolve(url, trusted=trusted)
    with system_errors(name):
        return store.stat(name)


def size_of(url: str | os.PathLike[str]) -> int | None:
    """The size of what is stored at `url`; None if nothing is, or if the size is not known (commands, some servers)."""
    try:
        return stat(url).size
    except StoreError:
        return None


def list_urls(pattern: str | os.PathLike[str]) -> list[str]:
    """The addresses that match a pattern, sorted.

    >>> for name in "ab":
    ...     with open_write(f"memory://list/{name}.tar") as stream:
    ...         _ = stream.write(b"")
    >>> list_urls("memory://list/*.tar")
    ['memory://list/a.tar', 'memory://list/b.tar']

    `*` and `?` stay inside one directory, `**` does not, and a trailing slash means every file in that directory. An
    address that is not a pattern is returned as it is, whether it exists or not.

    A local file is returned as a path, which is opened as a file for any name. Addresses that a server lists are marked
    as read from data, and opened on that server alone.
    """
    name, store = _resolve(pattern)
    # Without a trailing slash it may still be a directory: the store of local files checks.
    is_file = scheme(name) in {"", "file"}
    if not is_file and not is_pattern(name):
        return [name]
    with system_errors(name):
        found = sorted(store.glob(name))
    home = name if name.endswith("/") else name[: name.rfind("/") + 1]
    if is_file:
        return [local_file(path) for path in found]
    # What a pattern from data finds is no more trusted than the pattern.
    return [like(name, path) if is_from_data(name) else Address(path, Birth.LISTING, home) for path in found]


def is_local(url: str | os.PathLike[str]) -> str | None:
    """The path to open, if `url` is a local file (after rewriting); in secure mode that is refused.

    >>> is_local("data/a#1.tar"), is_local("file:a%20b.tar"), is_local("https://h/a.tar")
    ('data/a#1.tar', 'a b.tar', None)
    """
    name = permitted(as_address(url))
    if scheme(name) not in {"", "file"} or isinstance(store_for(name), HandlerStore):
        return None
    refuse_local(name)
    return local_path(name)


def permitted(url: str, *, writing: bool = False) -> str:
    """The address after rewriting, if the table of `_trust` allows to open it; otherwise `UnsafeContent` is raised.

    >>> permitted("data/a.tar")
    'data/a.tar'
    """
    name = rewrite_url(url)
    refuse_malformed(name, scheme(name))
    if name != url:
        check_rewritten(name, scheme(name))
    elif is_from_data(url):
        check(name, scheme(name), writing=writing)
    return name


def gopen(url: str | os.PathLike[str], mode: str = "rb", bufsize: int = 8192, **_: Any) -> Any:
    r"""Open for reading or writing: the public library's opener.

    >>> gopen("pipe:echo hello").read()
    b'hello\n'
    """
    if mode not in {"rb", "wb"}:
        raise SpecError(f"expected mode 'rb' or 'wb', got {mode!r}")
    name, store = _resolve(url, writing=mode == "wb")
    if isinstance(store, HandlerStore):
        store = HandlerStore(store.function, bufsize)
    with system_errors(name):
        return store.open_read(name) if mode == "rb" else store.open_write(name)


@cache
def _compares_sizes(kind: type[Store]) -> bool:
    """Whether `read_range` takes a size; in version 2.0.0 it did not, and stores of users may have that signature."""
    return "size" in inspect.signature(kind.read_range).parameters


def _resolve(url: str | os.PathLike[str], *, trusted: bool = True, writing: bool = False) -> tuple[str, Store]:
    name = as_address(url)
    if not trusted:
        name = Address(name, Birth.CONTENT)
    name = permitted(name, writing=writing)
    if config.read("GOPEN_VERBOSE"):
        _log.info("opening %s", redacted(name))
    return name, store_for(name)
