"""Check that an index describes its shard: when the shard is first used, and again for every member that is read.

An index contains the offset, the name and the size of every member. The archive contains all of that too, so the index
need not be trusted:

* after the last indexed member there is no further sample;
* before the data of every member is its header, with its name and its size;
* between two indexed members there is nothing but that header: the largest gaps are read when a shard is opened, every
  other gap that is larger than a header together with the sample after it;
* the members of a line of the index have one key, and the lines next to it others.

An index that passes gives correct samples, however and whenever it was made; any other is a `StaleIndex` error.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from webdataset import stores, tar
from webdataset.errors import BadHeader, FormatError, StaleIndex, TruncatedShard, Where
from webdataset.tar import BLOCK

from ._shard_index import Extent, Ints, ShardIndex, padded
from ._split_names import sample_and_field

# Zeros that may follow an archive's end: GNU tar fills up records of 10,240 bytes, tapes use records of up to 1 MiB.
_LONGEST_END = 1 << 20

# How many gaps between members are read when a shard is opened. The others are read together with their sample.
_CHECKED_AT_ONCE = 64
_FILES = frozenset({b"0", b"\0", b"7"})

Read = Callable[[int, int], bytes]


def check_end(index: ShardIndex, size: int, read: Read, url: str) -> None:
    """Refuse an index that does not reach to the end of its shard.

    >>> from ._build_index import build
    >>> index = build([("a.txt", 512, 3)])
    >>> check_end(index, 2048, lambda start, length: bytes(length), "a.tar")
    >>> check_end(index, 1000, lambda start, length: bytes(length), "a.tar")
    Traceback (most recent call last):
    webdataset.errors.StaleIndex: the index describes 1024 bytes, the shard has 1000 – a.tar – the shard is ...
    """
    end, rest = index.end, size - index.end
    if rest < 0:
        raise StaleIndex(
            f"the index describes {end} bytes, the shard has {size}",
            Where(shard=url),
            hint="the shard is truncated: fetch it again; if it was replaced, build its index again",
        )
    if (rest > _LONGEST_END or any(read(end, rest))) and _holds_samples(url, end):
        raise stale(f"the shard has more samples after byte {end}, where the index ends", url, offset=end)


def _holds_samples(url: str, start: int) -> bool:
    """Whether samples follow, and not only directories, hidden files and other members that belong to no sample."""
    with stores.open_read(url, start=start) as stream:
        try:
            return any(sample_and_field(member.name) for member in tar.read_members(stream, start=start))
        except FormatError:
            return True


class Gap(NamedTuple):
    """What an archive holds between the end of one indexed member and the data of the next."""

    data: bytes
    start: int
    extent: Extent  # of the member after it


def gap_sizes(index: ShardIndex) -> Ints:
    """The bytes before the data of each member: those of its header, if nothing is missing in the index.

    >>> from ._build_index import build
    >>> gap_sizes(build([("a.txt", 512, 3), ("b.txt", 2560, 3)]))
    array([ 512, 1536])
    """
    ends = index.offsets[:-1] + index.sizes[:-1]
    before = np.concatenate([np.zeros(1, np.int64), -(-ends // BLOCK) * BLOCK])
    gaps: Ints = index.offsets - before[: len(index.offsets)]
    return gaps


def suspicious_gaps(gaps: Ints) -> list[int]:
    """The members before whose data something may be missing in the index: the largest of the unusual gaps.

    >>> suspicious_gaps(np.array([512, 512, 1536, 512]))
    [2]
    """
    sizes, counts = np.unique(gaps, return_counts=True)
    usual = sizes[counts.argmax()] if len(sizes) else BLOCK
    unusual = np.flatnonzero((gaps != BLOCK) & (gaps != usual))
    largest = unusual[np.argsort(gaps[unusual])[::-1][:_CHECKED_AT_ONCE]]
    return [int(number) for number in largest]


def check_gap(gap: bytes, start: int, extent: Extent, url: str) -> str:
    """The key of the member whose data follow a gap; an error if the index does not list what is in the gap.

    >>> import tarfile
    >>> info = tarfile.TarInfo("a.txt")
    >>> check_gap(info.tobuf(), 0, Extent("txt", 512, 0), "a.tar")
    'a'
    >>> check_gap(info.tobuf() * 2, 0, Extent("txt", 1024, 0), "a.tar")
    Traceback (most recent call last):
    webdataset.errors.StaleIndex: the index does not list the member a.txt – a.tar, byte 0 – ...
    """
    position = start
    try:
        for header, at in tar.read_headers(gap, start):
            split = sample_and_field(header.name) if header.kind in _FILES else None
            if at == extent.offset and header.size == extent.size and split is not None and split[1] == extent.field:
                return split[0]
            if split is not None:
                raise stale(f"the index does not list the member {header.name}", url, position)
            position = at + padded(header.size)
    except (BadHeader, TruncatedShard) as error:
        raise stale(f"expected a member .{extent.field} at this offset", url, extent.offset) from error
    raise stale(f"expected a member .{extent.field} at this offset", url, extent.offset)


def only_times_before(gap: bytes) -> bool:
    """Whether a gap is a PAX header with times alone, and a header: what the public library's writer writes."""
    if len(gap) != 3 * BLOCK or gap[156] != ord("x") or gap[124:132] != b"00000000":
        return False
    size = gap[132:135]
    return size.isdigit() and tar.only_times(gap[BLOCK : BLOCK + int(size, 8)])


def header_fits(block: bytes, name: bytes, size: int) -> bool:
    """Whether a header block is plainly that of a member; False means look more closely.

    >>> import tarfile
    >>> info = tarfile.TarInfo("a.txt")
    >>> info.size = 3
    >>> header_fits(info.tobuf(), b"a.txt", 3), header_fits(info.tobuf(), b"a.txt", 4)
    (True, False)
    """
    return (
        len(name) < 100
        and block.startswith(name)
        and block[len(name)] == 0
        and block[124:135] == b"%011o" % size
        and len(block) == BLOCK
    )


def stale(what: str, url: str, offset: int | None = None) -> StaleIndex:
    """Return the error, with a hint."""
    return StaleIndex(what, Where(shard=url, offset=offset), hint="delete the index and build it again")
