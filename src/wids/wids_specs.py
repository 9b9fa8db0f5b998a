"""Descriptions of datasets as dicts, under the module name of wids."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import urljoin, urlsplit, urlunsplit

from webdataset import stores
from webdataset.errors import FormatError

from ._shard_list_dataset import find_description

Json = dict[str, Any]


def urldir(url: str) -> str:
    """The address without its last component.

    >>> urldir("s3://b/x/a.json"), urldir("a.json")
    ('s3://b/x', '')
    """
    parts = urlsplit(url)
    return urlunsplit((parts.scheme, parts.netloc, parts.path.rpartition("/")[0], "", ""))


def urlmerge(base: str | None, url: str) -> str:
    """An address relative to a base: scheme and host of the base if the address has none, relative paths joined.

    >>> urlmerge("s3://b/x", "a.tar?v=1"), urlmerge("s3://b/x", "/y/a.tar"), urlmerge("s3://b/x", "gs://c/a.tar")
    ('s3://b/x/a.tar?v=1', 's3://b/y/a.tar', 'gs://c/a.tar')
    """
    if not base:
        return url
    above, parts = urlsplit(base), urlsplit(url)
    if parts.scheme:
        return url
    path = parts.path if parts.path.startswith("/") else f"{above.path.rstrip('/')}/{parts.path}".lstrip("/")
    if above.netloc or above.path.startswith("/"):
        path = urljoin("/", path)
    return urlunsplit((above.scheme, above.netloc, path, parts.query, parts.fragment))


def check_shards(shards: Any) -> None:
    """Refuse what is not a list of shards, each with its address and number of samples.

    >>> check_shards([{"url": "a.tar", "nsamples": 3}])
    """
    if not isinstance(shards, list) or not shards:
        raise FormatError("expected a list of shards", hint='"shardlist": [{"url": …, "nsamples": …}, …]')
    for entry in shards:
        if not isinstance(entry, Mapping) or not {"url", "nsamples"} <= entry.keys():
            raise FormatError(f"expected url and nsamples, got {entry!r:.200}", hint="describe it with widsindex")


def set_all(entries: list[Json], key: str, value: Any) -> None:
    """Set a key of all entries.

    >>> entries = [{"url": "a.tar"}]
    >>> set_all(entries, "weight", 2); entries
    [{'url': 'a.tar', 'weight': 2}]
    """
    for entry in entries:
        entry[key] = value


def load_remote_dsdesc_raw(source: Any) -> Json:
    """A description as it is stored: from an address, a path or an open file; a dict is returned as it is."""
    if isinstance(source, dict):
        return source
    content = json.load(source) if hasattr(source, "read") else json.loads(stores.read_bytes(source))
    if not isinstance(content, dict):
        raise FormatError("expected a dict as the description", hint='{"wids_version": 1, "shardlist": […]}')
    return content


def rebase_shardlist(shardlist: list[Json], base: str | None) -> list[Json]:
    """The same shards, with addresses relative to a base."""
    return [{**entry, "url": urlmerge(base, entry["url"])} for entry in shardlist]


def resolve_dsdesc(dsdesc: Any, *, options: Mapping[str, Any] | None = None, base: str | None = None) -> Json:
    """The description with a list of all its shards, those of its parts included, each with its whole address."""
    description = find_description(dsdesc, base)
    content = dict(dsdesc) if isinstance(dsdesc, Mapping) else {}
    shards = [entry.to_json() for entry in description.shards]
    return {**content, "wids_version": 1, "name": description.name, "shardlist": shards}


load_dsdesc_and_resolve = resolve_dsdesc
