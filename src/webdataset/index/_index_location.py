"""Where index files are stored: next to their shard, or in a directory or bucket of the user's choice.

The index of a shard has the birth of the shard: that of an address read from data is opened by the same rules.
"""

from __future__ import annotations

import os
import re
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from webdataset import stores
from webdataset.address import like
from webdataset.errors import ShardNotFound, SpecError
from webdataset.flow import digest
from webdataset.redact import redacted

if TYPE_CHECKING:
    from ._shard_index import ShardIndex

_SUFFIX = re.compile(r"(\.tar)?(\.(tar|tgz|gz|bz2|xz|zst))?$", re.IGNORECASE)
# "v1.2 " and a number of up to 18 digits, with room to spare.
_FIRST_LINE = 64


def dali_name(url: str) -> str:
    """The name that `wds2idx` gives to an index: up to the first dot of the file name.

    >>> dali_name("dir.x/a.b.tar")
    'dir.x/a.idx'
    """
    base = url.rfind("/") + 1
    return like(url, url[:base] + url[base:].partition(".")[0] + ".idx")


def index_url(url: str, location: str | None = None) -> str:
    """The address of the index of a shard.

    >>> index_url("s3://b/train.v2-000.tar"), index_url("https://h/a.tar.gz?key=1")
    ('s3://b/train.v2-000.idx', 'https://h/a.idx')

    In a directory for indexes its name contains a digest of the whole address: shards of different directories may have
    the same name.

    >>> index_url("https://h/x/0.tar", "indexes")
    'indexes/0-0fcf9c5c6e7f141e.idx'
    """
    if stores.scheme_of(url) == "pipe" and location is None:
        raise SpecError(f"an index cannot be stored next to {url!r}", hint="name a directory for indexes")
    bare = url.partition("?")[0] if "://" in url else url
    stem = _SUFFIX.sub("", bare)
    if location is None:
        return like(url, f"{stem}.idx")
    name = re.sub(r"[^\w.-]+", "_", redacted(stem).rsplit("/", 1)[-1])[-64:]
    return f"{location.rstrip('/')}/{name}-{digest(str(url)):016x}.idx"


def save_index(index: ShardIndex, url: str, location: str | None = None) -> str:
    """Store the index of a shard, complete or not at all, and return its address.

    >>> from ._build_index import build
    >>> save_index(build([("a.txt", 512, 3)]), "memory://doc-place/a.tar")
    'memory://doc-place/a.idx'
    """
    from ._dali_text import write_dali

    where = index_url(url, location)
    data = write_dali(index)
    folder = stores.is_local(location) if location is not None else None
    if folder is not None:
        Path(folder).mkdir(parents=True, exist_ok=True)
    stores.write_bytes(where, data)
    return where


def load_index(url: str, location: str | None = None) -> ShardIndex | None:
    """The stored index of a shard, or None. Whether it fits the shard is checked when it is used.

    >>> from ._build_index import build
    >>> _ = save_index(build([("a.txt", 512, 3)]), "memory://doc-place/b.tar")
    >>> load_index("memory://doc-place/b.tar").key(0), load_index("memory://doc-place/c.tar")
    ('a', None)
    """
    from ._dali_text import read_dali

    found = _read_stored(url, location)
    return None if found is None else read_dali(*found)


def load_count(url: str, location: str | None = None) -> int | None:
    """The number of samples of a shard, from the first line of its stored index.

    >>> from ._build_index import build
    >>> _ = save_index(build([("a.txt", 512, 3)]), "memory://doc-place/d.tar")
    >>> load_count("memory://doc-place/d.tar")
    1
    """
    from ._dali_text import count_dali

    found = _read_stored(url, location, _FIRST_LINE)
    return None if found is None else count_dali(*found)


def has_index(url: str) -> bool:
    """Whether there is an index next to a local shard; nothing is read.

    >>> has_index("/nowhere/a.tar"), has_index("memory://doc-place/d.tar")
    (False, False)
    """
    if stores.is_local(url) is None:
        return False
    paths = (stores.is_local(name) for name in _candidates(url, None))
    return any(path is not None and os.path.isfile(path) for path in paths)


def _read_stored(url: str, location: str | None, size: int = -1) -> tuple[bytes, str] | None:
    """The stored index of a shard, or its first bytes, and the address of the index."""
    for name in _candidates(url, location):
        with suppress(ShardNotFound), stores.open_read(name) as stream:
            return (stream.read(size) if size >= 0 else stores.read_document(stream, name)), name
    return None


def _candidates(url: str, location: str | None) -> list[str]:
    if location is not None:
        # First the name that we give, then the plain names that users of DALI have.
        name = url.rpartition("/")[2].partition("?")[0]
        plain = [f"{location.rstrip('/')}/{found}" for found in (index_url(name), dali_name(name))]
        return list(dict.fromkeys([index_url(url, location), *plain]))
    if stores.scheme_of(url) == "pipe":
        return []
    bare = like(url, url.partition("?")[0]) if "://" in url else url
    return list(dict.fromkeys([index_url(url), dali_name(bare)]))
