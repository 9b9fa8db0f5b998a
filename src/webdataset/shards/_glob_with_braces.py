"""Globs with braces, on local files."""

from __future__ import annotations

import fnmatch
import glob

from webdataset import stores

from ._expand import expand_urls


def fnmatch_with_braces(filename: str, pattern: str) -> bool:
    """Whether a name matches a pattern that may have braces.

    >>> fnmatch_with_braces("a.tgz", "*.{tar,tgz}")
    True
    """
    return any(fnmatch.fnmatch(filename, plain) for plain in expand_urls([pattern]))


def glob_with_braces(pattern: str) -> list[str]:
    """The local files that match a pattern with braces, each once, sorted within each alternative.

    They are paths: a file is opened as a file, whatever its name looks like.

    >>> glob_with_braces("nowhere/*.{tar,tgz}")
    []
    """
    found: dict[str, None] = {}
    for plain in expand_urls([pattern]):
        found |= dict.fromkeys(sorted(glob.glob(plain)))
    return [stores.local_file(name) for name in found]
