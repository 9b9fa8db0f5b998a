"""Optional packages: import one, or raise an error that names the extra to install; check whether one is installed."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import Any

from webdataset.errors import MissingDependency


def require(package: str, *, extra: str, why: str) -> Any:
    """The imported package, or a module of it.

    >>> require("json", extra="formats", why="to decode 'json'").__name__
    'json'
    >>> require("no_such_package", extra="formats", why="to decode 'xyz'")
    Traceback (most recent call last):
    webdataset.errors.MissingDependency: the package 'no_such_package' is needed to decode 'xyz' – ...
    """
    try:
        return import_module(package)
    except ImportError as error:
        raise MissingDependency(package.partition(".")[0], extra=extra, why=why) from error


@cache
def find_package(name: str) -> Any:
    """The imported package, or None where it is not installed.

    >>> find_package("no_such_package") is None
    True
    """
    try:
        return import_module(name)
    except ImportError:
        return None
