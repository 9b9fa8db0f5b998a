"""Where index files lie: beside their shard, or in a directory or bucket of the user's choice."""

from __future__ import annotations

import re
from pathlib import Path

from webdataset import stores
from webdataset.errors import ShardNotFound, SpecError
from webdataset.flow import digest

from ._dali import count_dali, read_dali, write_dali
from ._shard_index import ShardIndex

_SUFFIX = re.compile(r"(\.tar)?(\.(tar|tgz|gz|bz2|xz|zst))?$", re.IGNORECASE)
# "v1.2 " and a number of up to 18 digits, with room to spare.
_FIRST_LINE = 64


def dali_name(url: str) -> str:
    """Where `wds2idx` puts the index of a shard: the name up to the first dot of its last part.

    >>> dali_name("dir.x/a.b.tar")
    'dir.x/a.idx'
    """
    base = url.rfind("/") + 1
    return url[:base] + url[base:].partition(".")[0] + ".idx"


def index_url(url: str, place: str | None = None) -> str:
    """Where the index of a shard is kept.

    >>> index_url("s3://b/train.v2-000.tar"), index_url("https://h/a.tar.gz?key=1")
    ('s3://b/train.v2-000.idx', 'https://h/a.idx')

    In a place of its own its name carries a digest of the whole address: shards of different directories may have the
    same name.

    >>> index_url("https://h/x/0.tar", "indexes")
    'indexes/0-0fcf9c5c6e7f141e.idx'
    """
    if url.startswith("pipe:") and place is None:
        raise SpecError(f"there is no place beside {url!r} for an index", hint="name a directory for indexes")
    bare = url.partition("?")[0] if "://" in url else url
    stem = _SUFFIX.sub("", bare)
    if place is None:
        return f"{stem}.idx"
    name = re.sub(r"[^\w.-]+", "_", stem.rsplit("/", 1)[-1])[-64:]
    return f"{place.rstrip('/')}/{name}-{digest(url):016x}.idx"


def save_index(index: ShardIndex, url: str, place: str | None = None) -> str:
    """Store the index of a shard, whole or not at all, and say where.

    >>> from ._build_index import build
    >>> save_index(build([("a.txt", 512, 3)]), "memory://doc-place/a.tar")
    'memory://doc-place/a.idx'
    """
    where = index_url(url, place)
    data = write_dali(index)
    folder = stores.is_local(place) if place is not None else None
    if folder is not None:
        Path(folder).mkdir(parents=True, exist_ok=True)
    with stores.open_write(where) as stream:
        stream.write(data)
    return where


def load_index(url: str, place: str | None = None) -> ShardIndex | None:
    """The stored index of a shard, None if there is none. Whether it fits the shard is checked when it is used.

    >>> from ._build_index import build
    >>> _ = save_index(build([("a.txt", 512, 3)]), "memory://doc-place/b.tar")
    >>> load_index("memory://doc-place/b.tar").key(0), load_index("memory://doc-place/c.tar")
    ('a', None)
    """
    for name in _candidates(url, place):
        try:
            with stores.open_read(name) as stream:
                data = stream.read()
        except ShardNotFound:
            continue
        return read_dali(data, name)
    return None


def load_count(url: str, place: str | None = None) -> int | None:
    """How many samples a shard has by its stored index, from the index's first line alone.

    >>> from ._build_index import build
    >>> _ = save_index(build([("a.txt", 512, 3)]), "memory://doc-place/d.tar")
    >>> load_count("memory://doc-place/d.tar")
    1
    """
    for name in _candidates(url, place):
        try:
            with stores.open_read(name) as stream:
                data = stream.read(_FIRST_LINE)
        except ShardNotFound:
            continue
        return count_dali(data, name)
    return None


def has_index(url: str) -> bool:
    """Whether an index lies beside a shard on this machine: a look at the directory, nothing is read.

    >>> has_index("/nowhere/a.tar"), has_index("memory://doc-place/d.tar")
    (False, False)
    """
    if stores.is_local(url) is None:
        return False
    paths = (stores.is_local(name) for name in _candidates(url, None))
    return any(path is not None and Path(path).is_file() for path in paths)


def _candidates(url: str, place: str | None) -> list[str]:
    if place is not None:
        # Ours first, then plainly named ones, as users of DALI keep them.
        name = url.rpartition("/")[2].partition("?")[0]
        plain = [f"{place.rstrip('/')}/{found}" for found in (index_url(name), dali_name(name))]
        return list(dict.fromkeys([index_url(url, place), *plain]))
    if url.startswith("pipe:"):
        return []
    return list(dict.fromkeys([index_url(url), dali_name(url.partition("?")[0] if "://" in url else url)]))
