"""`webdataset.iterators` of the 0.1 series: every stage as a function of a stream and its arguments.

>>> from webdataset import iterators
>>> list(iterators.map(iter("ab"), str.upper))
['A', 'B']
"""

from __future__ import annotations

from typing import Any

from webdataset.handlers import (
    ignore_and_continue,
    ignore_and_stop,
    reraise_exception,
    warn_and_continue,
    warn_and_stop,
)
from webdataset.stages import getfirst, transform_with

from . import filters
from .filters import compose, compose2, identity, pipeline

# Here they have the names of the stages; `filters` calls them `_map`, `_shuffle`, ….
_FUNCTIONS = (
    "associate batched decode extract_keys info log_keys map map_dict map_tuple rename rename_keys rsample select "
    "shuffle slice to_tuple unbatched unlisted"
)

__all__ = [
    "compose",
    "compose2",
    "getfirst",
    "identity",
    "ignore_and_continue",
    "ignore_and_stop",
    "pipeline",
    "reraise_exception",
    "transform_with",
    "warn_and_continue",
    "warn_and_stop",
]
__all__ += _FUNCTIONS.split()  # noqa: PLE0605  # from the table


def __getattr__(name: str) -> Any:
    if name in _FUNCTIONS.split():
        return getattr(filters, f"_{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
