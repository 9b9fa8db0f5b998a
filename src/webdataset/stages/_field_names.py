"""How stages name fields: `"jpg;png"` is the first of these that a sample has."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from webdataset.errors import FieldNotFound, SpecError


def parse_field_spec(fields: str | Sequence[str | Sequence[str]]) -> list[list[str]]:
    """Field names with their alternatives.

    >>> parse_field_spec("jpg;png cls")
    [['jpg', 'png'], ['cls']]
    >>> parse_field_spec(["jpg;png", ["cls", "txt"]])
    [['jpg', 'png'], ['cls', 'txt']]
    """
    if isinstance(fields, str):
        fields = fields.split()
    return [alternatives(field) for field in fields]


def alternatives(field: str | Sequence[str]) -> list[str]:
    """The names that one field may have.

    >>> alternatives("jpg;png")
    ['jpg', 'png']
    """
    names = field.split(";") if isinstance(field, str) else list(field) if isinstance(field, list | tuple) else []
    for name in names or [None]:
        if not isinstance(name, str) or not name or " " in name:
            raise SpecError(
                f"{field!r} is not a field name",
                hint="write names as separate strings, alternatives as 'jpg;png' or ['jpg', 'png']",
            )
    return names


def getfirst(
    a: Mapping[str, Any], keys: str | Sequence[str], default: Any = None, missing_is_error: bool = True
) -> Any:
    """The value of the first of several names that is there.

    >>> getfirst({"png": 1, "cls": 2}, "jpg;png")
    1

    Raises:
        FieldNotFound: none is there and `missing_is_error`.
    """
    names = keys.split(";") if isinstance(keys, str) else keys
    for name in names:
        if name in a:
            return a[name]
    if missing_is_error:
        raise FieldNotFound(
            f"didn't find {list(names)} in {list(a)}",
            hint="name a field that all samples have, or alternatives as in 'jpg;png'",
        )
    return default
