"""Which member belongs to which sample: the naming rule, for one name and for many."""

from __future__ import annotations

import numpy as np

from webdataset import names


def sample_and_field(name: str) -> tuple[str, str] | None:
    """(key, field) of a member, or None if it belongs to no sample.

    >>> sample_and_field("dir.x/a.seg.jpg"), sample_and_field("noext"), sample_and_field("__meta__/a.json")
    (('dir.x/a', 'seg.jpg'), None, None)
    """
    key, field = names.split_name(name)
    return None if key is None or field is None or names.is_meta(name) else (key, field)


def split_names(members: list[str]) -> tuple[list[str], list[str], list[int] | None]:
    """Keys and fields of many members, and which ones belong to samples; None if all do.

    >>> split_names(["a.jpg", "README", "a.cls"])
    (['a', 'a'], ['jpg', 'cls'], [0, 2])
    """
    joined = "\0".join(("", *members))
    if "\0__" not in joined and "\0." not in joined and "/." not in joined:
        if _have_one_dot(joined):
            words = joined.replace(".", "\0").split("\0")
            keys, fields = words[1::2], words[2::2]
        else:
            # Twice is faster than once: the parts that are kept would keep the garbage collector busy.
            keys = [name.partition(".")[0] for name in members]
            fields = [name.partition(".")[2] for name in members]
        if not any(not field or "/" in field for field in dict.fromkeys(fields)):
            return keys, fields, None
    found = [(row, split) for row, name in enumerate(members) if (split := sample_and_field(name)) is not None]
    return [key for _, (key, _) in found], [field for _, (_, field) in found], [row for row, _ in found]


def _have_one_dot(joined: str) -> bool:
    """Whether there is exactly one dot in each of these names, each of which follows a NUL."""
    text = np.frombuffer(joined.encode("utf-8", "surrogateescape"), np.uint8)
    marks = text[(text == 0) | (text == ord("."))]
    return len(marks) % 2 == 0 and not marks[::2].any() and bool(marks[1::2].all())
