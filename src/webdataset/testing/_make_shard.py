"""A shard in one line."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

from webdataset.stores import as_address
from webdataset.writers import TarWriter


def make_shard(url: str | os.PathLike[str], samples: Iterable[dict[str, Any]]) -> str:
    """Write samples to a new shard and return its address.

    >>> make_shard("memory://docs/one.tar", [{"__key__": "0", "txt": "hello"}])
    'memory://docs/one.tar'
    """
    with TarWriter(url) as sink:
        for sample in samples:
            sink.write(sample)
    return as_address(url)
