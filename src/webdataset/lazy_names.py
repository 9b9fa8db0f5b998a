"""Packages whose files are loaded when one of their names is first used: loading all of them takes too long."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping
from typing import Any


def lazy_names(package: str, home: Mapping[str, str]) -> tuple[dict[str, tuple[str, str]], Callable[[str], Any]]:
    """Return the file of each name of a package, with its name in that file, and the package's `__getattr__`.

    >>> where, load = lazy_names("webdataset", {"names": "split_name split=split_name"})
    >>> where
    {'split_name': ('names', 'split_name'), 'split': ('names', 'split_name')}
    >>> load("split")("0001.jpg")
    ('0001', 'jpg')

    Args:
        package: the name of the package.
        home: file of the package → the names in it, with blanks between them; `a=b` for a name that is `b` in the file.
    """
    where = {}
    for file, names in home.items():
        for name, _, original in (entry.partition("=") for entry in names.split()):
            where[name] = file, original or name

    def load(name: str) -> Any:
        if name not in where:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        file, original = where[name]
        value = getattr(importlib.import_module(f"{package}.{file}"), original)
        setattr(sys.modules[package], name, value)
        return value

    return where, load
