"""Checks of arguments: a wrong argument is an error in the constructor, which says what was expected."""

from __future__ import annotations

import operator
from collections.abc import Collection, Iterator
from typing import Any

from webdataset.errors import SpecError


def require_callable(stage: str, /, **arguments: Any) -> None:
    """Refuse anything that cannot be called.

    >>> require_callable("map", f=3)
    Traceback (most recent call last):
    webdataset.errors.SpecError: map(f=3): expected a function
    """
    for name, value in arguments.items():
        if not callable(value):
            example = ", for example wds.warn_and_continue" if name == "handler" else ""
            # A function that makes a stage was passed to a pipeline, which called it with the items.
            hint = "write its parentheses, as in wds.tarfile_to_samples()" if isinstance(value, Iterator) else None
            raise SpecError(f"{stage}({name}={value!r}): expected a function{example}", hint=hint)


def require_callable_or_none(stage: str, /, **arguments: Any) -> None:
    """Refuse anything that cannot be called, except None for the default."""
    require_callable(stage, **{name: value for name, value in arguments.items() if value is not None})


def require_count(what: str, name: str, value: Any, *, least: int | None = None) -> int:
    """Return an argument as an integer; it may be given as `1e4` or as a NumPy integer.

    >>> require_count("batched", "batchsize", 1e2, least=1)
    100
    >>> require_count("batched", "batchsize", 0, least=1)
    Traceback (most recent call last):
    webdataset.errors.SpecError: batched(batchsize=0): expected an integer of at least 1
    >>> require_count("with_epoch", "nsamples", 10 / 4)
    Traceback (most recent call last):
    webdataset.errors.SpecError: with_epoch(nsamples=2.5): expected an integer – `//` divides into integers
    """
    try:
        number = int(value) if isinstance(value, float) and value.is_integer() else operator.index(value)
    except TypeError:
        number = None
    if number is None or isinstance(value, bool) or (least is not None and number < least):
        bound = "" if least is None else f" of at least {least}"
        hint = "`//` divides into integers" if isinstance(value, float) else None
        raise SpecError(f"{what}({name}={value!r}): expected an integer{bound}", hint=hint)
    return number


def require_choice(name: str, value: Any, choices: Collection[Any]) -> None:
    """Refuse a value that is none of the choices.

    >>> require_choice("missing", "ignore", ("error", "skip"))
    Traceback (most recent call last):
    webdataset.errors.SpecError: missing='ignore': expected one of error, skip
    """
    if value not in choices:
        raise SpecError(f"{name}={value!r}: expected one of {', '.join(map(str, choices))}")
