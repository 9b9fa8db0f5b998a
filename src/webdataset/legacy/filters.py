"""`webdataset.filters`: the stages, and the functions of a stream (`_shuffle(data, 100)`) that they are made of."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import reduce
from typing import Any

from webdataset.handlers import reraise_exception
from webdataset.pipeline import PipelineStage
from webdataset.stages import (
    Cached,
    FilterFunction,
    LMDBCached,
    RestCurried,
    Uncurried,
    associate,
    batched,
    combine_values,
    decode,
    decode_bin,
    decode_pickle,
    decode_text,
    default_collation_fn,
    default_decoders,
    detshuffle,
    dict2tuple,
    extract_keys,
    find_decoder,
    getfirst,
    info,
    listed,
    log_keys,
    map,
    map_dict,
    map_tuple,
    parse_field_spec,
    pick,
    pipelinefilter,
    rename,
    rename_keys,
    rsample,
    select,
    shuffle,
    slice,
    to_tuple,
    transform_with,
    tuple2dict,
    unbatched,
    unlisted,
    xdecode,
)

__all__ = [
    "Cached",
    "FilterFunction",
    "LMDBCached",
    "PipelineStage",
    "RestCurried",
    "associate",
    "batched",
    "combine_values",
    "compose",
    "compose2",
    "decode",
    "decode_bin",
    "decode_pickle",
    "decode_text",
    "default_collation_fn",
    "default_decoders",
    "detshuffle",
    "dict2tuple",
    "extract_keys",
    "find_decoder",
    "getfirst",
    "identity",
    "info",
    "listed",
    "log_keys",
    "map",
    "map_dict",
    "map_tuple",
    "parse_field_spec",
    "pick",
    "pipeline",
    "pipelinefilter",
    "rename",
    "rename_keys",
    "reraise_exception",
    "rsample",
    "select",
    "shuffle",
    "slice",
    "to_tuple",
    "transform_with",
    "tuple2dict",
    "unbatched",
    "unlisted",
    "xdecode",
]

_associate = Uncurried(associate)
_batched = Uncurried(batched)
_decode = Uncurried(decode)
_extract_keys = Uncurried(extract_keys)
_info = Uncurried(info)
_log_keys = Uncurried(log_keys)
_map = Uncurried(map)
_map_dict = Uncurried(map_dict)
_map_tuple = Uncurried(map_tuple)
_rename = Uncurried(rename)
_rename_keys = Uncurried(rename_keys)
_rsample = Uncurried(rsample)
_select = Uncurried(select)
_shuffle = Uncurried(shuffle)
_slice = Uncurried(slice)
_to_tuple = Uncurried(to_tuple)
_unbatched = Uncurried(unbatched)
_unlisted = Uncurried(unlisted)
_xdecode = Uncurried(xdecode)


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
    """A stream taken through stages.

    >>> list(pipeline(["1", "2"], map(int), slice(1)))
    [1]
    """
    result: Iterator[Any] = iter(source)
    for stage in args:
        result = iter(stage(result))
    return result
