"""`webdataset.utils`: the public library's module of this name."""

from __future__ import annotations

import functools
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from importlib import import_module
from itertools import islice
from typing import Any

from webdataset import config
from webdataset.errors import ObsoleteException, SpecError
from webdataset.pipeline import PipelineStage
from webdataset.redact import warn
from webdataset.shards import (
    compute_sample_weights,
    fnmatch_with_braces,
    glob_with_braces,
    make_seed,
    pytorch_worker_info,
    pytorch_worker_seed,
)
from webdataset.stages import guess_batchsize, repeatedly

from ._live import make_live
from .filters import identity

__all__ = [
    "ObsoleteException",
    "PipelineStage",
    "compute_sample_weights",
    "deprecated",
    "enforce_security",
    "fnmatch_with_braces",
    "glob_with_braces",
    "guess_batchsize",
    "identity",
    "is_iterable",
    "lookup_sym",
    "make_seed",
    "obsolete",
    "pytorch_worker_info",
    "pytorch_worker_seed",
    "repeatedly",
    "repeatedly0",
    "safe_eval",
]

enforce_security: bool
"""Secure mode (`WDS_SECURE`): no `pipe:`, no local files, no URL rewriting, no unpickling. Assign to switch it."""


def repeatedly0(loader: Iterable[Any], nepochs: int = sys.maxsize, nbatches: int = sys.maxsize) -> Iterator[Any]:
    """Iterate over a loader so many times, taking at most `nbatches` items of each pass.

    >>> list(repeatedly0([1, 2, 3], nepochs=2, nbatches=2))
    [1, 2, 1, 2]
    """
    for _ in range(nepochs):
        empty = True
        for item in islice(loader, nbatches):
            empty = False
            yield item
        if empty:  # further passes would have no items either
            return


make_live(
    __name__,
    enforce_security=property(
        lambda _: config.safety.enforce, lambda _, value: setattr(config.safety, "enforce", value)
    ),
)


def is_iterable(obj: Any) -> bool:
    """Whether an object can be iterated and is not text.

    >>> is_iterable([1]), is_iterable("text"), is_iterable(1)
    (True, False, False)
    """
    return isinstance(obj, Iterable) and not isinstance(obj, (str, bytes))


def lookup_sym(sym: str, modules: Sequence[str]) -> Any:
    """The first object of this name in some modules, or None.

    >>> lookup_sym("add", ["math", "operator"])
    <built-in function add>
    """
    return next((getattr(module, sym) for module in map(import_module, modules) if hasattr(module, sym)), None)


def safe_eval(s: str, expr: str = "{}") -> Any:
    """The number or name `s`, put into an expression of the program's own.

    >>> safe_eval("3", "{} + 1")
    4
    """
    if re.fullmatch(r"[A-Za-z0-9_]+", s) is None:
        raise SpecError(f"safe_eval: illegal characters in: {s!r}", hint="letters, digits and _ are allowed")
    return eval(expr.format(s), {"__builtins__": {}})  # noqa: S307  # one word, and nothing that it could name


def deprecated(arg: Any = None) -> Any:
    """Mark a function as deprecated; works with and without a reason.

    >>> @deprecated("use new()")
    ... def old():
    ...     return 1
    >>> import warnings
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     _ = old()
    >>> print(caught[0].message)
    Call to deprecated function old. Reason: use new()
    """
    if not callable(arg):
        return functools.partial(_deprecated, reason=arg)
    return _deprecated(arg, reason=None)


def _deprecated(function: Callable[..., Any], *, reason: str | None) -> Callable[..., Any]:
    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        text = f"Call to deprecated function {function.__name__}."
        warn(text if reason is None else f"{text} Reason: {reason}", DeprecationWarning, stacklevel=2)
        return function(*args, **kwargs)

    return call


def obsolete(func: Callable[..., Any] | None = None, *, reason: str | None = None) -> Any:
    """Mark a function as obsolete: it raises, unless `ALLOW_OBSOLETE` is set.

    >>> @obsolete(reason="use new()")
    ... def old():
    ...     return 1
    >>> old()
    Traceback (most recent call last):
    webdataset...ObsoleteException: Call to obsolete function old. Set env ALLOW_OBSOLETE=1 to permit. – use new()
    """
    if func is None:
        return functools.partial(obsolete, reason=reason)

    @functools.wraps(func)
    def call(*args: Any, **kwargs: Any) -> Any:
        if not config.read("ALLOW_OBSOLETE"):
            text = f"Call to obsolete function {func.__name__}. Set env ALLOW_OBSOLETE=1 to permit."
            raise ObsoleteException(text, hint=reason)
        return func(*args, **kwargs)

    return call
