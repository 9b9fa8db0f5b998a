"""`webdataset.filters`: the stages, and the functions of a stream (`_shuffle(data, 100)`) that they are made of."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import reduce
from typing import Any

from webdataset import stages
from webdataset.handlers import reraise_exception
from webdataset.pipeline import PipelineStage
from webdataset.stages import *  # noqa: F403 - its public names, and more

__all__ = ["PipelineStage", "compose", "compose2", "identity", "pipeline", "reraise_exception"]
__all__ += stages.__all__

_associate = stages.Uncurried(stages.associate)
_batched = stages.Uncurried(stages.batched)
_decode = stages.Uncurried(stages.decode)
_extract_keys = stages.Uncurried(stages.extract_keys)
_info = stages.Uncurried(stages.info)
_log_keys = stages.Uncurried(stages.log_keys)
_map = stages.Uncurried(stages.map)
_map_dict = stages.Uncurried(stages.map_dict)
_map_tuple = stages.Uncurried(stages.map_tuple)
_rename = stages.Uncurried(stages.rename)
_rename_keys = stages.Uncurried(stages.rename_keys)
_rsample = stages.Uncurried(stages.rsample)
_select = stages.Uncurried(stages.select)
_shuffle = stages.Uncurried(stages.shuffle)
_slice = stages.Uncurried(stages.slice)
_to_tuple = stages.Uncurried(stages.to_tuple)
_unbatched = stages.Uncurried(stages.unbatched)
_unlisted = stages.Uncurried(stages.unlisted)
_xdecode = stages.Uncurried(stages.xdecode)


def identity(x: Any) -> Any:
    """The argument.

    >>> identity(3)
    3
    """
    return x


def compose2(f: Callable[[Any], Any], g: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """First `f`, then `g`.

    >>> compose2(int, str)("007")
    '7'
    """
    return lambda x: g(f(x))


def compose(*args: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """One function after the other, the first one first.

    >>> compose(str.strip, int, str)(" 007 ")
    '7'
    """
    start: Callable[[Any], Any] = identity
    return reduce(compose2, args, start)


def pipeline(source: Iterable[Any], *args: Callable[[Any], Any]) -> Iterator[Any]:
    """Apply stages to a stream.

    >>> list(pipeline(["1", "2"], map(int), slice(1)))
    [1]
    """
    result: Iterator[Any] = iter(source)
    for stage in args:
        result = iter(stage(result))
    return result
