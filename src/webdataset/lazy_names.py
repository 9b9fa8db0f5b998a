"""Packages whose files are loaded when one of their names is first used: loading all of them takes too long."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping
from typing import Any


def lazy_names(package: str, home: Mapping[str, str]) -> tuple[dict[str, tuple[str, str]], Callable[[str], Any]]:
    """Where each name of a package lives (its file, and its name there), and the package's `__getattr__`.

    >>> where, load = lazy_names("webdataset", {"names": "split_name split=split_name"})
    >>> where
    {'split_name': ('names', 'split_name'), 'split': ('names', 'split_name')}
    >>> load("split")("0001.jpg")
    ('0001', 'jpg')

    Args:
        package: its name.
        home: file of the package → the names in it, with blanks between them; `a=b` for a name that is `b` there.
    """
    where = {}
    for file, names in home.items():
        for name, _, there in (each.partition("=") for each in names.split()):
            where[name] = file, there or name

    def load(name: str) -> Any:
        if name not in where:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        file, there = where[name]
        value = getattr(importlib.import_module(f"{package}.{file}"), there)
        setattr(sys.modules[package], name, value)
        return value

    return where, load
