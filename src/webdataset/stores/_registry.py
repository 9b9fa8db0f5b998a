"""Which store serves which scheme; users add their own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from webdataset import config
from webdataset.address import Birth, birth_of
from webdataset.errors import SpecError
from webdataset.optional import require

from ._ais import AisStore
from ._fsspec import FsspecStore
from ._http import HttpStore
from ._huggingface import HuggingFaceStore
from ._local_files import LocalStore
from ._memory_store import MemoryStore
from ._object_store import CloudStore
from ._parse_address import scheme_of
from ._pipe import PipeStore
from ._standard_streams import StandardStore
from ._store import Store
from ._user_opener import HandlerStore

Handler = Callable[..., Any]

schemes: dict[str, Store | Handler] = {
    "": LocalStore(),
    "-": StandardStore(),
    "file": LocalStore(),
    "memory": MemoryStore(),
    "pipe": PipeStore(),
    "hf": HuggingFaceStore(),
    "ais": AisStore(),
    **dict.fromkeys(("http", "https"), HttpStore()),
    **dict.fromkeys(("s3", "s3a", "gs", "az", "azure", "abfs", "abfss"), CloudStore()),
    **dict.fromkeys(("sftp", "ssh", "ftp", "hdfs", "__default__"), FsspecStore()),
}
"""Scheme → a `Store`, or a function `f(url, mode, bufsize)` that returns a binary file. Add your own."""


def scheme(url: str) -> str:
    """The scheme of an address, as the table has it.

    >>> scheme("-"), scheme("data/a.tar"), scheme("https://h/a.tar")
    ('-', '', 'https')
    """
    return "-" if url == "-" and birth_of(url) is not Birth.FILE else scheme_of(url, schemes.keys())


def store_for(url: str) -> Store:
    """The store that serves an address.

    >>> store_for("data/a.tar")
    LocalStore()
    """
    name = scheme(url)
    if name in config.read("USE_AIS_FOR"):
        name = "ais"
    found = schemes.get(name, schemes.get("__default__"))
    if isinstance(found, CloudStore):
        require("obstore", extra="cloud", why=f"to open {name}:// addresses")
    if isinstance(found, Store):
        return found
    if callable(found) and not (isinstance(found, type) and issubclass(found, Store)):
        return HandlerStore(found)
    raise SpecError(f"stores.schemes[{name!r}]={found!r}: expected a Store object or a function f(url, mode, bufsize)")
