"""Zstandard: the standard library's module, or `backports.zstd`, which is the same for Python before 3.14."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from webdataset.errors import MissingDependency


def load_zstd(why: str) -> Any:
    """The module.

    >>> load_zstd("to read '.zst' archives").decompress(load_zstd("to write").compress(b"hello"))
    b'hello'
    """
    for name in ("compression.zstd", "backports.zstd"):
        try:
            return import_module(name)
        except ImportError:
            continue
    raise MissingDependency("backports.zstd", extra="compression", why=why)
