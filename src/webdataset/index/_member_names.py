"""Which member belongs to which sample: the naming rule, as far as an index needs it."""

from __future__ import annotations

from webdataset import names


def sample_and_field(name: str) -> tuple[str, str] | None:
    """(key, field) of a member, or None if it belongs to no sample.

    >>> sample_and_field("dir.x/a.seg.jpg"), sample_and_field("noext"), sample_and_field("__meta__/a.json")
    (('dir.x/a', 'seg.jpg'), None, None)
    """
    key, field = names.split_name(name)
    return None if key is None or field is None or names.is_meta(name) else (key, field)
