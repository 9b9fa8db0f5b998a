"""Members → index: all at once, one by one while a shard streams by, or many shards side by side."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from operator import sub
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from webdataset import stores, tar
from webdataset.errors import located

from ._fetch import Mapped
from ._names import split_name
from ._shard_index import Keys, ShardIndex
from ._walk import GiveUpError, walk


class Checksum(Protocol):
    """What `hashlib` objects are."""

    def update(self, data: bytes, /) -> None:
        """More bytes."""


class IndexBuilder:
    """Collects members as they come by; what belongs to no sample is passed over.

    >>> builder = IndexBuilder()
    >>> for member in [("a.jpg", 512, 600), ("dir/", 1536, 0), ("a.cls", 2560, 1)]:
    ...     builder.add(*member)
    >>> builder.finish().extents(0)
    (Extent(field='jpg', offset=512, size=600), Extent(field='cls', offset=2560, size=1))
    """

    def __init__(self) -> None:
        self._firsts: list[int] = []
        self._keys: list[str] = []
        self._offsets: list[int] = []
        self._sizes: list[int] = []
        self._field_numbers: list[int] = []
        self._fields: dict[str, int] = {}

    def add(self, name: str, data_offset: int, size: int) -> None:
        """One more member, in the order of the archive."""
        self.add_run([name], [data_offset], [size])

    def add_run(self, names: Iterable[str], data_offsets: Iterable[int], sizes: Iterable[int]) -> None:
        """More members, as columns: what `tar.read_runs` hands out."""
        keys, offsets, fields = self._keys, self._offsets, self._fields
        last = keys[-1] if keys else None
        for name, offset, size in zip(names, data_offsets, sizes, strict=True):
            split = split_name(name)
            if split is None:
                continue
            key, field = split
            if key != last:
                keys.append(key)
                self._firsts.append(len(offsets))
                last = key
            offsets.append(offset)
            self._sizes.append(size)
            self._field_numbers.append(fields.setdefault(field, len(fields)))

    def finish(self) -> ShardIndex:
        """The index of what came by: to be called at the archive's end, not before."""
        return ShardIndex(
            np.array([*self._firsts, len(self._offsets)], dtype=np.int64),
            np.array(self._offsets, dtype=np.int64),
            np.array(self._sizes, dtype=np.int64),
            np.array(self._field_numbers, dtype=np.int32),
            tuple(self._fields),
            Keys(self._keys),
        )


def build(members: Iterable[tuple[str, int, int]]) -> ShardIndex:
    """The index of members given as (name, offset of the data, size).

    >>> build([("a.jpg", 512, 600), ("b.jpg", 2048, 10)]).fields
    ('jpg',)
    """
    builder = IndexBuilder()
    for name, data_offset, size in members:
        builder.add(name, data_offset, size)
    return builder.finish()


def build_index(url: str, *, checksum: Checksum | None = None) -> ShardIndex:
    """Read a shard once, wherever it lies, and index it.

    >>> with stores.open_write("memory://doc-build/a.tar") as stream:
    ...     _ = stream.write(tar.encode_header("a.txt", 3) + b"abc" + tar.padding(3) + tar.END_OF_ARCHIVE)
    >>> build_index("memory://doc-build/a.tar").extents(0)
    (Extent(field='txt', offset=512, size=3),)

    Args:
        url: where the shard lies.
        checksum: is given all bytes on the way, such as `hashlib.md5()`.
    """
    path = stores.is_local(url)
    if checksum is None and path is not None and (index := _walked(path, url)) is not None:
        return index
    builder = IndexBuilder()
    with located(shard=url), stores.open_read(url) as stream:
        for run in tar.read_runs(stream if checksum is None else _Watched(stream, checksum)):
            base = run.base
            sizes = map(sub, run.stops, run.starts)
            builder.add_run(run.names, [base + start for start in run.starts], sizes)
    return builder.finish()


def _walked(path: str, url: str) -> ShardIndex | None:
    """The index of a plain local archive from its headers alone, None if it is not one."""
    if not Path(path).is_file():
        return None  # a named pipe can be opened only once
    try:
        with closing(Mapped(path, url)) as shard:
            return build(walk(shard))
    except (GiveUpError, OSError):
        return None  # reading it as a stream says what there is to say


def build_indexes(urls: Sequence[str], *, workers: int = 4) -> Iterator[tuple[str, ShardIndex]]:
    """Index many shards side by side, handed out in the order given.

    >>> list(build_indexes([]))
    []
    """
    with ThreadPoolExecutor(max_workers=max(1, workers)) as pool:
        yield from zip(urls, pool.map(build_index, urls), strict=True)


class _Watched:
    """A stream whose bytes somebody else sees too."""

    def __init__(self, stream: Any, checksum: Checksum) -> None:
        self._stream, self._checksum = stream, checksum

    def read(self, size: int, /) -> bytes:
        data: bytes = self._stream.read(size)
        self._checksum.update(data)
        return data
