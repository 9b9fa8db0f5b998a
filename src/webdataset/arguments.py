"""Arguments, checked where they are written: a wrong one fails in the constructor and says what would be right."""

from __future__ import annotations

import operator
from collections.abc import Collection, Iterable, Iterator
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
    """The same, where None means the default."""
    require_callable(stage, **{name: value for name, value in arguments.items() if value is not None})


def require_count(what: str, name: str, value: Any, *, least: int | None = None) -> int:
    """An integer, also when it came as `1e4` or as a NumPy integer.

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
    """Refuse a value that is none of those that there are.

    >>> require_choice("missing", "ignore", ("error", "skip"))
    Traceback (most recent call last):
    webdataset.errors.SpecError: missing='ignore': expected one of error, skip
    """
    if value not in choices:
        raise SpecError(f"{name}={value!r}: expected one of {', '.join(map(str, choices))}")


def in_order(values: Iterable[Any]) -> tuple[Any, ...]:
    """The values as a tuple. Those of a set are sorted: it has another order in each process.

    >>> in_order(["b", "a"]), in_order({"b", "a"})
    (('b', 'a'), ('a', 'b'))
    """
    return tuple(sorted(values, key=str) if isinstance(values, set | frozenset) else values)
