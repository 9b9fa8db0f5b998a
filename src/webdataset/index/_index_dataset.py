"""Index a whole dataset: every shard read once, its index stored, and a description of them all."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from concurrent import futures
from functools import partial
from pathlib import Path

from webdataset import stores
from webdataset.shards import expand

from ._build_index import build_index
from ._description import Description, ShardEntry
from ._index_location import save_index


def index_shards(
    urls: str | os.PathLike[str] | Sequence[str],
    *,
    index: str | None = None,
    workers: int = 4,
    store_index: bool = True,
    name: str | None = None,
) -> Description:
    """Index shards in parallel, store each index next to its shard or in `index`, and describe the dataset.

    >>> from webdataset import tar
    >>> with stores.open_write("memory://doc-describe/a.tar") as stream:
    ...     _ = stream.write(tar.encode_header("a.txt", 3) + b"abc" + tar.padding(3) + tar.END_OF_ARCHIVE)
    >>> index_shards(["memory://doc-describe/a.tar"]).shards[0].nsamples
    1

    Args:
        urls: the shards: a string with braces or a glob, or a list.
        index: a directory or bucket for the indexes of shards one does not own.
        workers: how many shards are read at a time.
        store_index: False only counts and checks.
        name: the dataset's name, for the description.
    """
    listed = expand(urls) if isinstance(urls, str | os.PathLike) else urls
    with futures.ThreadPoolExecutor(max_workers=max(1, workers)) as pool:
        entries = list(pool.map(partial(_index_one, location=index, store=store_index), listed))
    return Description(entries, name=name)


def _index_one(url: str, *, location: str | None, store: bool) -> ShardEntry:
    """All of one version: the index, the size and the checksum."""
    checksum, size = hashlib.md5(usedforsecurity=False), 0  # what wids descriptions hold
    path = stores.is_local(url)
    if path is not None and os.path.isfile(path):
        found = stores.stat(url)
        index = build_index(url)  # from the headers alone, many times faster than the checksum
        with stores.system_errors(path), Path(path).open("rb", buffering=0) as file:
            hashlib.file_digest(file, lambda: checksum)
        now = stores.stat(url)
        stores.BytesRead(url, 0, found.etag, found.size).check(now.etag, now.size, 0)
        size = found.size or 0
    else:

        def watch(piece: bytes) -> None:
            nonlocal size
            checksum.update(piece)
            size += len(piece)

        index = build_index(url, watch=watch)
    if store:
        save_index(index, url, location)
    return ShardEntry(url, len(index), filesize=size, md5sum=checksum.hexdigest())
