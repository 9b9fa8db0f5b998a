"""The naming rule: member name → (key, field), and which names belong to no sample."""

from __future__ import annotations

import re

# Fields that the reader sets itself. A shard written with keep_meta=True contains members with the names of the last
# two; the reader's values replace them, because the stored ones are those of an earlier reading. No writer makes a
# member `x.__key__`: it is an error, so that it is not lost silently.
OWN_FIELDS = frozenset({"__key__", "__url__", "__local_path__"})

_META = re.compile(r"__[^/]*__(?:/|\Z)")


def split_name(path: str) -> tuple[str, str] | tuple[None, None]:
    """Key and field of a member name: the last component is cut at its first dot.

    >>> split_name("train/0001.seg.png")
    ('train/0001', 'seg.png')
    >>> split_name("v1.2/0001.jpg")
    ('v1.2/0001', 'jpg')
    >>> split_name("README"), split_name("train/._0001.jpg")
    ((None, None), (None, None))

    Names without a dot belong to no sample, nor do hidden files in any directory: macOS stores `._0001.jpg` next to
    `0001.jpg`.
    """
    directory, slash, base = path.rpartition("/")
    stem, dot, field = base.partition(".")
    if not (stem and dot):
        return None, None
    return f"{directory}{slash}{stem}", field


def is_meta(path: str) -> bool:
    """Whether a name is reserved for data about the archive: its first component is `__…__`.

    >>> is_meta("__meta__/info.json"), is_meta("__meta__"), is_meta("__meta__.json"), is_meta("a/__meta__")
    (True, True, False, False)
    """
    return path.startswith("__") and _META.match(path) is not None
