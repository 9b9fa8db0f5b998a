"""Checks of arguments: a wrong argument is an error in the constructor, which says what was expected."""

from __future__ import annotations

import math
import operator
from collections.abc import Collection, Iterable, Iterator
from numbers import Integral, Real
from typing import Any, TypeGuard

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


def is_integer(value: Any) -> TypeGuard[int]:
    """Whether it is an integer of Python or NumPy; True and False are none."""
    return isinstance(value, Integral) and not isinstance(value, bool)


def is_number(value: Any) -> TypeGuard[float]:
    """Whether it is a number of Python or NumPy; True and False are none."""
    return isinstance(value, Real) and not isinstance(value, bool)


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
        number = int(value) if is_number(value) and value == value // 1 else operator.index(value)
    except TypeError:
        number = None
    if number is None or isinstance(value, bool) or (least is not None and number < least):
        bound = "" if least is None else f" of at least {least}"
        hint = "`//` divides into integers" if is_number(value) and number is None else None
        raise SpecError(f"{what}({name}={value!r}): expected an integer{bound}", hint=hint)
    return number


def require_number(what: str, name: str, value: Any, *, least: float, most: float = math.inf, expected: str) -> float:
    """A number, also when it came as a NumPy scalar.

    >>> require_number("rsample", "p", 2, least=0, most=1, expected="a number from 0 to 1")
    Traceback (most recent call last):
    webdataset.errors.SpecError: rsample(p=2): expected a number from 0 to 1
    """
    if not is_number(value) or not least <= value <= most:
        raise SpecError(f"{what}({name}={value!r}): expected {expected}")
    return int(value) if is_integer(value) else float(value)


def require_choice(name: str, value: Any, choices: Collection[Any]) -> None:
    """Refuse a value that is none of the choices.

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
