"""The verbs: every address of the package is opened, measured and listed here."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from webdataset import config
from webdataset.errors import SpecError

from ._address import local_path, text
from ._address_guard import refuse_local, refuse_untrusted
from ._globs import is_pattern
from ._redact import redacted
from ._registry import scheme, store_for
from ._rewrite import rewrite_url
from ._user_opener import HandlerStore

if TYPE_CHECKING:
    import os

    from ._store import Stat, Store

_log = logging.getLogger(__name__)


def open_read(url: str | os.PathLike[str], *, start: int = 0, trusted: bool = True) -> Any:
    """A binary stream of what is stored at `url`, from byte `start` on.

    >>> with open_write("memory://door/a.tar") as stream:
    ...     _ = stream.write(b"hello")
    >>> with open_read("memory://door/a.tar", start=1) as stream:
    ...     stream.read(3)
    b'ell'

    The end of the stream is verified: a short body or a failed command raises instead of ending.

    Args:
        url: A path or an address of any scheme in `schemes`.
        start: The first byte wanted.
        trusted: False for an address that came out of downloaded data: `pipe:` is then refused.
    """
    name, store = _resolve(url, trusted=trusted)
    return store.open_read(name, start)


def open_write(url: str | os.PathLike[str]) -> Any:
    """A binary stream that is published at `url` when it is closed, and discarded by `abort()` or an exception.

    >>> with open_write("memory://door/b.tar") as stream:
    ...     _ = stream.write(b"hello")
    >>> stat("memory://door/b.tar").size
    5
    """
    name, store = _resolve(url)
    return store.open_write(name)


def read_range(
    url: str | os.PathLike[str], start: int, length: int, *, version: str | None = None, trusted: bool = True
) -> bytes:
    """Exactly `length` bytes from `start` on; an error if the object is not of the given version (`stat(url).etag`).

    >>> with open_write("memory://door/c.tar") as stream:
    ...     _ = stream.write(b"hello")
    >>> read_range("memory://door/c.tar", 1, 3)
    b'ell'
    """
    if start < 0 or length < 0:
        raise SpecError(f"the range {start}+{length} is not possible", hint="count from 0, forwards")
    name, store = _resolve(url, trusted=trusted)
    return store.read_range(name, start, length) if version is None else store.read_range(name, start, length, version)


def stat(url: str | os.PathLike[str], *, trusted: bool = True) -> Stat:
    """Size, etag and time of change of what is stored at `url`.

    >>> with open_write("memory://door/d.tar") as stream:
    ...     _ = stream.write(b"hello")
    >>> stat("memory://door/d.tar").size
    5
    """
    name, store = _resolve(url, trusted=trusted)
    return store.stat(name)


def list_urls(pattern: str | os.PathLike[str]) -> list[str]:
    """The addresses that a pattern stands for, sorted.

    >>> for name in "ab":
    ...     with open_write(f"memory://list/{name}.tar") as stream:
    ...         _ = stream.write(b"")
    >>> list_urls("memory://list/*.tar")
    ['memory://list/a.tar', 'memory://list/b.tar']

    `*` and `?` stay inside one directory, `**` does not, and a trailing slash means every file in that directory. An
    address that is no pattern stands for itself, whether it exists or not.
    """
    name, store = _resolve(pattern)
    # A local name without a trailing slash may still be a directory; only the store can tell.
    names_many = is_pattern(name) or scheme(name) in {"", "file"}
    return sorted(store.glob(name)) if names_many else [name]


def is_local(url: str | os.PathLike[str]) -> str | None:
    """The path to open, if `url` is a file of this machine (after rewriting); in secure mode that is refused.

    >>> is_local("data/a#1.tar"), is_local("file:a%20b.tar"), is_local("https://h/a.tar")
    ('data/a#1.tar', 'a b.tar', None)
    """
    name = rewrite_url(text(url))
    if scheme(name) not in {"", "file"} or isinstance(store_for(name), HandlerStore):
        return None
    refuse_local(name)
    return local_path(name)


def gopen(url: str | os.PathLike[str], mode: str = "rb", bufsize: int = 8192, **_: Any) -> Any:
    r"""Open for reading or writing: the public library's opener.

    >>> gopen("pipe:echo hello").read()
    b'hello\n'
    """
    if mode not in {"rb", "wb"}:
        raise SpecError(f"the mode {mode!r} is not known", hint='use "rb" or "wb"')
    name, store = _resolve(url)
    if isinstance(store, HandlerStore):
        store = HandlerStore(store.function, bufsize)
    return store.open_read(name) if mode == "rb" else store.open_write(name)


def _resolve(url: str | os.PathLike[str], *, trusted: bool = True) -> tuple[str, Store]:
    name = text(url)
    if not trusted:
        refuse_untrusted(name)
    name = rewrite_url(name)
    if config.read("GOPEN_VERBOSE"):
        _log.info("opening %s", redacted(name))
    return name, store_for(name)
