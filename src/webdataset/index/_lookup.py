"""One sample, or some of its fields, out of the middle of a shard."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from webdataset import tar
from webdataset.errors import DuplicateField, FormatError, ShardNotFound, SpecError, Where, located

from ._fetch_ranges import Mapped, Member, Ranged, open_bytes
from ._member_names import sample_and_field
from ._shard_index import Extent, ShardIndex, padded
from ._validate import check_end, header_fits, stale

_PACKED = (".gz", ".tgz", ".bz2", ".xz", ".zst")


class ShardReader:
    """Random access to the samples of one shard. Opened when first used; closed by `close` or with the last reference.

    >>> from webdataset import stores
    >>> from ._build_index import build_index
    >>> with stores.open_write("memory://doc-lookup/a.tar") as stream:
    ...     for name in ("a.txt", "b.txt"):
    ...         _ = stream.write(tar.encode_header(name, 3) + b"abc" + tar.padding(3))
    ...     _ = stream.write(tar.END_OF_ARCHIVE)
    >>> reader = ShardReader("memory://doc-lookup/a.tar", build_index("memory://doc-lookup/a.tar"))
    >>> reader.sample(1)
    {'__key__': 'b', '__url__': 'memory://doc-lookup/a.tar', 'txt': b'abc'}

    Args:
        url: where the shard lies.
        index: what it holds; checked against the shard on the way.
        fetch: makes a local copy of a shard that is not a local file, and returns its path.
    """

    def __init__(self, url: str, index: ShardIndex, fetch: Callable[[str], str] | None = None) -> None:
        if url.lower().endswith(_PACKED):
            raise SpecError(
                f"{url!r} is packed, and a packed shard can be read from its beginning only",
                hint="unpack it, or read it as a stream",
            )
        self.url = url
        self.index = index
        self._fetch = fetch
        self._bytes: Mapped | Ranged | None = None
        self._columns: dict[str, tuple[NDArray[np.int64], NDArray[np.int64]]] = {}

    def sample(self, number: int, fields: Sequence[str] | None = None) -> dict[str, Any]:
        """One sample, or those of its fields that are named."""
        return self.samples([number], fields)[0]

    def samples(self, numbers: Sequence[int], fields: Sequence[str] | None = None) -> list[dict[str, Any]]:
        """Several samples with as few requests as possible, in the order asked for."""
        opened = self._bytes or self._open()
        wanted = [_wanted(self.index.extents(number), fields) for number in numbers]
        if len(wanted) == 1:
            return [self._assemble(numbers[0], opened.read_members(wanted[0]), opened)]
        members = iter(opened.read_members([extent for extents in wanted for extent in extents]))
        return [
            self._assemble(number, list(islice(members, len(extents))), opened)
            for number, extents in zip(numbers, wanted, strict=True)
        ]

    def column(self, numbers: NDArray[np.int64], field: str) -> NDArray[np.uint8]:
        """The bytes of one field of several samples as a matrix; all have to be of one size.

        No step per sample, and no header is looked at: what the index says is checked against the shard's end alone.
        """
        opened = self._bytes or self._open()
        if field not in self._columns:
            with located(shard=self.url):
                self._columns[field] = self.index.column(field)
        offsets, sizes = (column[numbers] for column in self._columns[field])
        if (sizes != sizes[0]).any():
            raise FormatError(
                f"the field {field!r} is of different sizes, {sizes.min()} to {sizes.max()} bytes",
                Where(shard=self.url, field=field),
                hint="read such samples one by one",
            )
        return opened.read_rows(offsets, int(sizes[0]))

    def close(self) -> None:
        """Let go of the file; the next use opens it again."""
        if self._bytes is not None:
            self._bytes.close()
            self._bytes = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_bytes": None}

    def _open(self) -> Mapped | Ranged:
        if self._bytes is None:
            try:
                opened = open_bytes(self.url, self._fetch)
            except FileNotFoundError as error:
                raise ShardNotFound(
                    "the shard is not there", Where(shard=self.url), hint="check the path; it was indexed before"
                ) from error
            check_end(self.index, opened.size, opened.read, self.url)
            self._bytes = opened
        return self._bytes

    def _assemble(self, number: int, members: list[Member], opened: Mapped | Ranged) -> dict[str, Any]:
        key = self.index.key(number)
        if key is None or not _plain(members, f"{key}.".encode("utf-8", "surrogateescape")):
            key = self._looked_up(number, opened)
        sample: dict[str, Any] = {"__key__": key, "__url__": self.url}
        for extent, _, data in members:
            field = extent.field.lower()
            if field in sample:
                raise DuplicateField("the sample has the field twice", Where(field=field, key=key, shard=self.url))
            sample[field] = data
        if opened.path is not None:
            sample["__local_path__"] = opened.path
        return sample

    def _looked_up(self, number: int, opened: Mapped | Ranged) -> str:
        """The key of a sample from its own headers, all of them parsed and compared with the index."""
        extents = self.index.extents(number)
        start, stop = self.index.start(number), padded(extents[-1].stop)
        body = opened.read(start, stop - start) + tar.END_OF_ARCHIVE
        try:
            members = {member.data_offset: member for member in tar.read_members(body, start=start)}
        except ValueError as error:
            raise stale(f"there is no sample where the index says, at byte {start}", self.url, start) from error
        expected, key = self.index.key(number), None
        for extent in extents:
            member = members.get(extent.offset)
            split = sample_and_field(member.name) if member is not None else None
            if member is None or split is None or member.size != extent.size or split[1] != extent.field:
                raise stale(f"there is no member .{extent.field} where the index says", self.url, extent.offset)
            key = split[0]
            if expected is not None and key != expected:
                raise stale(f"sample {key!r} lies where the index says {expected!r}", self.url, extent.offset)
        return str(key)


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
