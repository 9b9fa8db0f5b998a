"""Byte ranges of a shard: from a local file, or over the network with neighbouring ranges fetched as one."""

from __future__ import annotations

import errno
import io
import os
import weakref
from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Sequence
from concurrent import futures
from contextlib import suppress
from itertools import repeat
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from webdataset import stores
from webdataset.errors import StoreError, Where
from webdataset.tar import BLOCK

from ._shard_index import Extent

Show = Callable[[bytes], Any]  # `bytes`, or `memoryview` for members that are not copied out of what was read

# Two ranges with no more bytes than this between them are fetched as one: padding and the headers of the next member,
# with PAX records. A larger gap is a field that was not requested, which need not be fetched.
GAP = 2048
# Requests in flight for one call: enough to hide a latency of 20 ms at 40 MB/s and 100 kB per request.
_CONNECTIONS = 8
# Local files that are open at once in a process; programs often run with a limit of 1024 descriptors, some with 256.
_DESCRIPTORS = 32
# Rows below this size cost less as objects that are joined than as reads into an array: 1.1 µs and 1.4 µs for 1 kB.
_SMALL = 8192


class Range(NamedTuple):
    """Some bytes of a shard.

    >>> Range(512, 600).stop
    1112
    """

    start: int
    length: int

    @property
    def stop(self) -> int:
        """The first byte after it."""
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
    """A fetched member: where it should be, the header block found there, and the data after it."""

    extent: Extent
    header: bytes
    data: Any


class _OpenFile(io.FileIO):
    """An open file, closed with the last reference: a thread that reads from it keeps it open until it is done."""

    def __del__(self) -> None:
        self.close()


class LocalFile:
    """A local file. Read by `pread`, not mapped: a file that is truncated meanwhile is an error, not a SIGBUS.

    At most `_DESCRIPTORS` of these files are open in a process. A file that was closed because of this limit is opened
    again when it is read, and must still be the same file. `known` is the `identity` that
    it had before, if it was open before.
    """

    def __init__(self, path: str, url: str, known: Any = None) -> None:
        self.path: str | None = path
        self._name, self._url = path, url
        self._identity: tuple[int, ...] | None = known
        self._file: _OpenFile | None = None
        self._open()
        assert self._identity is not None
        self.size: int = self._identity[2]

    @property
    def identity(self) -> Any:
        """What tells the file from another one that takes its place."""
        return self._identity

    def read(self, start: int, length: int) -> bytes:
        """Exactly these bytes."""
        file = self._file or self._open()
        try:
            data = os.pread(file.fileno(), length, start)
            while len(data) < length and (more := os.pread(file.fileno(), length - len(data), start + len(data))):
                data += more  # Linux reads at most 2 GB at once
        except OSError:  # not a `with` around the read: that would take 1 µs for every read
            with stores.system_errors(self._url):
                raise
        if len(data) != length:
            raise self._too_short(start, length)
        return data

    def read_members(self, extents: Sequence[Extent], show: Show = bytes) -> list[Member]:
        """The header block and the data of several members."""
        members = []
        for extent in extents:
            body = self.read(extent.offset - BLOCK, BLOCK + extent.size)
            members.append(Member(extent, body[:BLOCK], show(body)[BLOCK:]))
        return members

    def read_rows(self, starts: NDArray[np.int64], length: int) -> NDArray[np.uint8]:
        """`length` bytes from each offset, one a row. Offsets of members are multiples of a block."""
        first, stop = int(starts.min()), int(starts.max()) + length
        if stop - first <= 2 * len(starts) * length:  # rows that are close together are read at once
            blocks = -(-(stop - first) // BLOCK)
            span = np.empty((blocks, BLOCK), np.uint8)
            self._read_into(span.reshape(-1).data, [first], stop - first)
            step = (stop - length - first) // max(1, len(starts) - 1)
            if step and (starts == np.arange(first, stop, step)[: len(starts)]).all():  # members of one size, in order
                return np.ndarray((len(starts), length), np.uint8, span, strides=(step, 1))
            wanted = (starts[:, None] - first) // BLOCK + np.arange(-(-length // BLOCK))
            return np.take(span, wanted, axis=0).reshape(len(starts), -1)[:, :length]
        if length < _SMALL:
            file = self._file or self._open()
            with stores.system_errors(self._url):
                joined = bytearray().join(map(os.pread, repeat(file.fileno()), repeat(length), starts.tolist()))
            if len(joined) == len(starts) * length:
                return np.frombuffer(joined, np.uint8).reshape(-1, length)
        rows = np.empty((len(starts), length), np.uint8)
        self._read_into(rows.reshape(-1).data, starts.tolist(), length)
        return rows

    def close(self) -> None:
        """Close the file; reading it again opens it again."""
        self._file = None

    def _read_into(self, memory: memoryview, starts: list[int], length: int) -> None:
        """`length` bytes from each offset, one after the other."""
        file = self._file or self._open()
        descriptor = file.fileno()
        with stores.system_errors(self._url):
            for at, start in zip(range(0, len(memory), length), starts, strict=False):
                count = os.preadv(descriptor, [memory[at : at + length]], start)
                if count != length:
                    memory[at : at + length] = self.read(start, length)

    def _open(self) -> _OpenFile:
        with stores.system_errors(self._url):
            try:
                file = _OpenFile(self._name)
            except OSError as error:
                if error.errno not in {errno.EMFILE, errno.ENFILE}:
                    raise
                _close_all()
                file = _OpenFile(self._name)
            found = os.fstat(file.fileno())
        identity = (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns)
        if self._identity not in {None, identity}:
            raise StoreError(
                "the file was replaced while it was used", Where(shard=self._url), hint="open the dataset again"
            )
        self._identity, self._file = identity, file
        _opened.append(weakref.ref(self))
        while len(_opened) > _DESCRIPTORS:
            _close_oldest()
        return file

    def _too_short(self, start: int, length: int) -> StoreError:
        return StoreError(
            f"expected {length} bytes from byte {start} on, the file is shorter",
            Where(shard=self._url, offset=start),
            hint="the shard was truncated, or its index belongs to another shard: build the index again",
        )


# The files that are open, the one opened first at the left.
_opened: deque[weakref.ref[LocalFile]] = deque()


def _close_oldest() -> None:
    with suppress(IndexError):  # another thread closed it
        oldest = _opened.popleft()()
        if oldest is not None:
            oldest.close()


def _close_all() -> None:
    while _opened:
        _close_oldest()


class Ranged:
    """A shard in any other store, read by ranges. All must be of the version and size that it had when opened.

    `known` is the `identity` that it had before, if it was open before.
    """

    path = None

    def __init__(self, url: str, known: Any = None) -> None:
        self._url = url
        found = stores.stat(url)
        if found.size is None:
            raise StoreError(
                "the store does not say how large the shard is, so ranges of it cannot be read",
                Where(shard=url),
                hint="read it as a stream, or copy it to a store with random access",
            )
        if known is not None:
            stores.BytesRead(url, 0, *known).check(found.etag, found.size, 0)
        self.size, self._version = found.size, found.etag

    @property
    def identity(self) -> Any:
        """What tells the object from another one that takes its place, as far as the store knows it."""
        return self._version, self.size

    def read(self, start: int, length: int) -> bytes:
        """Exactly these bytes."""
        return stores.read_range(self._url, start, length, version=self._version, size=self.size)

    def read_members(self, extents: Sequence[Extent], show: Show = bytes) -> list[Member]:
        """The same, with few requests in parallel."""
        bodies = self.read_many([Range(extent.offset - BLOCK, BLOCK + extent.size) for extent in extents])
        return [Member(extent, body[:BLOCK], show(body)[BLOCK:]) for extent, body in zip(extents, bodies, strict=True)]

    def read_rows(self, starts: NDArray[np.int64], length: int) -> NDArray[np.uint8]:
        """`length` bytes from each offset, one a row."""
        bodies = self.read_many([Range(start, length) for start in starts.tolist()])
        return np.stack([np.frombuffer(body, np.uint8) for body in bodies])

    def read_many(self, ranges: Sequence[Range]) -> list[bytes]:
        """The bytes of several ranges."""
        spans = coalesce(ranges)
        if len(spans) < 2:
            bodies = [self.read(*span) for span in spans]
        else:
            with futures.ThreadPoolExecutor(max_workers=min(len(spans), _CONNECTIONS)) as pool:
                bodies = list(pool.map(lambda span: self.read(*span), spans))
        return [_cut(each, spans, bodies) for each in ranges]

    def close(self) -> None:
        """Nothing is open."""


def _cut(wanted: Range, spans: list[Range], bodies: list[bytes]) -> bytes:
    number = bisect_right(spans, wanted.start, key=lambda span: span.start) - 1
    first = wanted.start - spans[number].start
    return bodies[number][first : first + wanted.length]


def open_bytes(
    url: str, fetch: Callable[[str], str] | None = None, seen: dict[str, Any] | None = None
) -> LocalFile | Ranged:
    """Random access to a shard; `fetch` makes a local copy of one that is not a local file, and returns its path.

    `seen` has the identities of shards that were open before, and gets that of this one. A copy is not noted: the cache
    may have removed it and made it again.

    >>> with stores.open_write("memory://doc-fetch/a.bin") as stream:
    ...     _ = stream.write(b"hello")
    >>> open_bytes("memory://doc-fetch/a.bin").read(1, 3)
    b'ell'
    """
    path = stores.is_local(url)
    if path is None and fetch is not None:
        try:
            return LocalFile(fetch(url), url)
        except FileNotFoundError:  # another process evicted the copy in between
            path = fetch(url)
            return LocalFile(path, url)
    known = None if seen is None else seen.get(url)
    opened = Ranged(url, known) if path is None else LocalFile(path, url, known)
    if seen is not None:
        seen[url] = opened.identity
    return opened
