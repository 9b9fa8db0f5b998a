"""Import an optional package, or say which extra brings it."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from webdataset.errors import MissingDependency


def require(package: str, *, extra: str, why: str) -> Any:
    """The imported package.

    >>> require("json", extra="formats", why="to decode 'json'").__name__
    'json'
    >>> require("no_such_package", extra="formats", why="to decode 'xyz'")
    Traceback (most recent call last):
    webdataset.errors.MissingDependency: the package 'no_such_package' is needed to decode 'xyz' – ...
    """
    try:
        return import_module(package)
    except ImportError as error:
        raise MissingDependency(package, extra=extra, why=why) from error
