"""Patterns of addresses: the literal part, and which addresses match."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache

_MAGIC = re.compile(r"[*?\[]")


def is_pattern(url: str) -> bool:
    """Whether the address is a pattern: a glob, or every file in a directory.

    >>> is_pattern("s3://b/train-*.tar"), is_pattern("dir/"), is_pattern("a.tar")
    (True, True, False)
    """
    return url.endswith("/") or _MAGIC.search(url) is not None


def prefix_of(pattern: str) -> str:
    """The literal part with which all matching addresses begin.

    >>> prefix_of("s3://b/train-*.tar")
    's3://b/train-'
    """
    return _MAGIC.split(pattern, maxsplit=1)[0]


def matches(pattern: str) -> Callable[[str], bool]:
    """A test for addresses.

    >>> test = matches("s3://b/train-*.tar")
    >>> test("s3://b/train-01.tar"), test("s3://b/train-x/01.tar")
    (True, False)
    >>> matches("s3://b/dir/")("s3://b/dir/x.tar")
    True
    """
    expression = _translate(pattern + "*" if pattern.endswith("/") else pattern)
    return lambda url: expression.fullmatch(url) is not None


@lru_cache(maxsize=64)
def _translate(pattern: str) -> re.Pattern[str]:
    """fnmatch, with slashes: `*` and `?` do not cross them, `**` does."""
    parts = re.split(r"(\*\*/?|\*|\?|\[[^\]]*\])", pattern)
    return re.compile("".join(_expression(part) for part in parts), re.DOTALL)


def _expression(part: str) -> str:
    known = {"**": ".*", "**/": "(?:.*/)?", "*": "[^/]*", "?": "[^/]"}
    if part in known:
        return known[part]
    if part.startswith("[") and part.endswith("]"):
        inside = part[1:-1].replace("\\", "\\\\")
        return f"[^{inside[1:]}]" if inside.startswith("!") else f"[{inside}]"
    return re.escape(part)
