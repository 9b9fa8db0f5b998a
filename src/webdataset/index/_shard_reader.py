"""Single samples of a shard, or some of their fields; samples of many shards, one shard after the other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from webdataset.decompress import is_packed
from webdataset.errors import DuplicateField, FormatError, ShardNotFound, SpecError, Where, located
from webdataset.names import OWN_FIELDS
from webdataset.tar import BLOCK

from ._check_index import Gap, check_end, check_gap, gap_sizes, header_fits, only_times_before, stale, suspicious_gaps
from ._fetch_ranges import LocalFile, Member, Ranged, Show, open_bytes
from ._shard_index import Extent, ShardIndex


class StoredRun(NamedTuple):
    """Samples that follow each other, as they are stored.

    Attributes:
        url: the address of their shard.
        local_path: its path, if it is a local file.
        keys: what the index says that their keys are, joined.
        data: their members, with headers.
    """

    url: str
    local_path: str | None
    keys: str
    data: bytes


class ShardReader:
    """Random access to the samples of one shard. Opened when first used; closed by `close` or with the last reference.

    >>> from webdataset import stores, tar
    >>> from ._build_index import build_index
    >>> with stores.open_write("memory://doc-lookup/a.tar") as stream:
    ...     for name in ("a.txt", "b.txt"):
    ...         _ = stream.write(tar.encode_header(name, 3) + b"abc" + tar.padding(3))
    ...     _ = stream.write(tar.END_OF_ARCHIVE)
    >>> reader = ShardReader("memory://doc-lookup/a.tar", build_index("memory://doc-lookup/a.tar"))
    >>> reader.sample(1)
    {'__key__': 'b', '__url__': 'memory://doc-lookup/a.tar', 'txt': b'abc'}

    Args:
        url: the address of the shard.
        index: the index of the shard; it is checked while the shard is read.
        fetch: makes a local copy of a shard that is not a local file, and returns its path.
        copy: False makes the fields read-only views of what was read.
        seen: of readers that take turns, what was found where they were opened: a shard must still be the same then.
    """

    def __init__(
        self,
        url: str,
        index: ShardIndex,
        fetch: Callable[[str], str] | None = None,
        *,
        copy: bool = True,
        seen: dict[str, Any] | None = None,
    ) -> None:
        if is_packed(url):
            raise SpecError(
                f"{url!r} is compressed, and a compressed shard can be read from its beginning only",
                hint="decompress it, or read it as a stream",
            )
        self.url = url
        self.index = index
        self._fetch = fetch
        self._seen = seen
        self._show: Show = bytes if copy else memoryview
        self._bytes: LocalFile | Ranged | None = None
        self._gaps = gap_sizes(index)
        self._irregular = _per_sample(self._gaps != BLOCK, index)
        self._any_irregular = bool(self._irregular.any())
        self._columns: dict[str, tuple[NDArray[np.int64], NDArray[np.int64]]] = {}

    def sample(self, number: int, fields: Sequence[str] | None = None) -> dict[str, Any]:
        """One sample, or those of its fields that are named."""
        return self.samples([number], fields)[0]

    def samples(self, numbers: Sequence[int], fields: Sequence[str] | None = None) -> list[dict[str, Any]]:
        """Return several samples in the given order, with as few requests as possible."""
        opened = self._bytes or self._open()
        wanted = [_wanted(self.index.extents(number), fields) for number in numbers]
        self._check_irregular(numbers, opened)
        if len(wanted) == 1:
            return [self._assemble(numbers[0], opened.read_members(wanted[0], self._show), opened, fields)]
        members = iter(opened.read_members([extent for extents in wanted for extent in extents], self._show))
        return [
            self._assemble(number, list(islice(members, len(extents))), opened, fields)
            for number, extents in zip(numbers, wanted, strict=True)
        ]

    def stored(self, first: int, stop: int) -> StoredRun:
        """The samples from `first` up to `stop`, as they are stored."""
        opened = self._bytes or self._open()
        start, end = self.index.start(first), self.index.start(stop)
        return StoredRun(self.url, opened.path, self.index.keys.joined(first, stop), opened.read(start, end - start))

    def column(self, numbers: NDArray[np.int64], field: str) -> NDArray[np.uint8]:
        """The bytes of one field of several samples as a matrix; all have to be of one size.

        No step per sample: headers are read only where the index leaves more bytes than one header takes.
        """
        opened = self._bytes or self._open()
        self._check_irregular(numbers, opened)
        if field not in self._columns:
            with located(shard=self.url):
                self._columns[field] = self.index.column(field)
        offsets, sizes = (column[numbers] for column in self._columns[field])
        if (sizes != sizes[0]).any():
            raise FormatError(
                f"the field {field!r} has different sizes, {sizes.min()} to {sizes.max()} bytes",
                Where(shard=self.url, field=field),
                hint="read such samples one by one",
            )
        return opened.read_rows(offsets, int(sizes[0]))

    def close(self) -> None:
        """Close the file; the next use opens it again."""
        if self._bytes is not None:
            self._bytes.close()
            self._bytes = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_bytes": None}

    def _open(self) -> LocalFile | Ranged:
        if self._bytes is None:
            try:
                opened = open_bytes(self.url, self._fetch, self._seen)
            except FileNotFoundError as error:
                raise ShardNotFound(
                    "shard not found", Where(shard=self.url), hint="check the path; it was indexed before"
                ) from error
            check_end(self.index, opened.size, opened.read, self.url)
            self._check_gaps(suspicious_gaps(self._gaps), opened)
            self._bytes = opened
        return self._bytes

    def _assemble(
        self, number: int, members: list[Member], opened: LocalFile | Ranged, fields: Sequence[str] | None
    ) -> dict[str, Any]:
        key = self.index.key(number)
        # A field that the sample lacks may have another name in the index only.
        lacks = fields is not None and (len(members) < len(fields) or not members)
        if key is None or lacks or not _plain(members, f"{key}.".encode("utf-8", "surrogateescape")):
            key = self._looked_up(number, opened)
        sample: dict[str, Any] = {"__key__": key, "__url__": self.url}
        for extent, _, data in members:
            field = extent.field.lower()
            if field in OWN_FIELDS and field != "__key__":
                continue  # the reader's own value replaces it, as in a stream
            if field in sample:
                raise DuplicateField(
                    "the sample has the field twice",
                    Where(field=field, key=key, shard=self.url),
                    hint="write the shard again with one member per field",
                )
            sample[field] = data
        if opened.path is not None:
            sample["__local_path__"] = opened.path
        return sample

    def _looked_up(self, number: int, opened: LocalFile | Ranged) -> str:
        """Return the key of a sample from its headers, after all of them were parsed and compared with the index."""
        index, start = self.index, self.index.start(number)
        first, end = index.firsts[number : number + 2].tolist()
        expected = index.key(number)
        # Every row of an index with keys is one sample; without keys the neighbouring members have to be checked, too.
        before, after = (0, 0) if expected is not None else (min(first, 1), min(len(index.offsets) - end, 1))
        keys = [check_gap(*gap, self.url) for gap in self._gaps_before(range(first - before, end + after), opened)]
        own = keys[before : len(keys) - after]
        for key in own:
            if key != (own[0] if expected is None else expected):
                raise stale(f"expected sample {expected or own[0]!r}, found {key!r}", self.url, start)
        if own[0] in keys[:before] + keys[len(keys) - after :]:
            raise stale(f"the index has the members of sample {own[0]!r} in two lines", self.url, start)
        return own[0]

    def _check_irregular(self, numbers: Sequence[int] | NDArray[np.int64], opened: LocalFile | Ranged) -> None:
        """Check the gaps before the members of these samples, if there are any."""
        if not self._any_irregular:
            return
        for number in [each for each in numbers if self._irregular[each]]:
            first, end = self.index.firsts[number : number + 2].tolist()
            self._check_gaps([each for each in range(first, end) if self._gaps[each] != BLOCK], opened)

    def _check_gaps(self, members: Sequence[int], opened: LocalFile | Ranged) -> None:
        for gap in self._gaps_before(members, opened):
            if not only_times_before(gap.data):
                check_gap(*gap, self.url)

    def _gaps_before(self, members: Sequence[int], opened: LocalFile | Ranged) -> list[Gap]:
        """What is stored between the members before these and their data."""
        index, extents, gaps = self.index, [], []
        for number in members:
            offset, size = int(index.offsets[number]), int(self._gaps[number])
            extents.append(Extent(index.fields[index.field_numbers[number]], offset, int(index.sizes[number])))
            # `read_members` returns the block before an extent and the extent: together they are the gap.
            gaps.append(Extent("", offset - size + BLOCK, size - BLOCK))
        fetched = opened.read_members(gaps)
        return [
            Gap(header + data, gap.offset - BLOCK, extent)
            for extent, (gap, header, data) in zip(extents, fetched, strict=True)
        ]


def read_by_shard(places: Sequence[tuple[int, int]], read: Callable[[int, list[int]], list[Any]]) -> list[Any]:
    """Return many samples in the given order, read shard by shard.

    >>> read_by_shard([(1, 0), (0, 5), (1, 2)], lambda shard, numbers: [f"{shard}.{number}" for number in numbers])
    ['1.0', '0.5', '1.2']

    Args:
        places: the shard of each sample, and its number there.
        read: reads samples of one shard.
    """
    by_shard: dict[int, list[tuple[int, int]]] = {}
    for position, (shard, inside) in enumerate(places):
        by_shard.setdefault(shard, []).append((position, inside))
    result: list[Any] = [None] * len(places)
    for shard, wanted in by_shard.items():
        samples = read(shard, [inside for _, inside in wanted])
        for (position, _), sample in zip(wanted, samples, strict=True):
            result[position] = sample
    return result


def _per_sample(members: NDArray[np.bool_], index: ShardIndex) -> NDArray[np.bool_]:
    """Which samples have one of these members."""
    return np.logical_or.reduceat(members, index.firsts[:-1]) if len(index) else np.zeros(0, bool)


def _wanted(extents: tuple[Extent, ...], fields: Sequence[str] | None) -> tuple[Extent, ...]:
    if fields is None:
        return extents
    return tuple(extent for extent in extents if extent.field.lower() in fields)


def _plain(members: list[Member], stem: bytes) -> bool:
    """Whether all headers are plainly those of the members that the index describes."""
    for extent, header, _ in members:
        if not header_fits(header, stem + extent.field.encode("utf-8", "surrogateescape"), extent.size):
            return False
    return True
