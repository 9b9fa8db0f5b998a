"""Which member belongs to which sample: the naming rule, as far as an index needs it.

The same rule as everywhere: the key is the directory and the basename up to its first dot, the field is the rest. Names
without a dot, hidden files and `__meta__/` entries belong to no sample.
"""

from __future__ import annotations

import re

_META = re.compile(r"__[^/]*__($|/)")


def split_name(name: str) -> tuple[str, str] | None:
    """(key, field) of a member, or None if it belongs to no sample.

    >>> split_name("dir.x/a.seg.jpg"), split_name("noext"), split_name("dir/._a.jpg")
    (('dir.x/a', 'seg.jpg'), None, None)
    """
    base = name.rfind("/") + 1
    dot = name.find(".", base)
    if dot <= base or (name.startswith("__") and _META.match(name)):
        return None
    return name[:dot], name[dot + 1 :]
