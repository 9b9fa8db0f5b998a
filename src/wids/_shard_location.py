"""Where a shard is read: at its address, or from a local copy that is checked against its description."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from webdataset import stores
from webdataset.cache import ShardCache, download
from webdataset.errors import StaleIndex, StoreError, Where
from webdataset.index import ShardEntry

from ._indexed_tar import compute_file_md5sum


@dataclass(frozen=True)
class ShardLocations:
    """Finds an address with random access for a described shard.

    >>> ShardLocations().find(ShardEntry("memory://wids/none.tar", 1, filesize=10))
    Traceback (most recent call last):
    webdataset.errors.ShardNotFound: ...

    Attributes:
        cache: keeps whole shards that come over the network; names in it never collide.
        localname: address → path of the copy, instead of the cache.
    """

    cache: ShardCache | None = None
    localname: Callable[[str], str] | None = None

    def find(self, entry: ShardEntry) -> str:
        """The address to read a shard from; a shard of another size or content than described is refused."""
        url = entry.url
        if stores.is_local(url) is None and self.localname is not None:
            return self._named(entry, self.localname(url))
        if stores.is_local(url) is None and self.cache is not None:
            return self._cached(entry, self.cache)
        entry.check(stores.stat(url).size)
        return url

    def _named(self, entry: ShardEntry, path: str) -> str:
        if not os.path.exists(path):
            Path(path).parent.mkdir(parents=True, exist_ok=True)
            download(entry.url, path)
            try:
                _check_copy(entry, path)
            except StaleIndex:
                Path(path).unlink()
                raise
        entry.check(Path(path).stat().st_size)
        return path

    def _cached(self, entry: ShardEntry, cache: ShardCache) -> str:
        new = cache.intact(entry.url, cache.name(entry.url)) is None
        path = cache.get(entry.url)
        try:
            if new:
                _check_copy(entry, path)
            entry.check(Path(path).stat().st_size)
        except StaleIndex:
            with suppress(StoreError):
                cache.forget(entry.url)
            raise
        return path


def _check_copy(entry: ShardEntry, path: str) -> None:
    """Compare a copy with the size and checksum in the description."""
    entry.check(Path(path).stat().st_size)
    if entry.md5sum is not None and (found := compute_file_md5sum(path)) != entry.md5sum:
        raise StaleIndex(
            f"the description says md5 {entry.md5sum}, the shard has {found}",
            Where(shard=entry.url),
            hint="describe the dataset again with widsindex, or get the shard again",
        )
