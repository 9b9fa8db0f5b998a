"""The sizes of many local files at once: one look at each folder, 2 µs a file."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterable

from webdataset import stores


def stored_sizes(urls: Iterable[str], missing: int | None = None) -> dict[str, int | None]:
    """The size of each local file, `missing` for one that is not there; other addresses are not in the result.

    >>> stored_sizes(["/nowhere/a.tar", "s3://bucket/a.tar"])
    {'/nowhere/a.tar': None}
    """
    sizes: dict[str, int | None] = {}
    for folder, names in by_folder(urls).items():
        sizes.update(dict.fromkeys(names.values(), missing))
        sizes.update(_sizes_in(folder or ".", names))
    return sizes


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
        # An address is a path as it stands unless its beginning says otherwise: asked once for each folder.
        if prefix and ":" not in prefix and stores.is_local(prefix) == prefix:
            folders[prefix.rstrip("/") or "/"].update({url[len(prefix) :]: url for url in members})
            continue
        for url in members:
            path = None if url == "-" else stores.is_local(url)
            if path is not None:
                folder, name = os.path.split(path)
                folders[folder][name] = url
    return dict(folders)


def _sizes_in(folder: str, urls: dict[str, str]) -> dict[str, int]:
    try:
        with os.scandir(folder) as entries:
            return {
                urls[entry.name]: entry.stat().st_size for entry in entries if entry.name in urls and entry.is_file()
            }
    except FileNotFoundError:
        return {}
