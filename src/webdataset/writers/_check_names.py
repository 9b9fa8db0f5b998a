"""Names that a reader would change or skip are refused before they are written."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from webdataset.errors import EncodingError, SpecError, Where
from webdataset.names import is_meta

_OPT_OUT = "or write it as it is with strict=False"


def require_key(sample: Any) -> str:
    """The key of a sample, or an error.

    >>> require_key({"__key__": "a", "txt": "hello"})
    'a'
    """
    try:
        key = sample["__key__"]
    except (KeyError, TypeError, IndexError) as error:
        have = f"has only {sorted(map(str, sample))}" if isinstance(sample, dict) else f"is a {type(sample).__name__}"
        raise SpecError(f"a sample needs a '__key__', this one {have}", hint="give every sample a key") from error
    if not isinstance(key, str):
        raise SpecError(f"expected text for __key__, got {type(key).__name__} {key!r}", hint="write str(key)")
    return key


def check_key(key: str, fields: Iterable[str] = ("txt",)) -> None:
    """Refuse keys that a reader would split differently or skip: a key ends at the first dot of its last component.

    >>> check_key("train.v1/0001")
    >>> check_key("0001.left")
    Traceback (most recent call last):
    webdataset.errors.EncodingError: the key '0001.left' has a dot in its last part, so it would be read as '0001' ...
    """
    folder, slash, base = key.rpartition("/")
    if not base:
        problem, remedy = f"the key {key!r} is empty or ends in '/', readers would skip it", "name it"
    elif "." in base:
        cut = folder + slash + base.partition(".")[0]
        problem = f"the key {key!r} has a dot in its last part, so it would be read as {cut!r}"
        remedy = f"use {folder + slash + base.replace('.', '_')!r}"
    elif key.startswith("__") and any(is_meta(f"{key}.{field}") for field in fields):
        problem, remedy = "readers skip '__…__' names, they are meant for metadata", "choose another key"
    else:
        return
    raise EncodingError(problem, Where(key=key), hint=f"{remedy}, {_OPT_OUT}")


def check_field(field: Any, *, strict: bool = True) -> None:
    """Refuse field names that a reader would change or drop.

    >>> check_field("seg.png")
    >>> check_field("JPG")
    Traceback (most recent call last):
    webdataset.errors.EncodingError: readers lower-case field names, ... – field JPG – write 'jpg', ...
    """
    if not isinstance(field, str):
        raise SpecError(f"expected an extension such as 'jpg' for a field, got {type(field).__name__} {field!r}")
    if not strict:
        return
    if not field:
        problem, remedy = "the field name is empty", "name it after its format, for example 'jpg'"
    elif "/" in field:
        problem = f"the field name {field!r} has a '/', so it would be read as part of the key"
        remedy = "use '.' or '_'"
    elif field != field.lower():
        problem = f"readers lower-case field names, {field!r} would come back as {field.lower()!r}"
        remedy = f"write {field.lower()!r}"
    else:
        return
    raise EncodingError(problem, Where(field=field or None), hint=f"{remedy}, {_OPT_OUT}")
