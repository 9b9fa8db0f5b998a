"""Byte ranges of a shard: out of a mapped file, or over the network with neighbours put together."""

from __future__ import annotations

import mmap
from bisect import bisect_right
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from webdataset import stores
from webdataset.errors import StoreError, Where
from webdataset.tar import BLOCK

from ._shard_index import Extent

# Two ranges with no more than this between them are fetched as one: padding and the headers of the next member, with
# PAX records. A larger gap is a field that was not asked for, and asking for it is what projection avoids.
GAP = 2048
# Requests in flight for one call: enough to hide a latency of 20 ms behind 100 kB each at 40 MB/s.
_CONNECTIONS = 8


class Range(NamedTuple):
    """Some bytes of a shard.

    >>> Range(512, 600).stop
    1112
    """

    start: int
    length: int

    @property
    def stop(self) -> int:
        """The first byte behind it."""
        return self.start + self.length


def coalesce(ranges: Sequence[Range], gap: int = GAP) -> list[Range]:
    """The fewest ranges that cover all of the given ones without reading over larger gaps.

    >>> coalesce([Range(0, 512), Range(1024, 512), Range(99_999, 1)])
    [Range(start=0, length=1536), Range(start=99999, length=1)]
    """
    merged: list[Range] = []
    for each in sorted(ranges):
        if merged and each.start <= merged[-1].stop + gap:
            last = merged.pop()
            merged.append(Range(last.start, max(last.stop, each.stop) - last.start))
        else:
            merged.append(each)
    return merged


class Member(NamedTuple):
    """A member as it was fetched: where it should be, the header block that stands there, and the data behind it."""

    extent: Extent
    header: bytes
    data: bytes


class Mapped:
    """A local file, mapped into memory."""

    def __init__(self, path: str, url: str) -> None:
        self.path: str | None = path
        with open(path, "rb") as file:  # noqa: PTH123 - a path may be any text that the system takes
            self.size = file.seek(0, 2)
            self._map = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) if self.size else None
        self._url = url

    def read(self, start: int, length: int) -> bytes:
        """Exactly these bytes."""
        if start + length > self.size:
            raise StoreError(f"bytes {start}+{length} are not in a file of {self.size}", Where(shard=self._url))
        return self._map[start : start + length] if self._map is not None else b""

    def read_members(self, extents: Sequence[Extent]) -> list[Member]:
        """The header block and the data of several members."""
        return [
            Member(extent, self.read(extent.offset - BLOCK, BLOCK), self.read(extent.offset, extent.size))
            for extent in extents
        ]

    def read_rows(self, starts: NDArray[np.int64], length: int) -> NDArray[np.uint8]:
        """As many bytes from each of these places, one a row. They begin with a block, so whole blocks are gathered."""
        if self._map is None or int(starts.max()) + length > self.size:
            raise StoreError(f"bytes {starts.max()}+{length} are not in a file of {self.size}", Where(shard=self._url))
        blocks = np.frombuffer(self._map, np.uint8, self.size // BLOCK * BLOCK).reshape(-1, BLOCK)
        wanted = starts[:, None] // BLOCK + np.arange(-(-length // BLOCK))
        return np.take(blocks, wanted, axis=0).reshape(len(starts), -1)[:, :length]

    def close(self) -> None:
        """Unmap it."""
        if self._map is not None:
            self._map.close()


class Ranged:
    """A shard in any other place, read by ranges."""

    path = None

    def __init__(self, url: str) -> None:
        self._url = url
        size = stores.stat(url).size
        if size is None:
            raise StoreError(
                "the place does not tell the shard's size, so no part of it can be asked for",
                Where(shard=url),
                hint="read it as a stream, or copy it to a place with random access",
            )
        self.size = size

    def read(self, start: int, length: int) -> bytes:
        """Exactly these bytes."""
        return stores.read_range(self._url, start, length)

    def read_members(self, extents: Sequence[Extent]) -> list[Member]:
        """The header block and the data of several members, with few requests, side by side."""
        bodies = self.read_many([Range(extent.offset - BLOCK, BLOCK + extent.size) for extent in extents])
        return [Member(extent, body[:BLOCK], body[BLOCK:]) for extent, body in zip(extents, bodies, strict=True)]

    def read_rows(self, starts: NDArray[np.int64], length: int) -> NDArray[np.uint8]:
        """As many bytes from each of these places, one a row."""
        bodies = self.read_many([Range(start, length) for start in starts.tolist()])
        return np.stack([np.frombuffer(body, np.uint8) for body in bodies])

    def read_many(self, ranges: Sequence[Range]) -> list[bytes]:
        """The bytes of several ranges."""
        spans = coalesce(ranges)
        if len(spans) < 2:
            bodies = [self.read(*span) for span in spans]
        else:
            with ThreadPoolExecutor(max_workers=min(len(spans), _CONNECTIONS)) as pool:
                bodies = list(pool.map(lambda span: self.read(*span), spans))
        return [_cut(each, spans, bodies) for each in ranges]

    def close(self) -> None:
        """Nothing is held."""


def _cut(wanted: Range, spans: list[Range], bodies: list[bytes]) -> bytes:
    number = bisect_right(spans, wanted.start, key=lambda span: span.start) - 1
    first = wanted.start - spans[number].start
    return bodies[number][first : first + wanted.length]


def open_bytes(url: str, fetch: Callable[[str], str] | None = None) -> Mapped | Ranged:
    """Random access to a shard; `fetch` makes a local copy of one that is not a local file, and returns its path.

    >>> with stores.open_write("memory://doc-fetch/a.bin") as stream:
    ...     _ = stream.write(b"hello")
    >>> open_bytes("memory://doc-fetch/a.bin").read(1, 3)
    b'ell'
    """
    path = stores.is_local(url)
    if path is None and fetch is not None:
        try:
            return Mapped(fetch(url), url)
        except FileNotFoundError:  # another process evicted the copy in between
            path = fetch(url)
    return Ranged(url) if path is None else Mapped(path, url)
