"""Which version of an object is stored at an address. Folders of local files are listed once, 2 µs for each file."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Collection, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

from webdataset import stores
from webdataset.errors import ShardNotFound, StoreError

# Requests to object stores and web servers that are under way at a time.
_REQUESTS = 32


class Version(NamedTuple):
    """Identifies a stored object, so that a replacement is noticed; unknown parts are None.

    Attributes:
        size: in bytes; `MISSING` if nothing is stored there.
        mark: the time of change of a local file in nanoseconds, the ETag elsewhere, or the time of change.
    """

    size: int | None = None
    mark: int | float | str | None = None


MISSING = -1


def version_of(url: str) -> Version:
    """The version of one object.

    >>> version_of("/nowhere/a.tar").size == MISSING, version_of("pipe:cat a.tar")
    (True, Version(size=None, mark=None))
    """
    path = stores.is_local(url)
    try:
        if path is not None:
            with stores.system_errors(path):
                return _local_version(Path(path).stat())
        found = stores.stat(url)
    except ShardNotFound:
        return Version(MISSING)
    except StoreError:
        if path is not None:  # an error of a disk is raised; servers need not support it
            raise
        return Version()
    return Version(found.size, found.etag or found.mtime)


def versions_of(urls: Collection[str]) -> dict[str, Version]:
    """The versions of many objects.

    >>> versions_of(["/nowhere/a.tar"])
    {'/nowhere/a.tar': Version(size=-1, mark=None)}
    """
    versions: dict[str, Version] = {}
    for folder, names in by_folder(urls).items():
        versions.update(dict.fromkeys(names.values(), Version(MISSING)))
        versions.update(_versions_in(folder or ".", names))
    elsewhere = [url for url in urls if url not in versions]
    if elsewhere:
        with ThreadPoolExecutor(_REQUESTS) as threads:
            versions.update(zip(elsewhere, threads.map(version_of, elsewhere), strict=True))
    return versions


def by_folder(urls: Iterable[str]) -> dict[str, dict[str, str]]:
    """Local folders, each with the names of its files and their addresses; other addresses are left out.

    >>> by_folder(["x/a.tar", "x/b.tar", "s3://bucket/a.tar"])
    {'x': {'a.tar': 'x/a.tar', 'b.tar': 'x/b.tar'}}
    """
    groups: dict[str, list[str]] = defaultdict(list)
    for url in urls:
        groups[url[: url.rfind("/") + 1]].append(url)
    folders: dict[str, dict[str, str]] = defaultdict(dict)
    for prefix, members in groups.items():
        # Whether addresses are plain paths depends on their beginning: checked once for each folder.
        if prefix and ":" not in prefix and stores.is_local(prefix) == prefix:
            folders[prefix.rstrip("/") or "/"].update({url[len(prefix) :]: url for url in members})
            continue
        for url in members:
            path = stores.is_local(url)
            if path is not None:
                folder, name = os.path.split(path)
                folders[folder][name] = url
    return dict(folders)


def _versions_in(folder: str, urls: dict[str, str]) -> dict[str, Version]:
    try:
        with stores.system_errors(folder), os.scandir(folder) as entries:
            return {
                urls[entry.name]: _local_version(entry.stat())
                for entry in entries
                if entry.name in urls and entry.is_file()
            }
    except ShardNotFound:
        return {}


def _local_version(found: os.stat_result) -> Version:
    return Version(found.st_size, found.st_mtime_ns)
