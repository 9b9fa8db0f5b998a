"""Which store serves which scheme; users add their own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from webdataset import config
from webdataset.errors import SpecError

from ._address import scheme_of
from ._handler import HandlerStore
from ._http import HttpStore
from ._local import LocalStore
from ._memory import MemoryStore
from ._pipe import PipeStore
from ._standard import StandardStore
from ._store import Store

Handler = Callable[..., Any]

_http = HttpStore()

schemes: dict[str, Store | Handler] = {
    "": LocalStore(),
    "-": StandardStore(),
    "file": LocalStore(),
    "memory": MemoryStore(),
    "pipe": PipeStore(),
    "http": _http,
    "https": _http,
}
"""Scheme → a `Store`, or a function `f(url, mode, bufsize)` that returns a binary file. Change it to your liking."""


def scheme(url: str) -> str:
    """The scheme of an address, as the table has it.

    >>> scheme("-"), scheme("data/a.tar"), scheme("https://h/a.tar")
    ('-', '', 'https')
    """
    return "-" if url == "-" else scheme_of(url, set(schemes))


def store_for(url: str) -> Store:
    """The store that serves an address.

    >>> store_for("data/a.tar")
    LocalStore()
    """
    name = scheme(url)
    if name in config.read("USE_AIS_FOR"):
        name = "ais"
    found = schemes.get(name, schemes.get("__default__"))
    if isinstance(found, Store):
        return found
    if callable(found):
        return HandlerStore(found)
    raise SpecError(
        f"stores.schemes[{name!r}] is {found!r}", hint="it must be a Store or a function f(url, mode, bufsize)"
    )
