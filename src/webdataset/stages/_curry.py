"""Stages made of plain functions, and plain functions made of stages."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any


class FilterFunction:
    """A stage made of a function of a stream and its other arguments; pickles if the function does.

    >>> import itertools
    >>> stage = FilterFunction(itertools.islice, 2)
    >>> list(stage(range(5))), stage
    ([0, 1], <islice (2,) {}>)
    """

    def __init__(self, f: Callable[..., Any], *args: Any, **kw: Any) -> None:
        self.f, self.args, self.kw = f, args, kw

    def __call__(self, data: Iterable[Any]) -> Any:
        return self.f(data, *self.args, **self.kw)

    def __repr__(self) -> str:
        return f"<{getattr(self.f, '__name__', self.f)} {self.args} {self.kw}>"


class RestCurried:
    """A function of a stream whose other arguments are given before the stream.

    >>> def every(data, n):
    ...     for number, item in enumerate(data):
    ...         if number % n == 0:
    ...             yield item
    >>> list(RestCurried(every)(2)("abcde"))
    ['a', 'c', 'e']
    """

    def __init__(self, f: Callable[..., Any]) -> None:
        functools.update_wrapper(self, f)
        self.f = f

    def __call__(self, *args: Any, **kw: Any) -> FilterFunction:
        return FilterFunction(self.f, *args, **kw)


def pipelinefilter(f: Callable[..., Any]) -> RestCurried:
    """Turn a generator function of a stream into a factory of stages; works as a decorator.

    >>> @pipelinefilter
    ... def repeat_each(data, times):
    ...     for item in data:
    ...         yield from [item] * times
    >>> list(repeat_each(2)("ab"))
    ['a', 'a', 'b', 'b']
    """
    return RestCurried(f)


@dataclass(frozen=True)
class Uncurried:
    """The function `f(data, *args, **kwargs)` of a stage: the public project's `_shuffle`, `_map`, ….

    >>> from webdataset.stages import slice as slice_stage
    >>> list(Uncurried(slice_stage)(range(9), 2))
    [0, 1]
    """

    stage: Callable[..., Any]

    def __call__(self, data: Iterable[Any], /, *args: Any, **kwargs: Any) -> Iterator[Any]:
        result: Iterator[Any] = self.stage(*args, **kwargs)(iter(data))
        return result

    @property
    def __name__(self) -> str:
        return f"_{getattr(self.stage, 'verb', self.stage.__name__)}"

    def __repr__(self) -> str:
        return f"<function {self.__name__}>"
