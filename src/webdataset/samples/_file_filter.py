"""Which members are read, and under what name: `rename_files`, then `select_files`, as one function of the name."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING

from webdataset.errors import SpecError
from webdataset.names import is_meta

if TYPE_CHECKING:
    from webdataset.tar import Rename

Select = Callable[[str], bool] | str | Collection[str]


def choose(select_files: Select | None = None, rename_files: Callable[[str], str] | None = None) -> Rename | None:
    """The function from stored name to name, or to None for members to skip; None if all are read as they are.

    >>> choice = choose("*.{jpg,cls}", str.lower)
    >>> choice("0001.JPG"), choice("0001.json"), choice("__meta__/0001.jpg")
    ('0001.jpg', None, None)

    Args:
        select_files: a predicate on the new name, or glob patterns for it; `*` matches any characters, slashes too.
        rename_files: applied first.
    """
    if select_files is None and rename_files is None:
        return None
    wanted = as_predicate(select_files)

    def choice(name: str) -> str | None:
        if is_meta(name):
            return None
        if rename_files is not None:
            name = rename_files(name)
        return name if wanted is None or wanted(name) else None

    return choice


def as_predicate(select_files: Select | None) -> Callable[[str], object] | None:
    """A predicate out of any form of `select_files`.

    >>> bool(as_predicate(["*.jpg", "*.cls"])("a/0001.cls"))
    True
    >>> as_predicate(3)
    Traceback (most recent call last):
    webdataset.errors.SpecError: select_files=3 is not valid – give a function of the name, or glob patterns ...
    """
    if select_files is None or callable(select_files):
        return select_files
    patterns = [select_files] if isinstance(select_files, str) else select_files
    if not isinstance(patterns, Collection) or not all(isinstance(pattern, str) for pattern in patterns):
        raise SpecError(
            f"select_files={select_files!r} is not valid",
            hint='give a function of the name, or glob patterns such as "*.jpg" or ["*.jpg", "*.cls"]',
        )
    from braceexpand import braceexpand

    globs = (fnmatch.translate(glob) for pattern in patterns for glob in braceexpand(pattern))
    return re.compile("|".join(globs) or r"(?!)").match
