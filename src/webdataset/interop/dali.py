"""NVIDIA DALI: what `fn.readers.webdataset` needs to read the shards of a dataset."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, TypedDict

from webdataset import shards, stores
from webdataset.errors import SpecError, Where
from webdataset.index import build_index, index_url, load_index, save_index

_READABLE = frozenset({"", "file", "s3", "gs"})


class ReaderArguments(TypedDict):
    """The arguments of `fn.readers.webdataset` that say where the data is."""

    paths: list[str]
    index_paths: list[str]


def reader_args(urls: Any, index: str | os.PathLike[str] | None = None) -> ReaderArguments:
    """Paths and indexes for `fn.readers.webdataset(**reader_args(urls), ext=["jpg", "cls"])`.

    Shards without an index get one; it has the true offsets also for long member names, where NVIDIA's `wds2idx` is
    wrong. DALI reads indexes from the local disk only.

    Args:
        urls: shards, as `WebDataset` takes them. DALI reads local files and `s3://`.
        index: a local directory for the indexes; None puts them beside local shards.
    """
    folder = None if index is None else stores.as_address(index)
    if folder is not None:
        if stores.is_local(folder) is None:
            raise SpecError(f"{folder} is not a local directory", hint="DALI reads indexes from the local disk only")
        Path(folder).mkdir(parents=True, exist_ok=True)
    paths, indexes = [], []
    for url in shards.expand(urls):
        scheme = stores.scheme_of(url)
        if scheme not in _READABLE:
            raise SpecError(f"DALI cannot read {scheme}:", Where(shard=url), hint="copy the shards to a local disk")
        local = stores.is_local(url) if scheme in {"", "file"} else None
        if local is None and folder is None:
            raise SpecError(
                "DALI needs local indexes for remote shards", Where(shard=url), hint="name a directory: index="
            )
        if load_index(url, folder) is None:
            save_index(build_index(url), url, folder)
        paths.append(local or url)
        indexes.append(index_url(url, folder))
    return {"paths": paths, "index_paths": indexes}
