"""`webdataset.iterators` of the 0.1 series: every stage as a function of a stream and its arguments.

>>> list(map(iter("ab"), str.upper))
['A', 'B']
"""

from __future__ import annotations

from webdataset.handlers import (
    ignore_and_continue,
    ignore_and_stop,
    reraise_exception,
    warn_and_continue,
    warn_and_stop,
)
from webdataset.stages import getfirst, transform_with

from .filters import _associate as associate
from .filters import _batched as batched
from .filters import _decode as decode
from .filters import _extract_keys as extract_keys
from .filters import _info as info
from .filters import _log_keys as log_keys
from .filters import _map as map
from .filters import _map_dict as map_dict
from .filters import _map_tuple as map_tuple
from .filters import _rename as rename
from .filters import _rename_keys as rename_keys
from .filters import _rsample as rsample
from .filters import _select as select
from .filters import _shuffle as shuffle
from .filters import _slice as slice
from .filters import _to_tuple as to_tuple
from .filters import _unbatched as unbatched
from .filters import _unlisted as unlisted
from .filters import compose, compose2, identity, pipeline

__all__ = [
    "associate",
    "batched",
    "compose",
    "compose2",
    "decode",
    "extract_keys",
    "getfirst",
    "identity",
    "ignore_and_continue",
    "ignore_and_stop",
    "info",
    "log_keys",
    "map",
    "map_dict",
    "map_tuple",
    "pipeline",
    "rename",
    "rename_keys",
    "reraise_exception",
    "rsample",
    "select",
    "shuffle",
    "slice",
    "to_tuple",
    "transform_with",
    "unbatched",
    "unlisted",
    "warn_and_continue",
    "warn_and_stop",
]
