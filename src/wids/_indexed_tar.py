"""Samples of one local shard by number, and the shards that were used last."""

from __future__ import annotations

import hashlib
import io
import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any
from urllib.parse import quote

from webdataset import config, stores
from webdataset.cache import url_to_hashed_name
from webdataset.errors import SpecError, StaleIndex, Where
from webdataset.redact import redacted

from ._tar_members import TarMembers
from .wids_dl import download_file
from .wids_lru import LRUCache


def splitname(name: str) -> tuple[str, str]:
    """Key and extension with its dot, split at the first dot of the last component.

    >>> splitname("a.b/c.seg.png")
    ('a.b/c', '.seg.png')
    """
    folder, slash, base = name.rpartition("/")
    stem, dot, extension = base.partition(".")
    if not dot:
        raise SpecError(f"the name {name!r} has no extension", hint="members of samples are called key.extension")
    return f"{folder}{slash}{stem}", f".{extension}"


def group_by_key(names: Iterable[str]) -> list[list[int]]:
    """The positions of consecutive names with equal keys; names without a dot are left out.

    >>> group_by_key(["a.x", "a.y", "README", "b.x"])
    [[0, 1], [3]]
    """
    groups: list[list[int]] = []
    last = None
    for number, name in enumerate(names):
        if "." not in name.rpartition("/")[2]:
            continue
        key = splitname(name)[0]
        if key != last:
            groups.append([])
            last = key
        groups[-1].append(number)
    return groups


class IndexedTarSamples:
    """The samples of a local tar file: `samples[3]` is a dict of streams, with dotted names and `__key__`.

    Args:
        path: of the file.
        stream: an open file instead.
        md5sum: the MD5 that the file must have.
        expected_size: how many samples it must have.
        use_mmap: accepted; the file is read, see `TarMembers`.
        index_file: accepted; an index is made of the file itself.
    """

    def __init__(
        self,
        *,
        path: str | None = None,
        stream: Any = None,
        md5sum: str | None = None,
        expected_size: int | None = None,
        use_mmap: bool = True,
        index_file: Any = None,
    ) -> None:
        if (path is None) == (stream is None):
            raise SpecError("IndexedTarSamples needs path= or stream=", hint="give one of them")
        self._members = TarMembers(path if stream is None else stream)
        self.path = self._members.path
        self.groups = group_by_key(self._members.names())
        try:
            self._check(md5sum, expected_size)
        except StaleIndex:
            self.close()
            raise

    def _check(self, md5sum: str | None, expected: int | None) -> None:
        wanted = None if md5sum is None or self.path is None else md5sum.lower()
        if wanted is not None and (found := compute_file_md5sum(self.path)) != wanted:
            raise StaleIndex(f"expected md5 {md5sum}, got {found}", Where(shard=self.path), hint="get the shard again")
        if expected is not None and len(self) != expected:
            raise StaleIndex(
                f"expected {expected} samples, got {len(self)}",
                Where(shard=self.path),
                hint="describe the dataset again with widsindex",
            )

    def __len__(self) -> int:
        return len(self.groups)

    def __getitem__(self, index: int) -> dict[str, Any]:
        sample: dict[str, Any] = {}
        for number in self.groups[index]:
            key, extension = splitname(self._members.rows[number].name)
            sample["__key__"] = key
            sample[extension] = io.BytesIO(self._members.read(number))
        return sample

    def close(self) -> None:
        """Close the file."""
        self._members.close()


class LRUShards:
    """Open shards by address; the least recently used are closed when there are more than `lru_size`.

    Args:
        lru_size: how many stay open.
        keep: accepted; copies are not deleted.
        localname: address → path of the local copy.
    """

    def __init__(self, lru_size: int, keep: bool = False, localname: Callable[[str], str] | None = None) -> None:
        self.localname = localname or default_localname()
        self.lru: LRUCache[str, IndexedTarSamples] = LRUCache(lru_size, lambda _, shard: shard.close())
        self.reset_stats()

    def reset_stats(self) -> None:
        """Count from zero."""
        self.accesses = self.misses = 0
        self.last_missed: str | None = None

    def __len__(self) -> int:
        return len(self.lru)

    def get_shard(self, url: str) -> IndexedTarSamples:
        """The samples of a shard, which is fetched if it is not local."""
        self.accesses += 1
        shard = self.lru[url]
        if shard is None:
            self.misses += 1
            self.last_missed = url
            path = stores.is_local(url)
            if path is None:
                path = self.localname(url)
                download_file(url, path)
            shard = self.lru[url] = IndexedTarSamples(path=path)
        return shard

    def clear(self) -> None:
        """Close them all."""
        self.lru.clear()


def default_localname(dldir: str | None = None) -> Callable[[str], str]:
    """A function address → path: the quoted address, below `dldir` or the directory that WIDS_CACHE names.

    An address with a secret gets a name without it, as `cache_localname` makes them.

    >>> default_localname("/tmp/x")("s3://b/a.tar")
    '/tmp/x/s3%3A%2F%2Fb%2Fa.tar'
    """
    folder = Path(dldir or config.read("WIDS_CACHE") or "/tmp/_wids_cache")  # noqa: S108 - wids' own place
    return lambda url: str(folder / (quote(url, safe="_+{}*,-") if redacted(url) == url else url_to_hashed_name(url)))


def cache_localname(cachedir: str) -> Callable[[str], str]:
    """A function address → path below `cachedir`: the last component, after a hash of the whole address.

    >>> cache_localname("/c")("s3://b/x/0.tar") != cache_localname("/c")("s3://b/y/0.tar")
    True
    """
    if os.path.isdir(Path(cachedir).parent):
        Path(cachedir).mkdir(exist_ok=True)
    return lambda url: str(Path(cachedir) / url_to_hashed_name(url))


def compute_file_md5sum(path: Any, chunksize: int = 1_000_000) -> str:
    """The MD5 of a file, given by its path or open."""
    if hasattr(path, "read"):
        return hashlib.file_digest(path, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()
    with Path(path).open("rb") as file:
        return compute_file_md5sum(file)


def compute_num_samples(path: str) -> int:
    """How many samples a local tar file has."""
    members = TarMembers(path)
    members.close()
    return len(group_by_key(members.names()))
