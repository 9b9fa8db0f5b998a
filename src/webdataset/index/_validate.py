"""Does this index describe this shard? Asked when a shard is first used, and again for every member that is read.

An index says where members lie, what they are called and how long they are. All of that is written in the archive too,
so nothing has to be believed: behind the last indexed member there must be no further sample, and before every member's
data its header, with its name and its size. Whatever passes both is read correctly, whenever and by whom the index was
made; whatever does not is `StaleIndex`.
"""

from __future__ import annotations

from collections.abc import Callable

from webdataset import stores, tar
from webdataset.errors import FormatError, StaleIndex, Where
from webdataset.tar import BLOCK

from ._member_names import sample_and_field
from ._shard_index import ShardIndex

# Zeros that may follow an archive's end: GNU tar fills up records of 10,240 bytes, tapes use records of up to 1 MiB.
_LONGEST_END = 1 << 20

Read = Callable[[int, int], bytes]


def check_end(index: ShardIndex, size: int, read: Read, url: str) -> None:
    """Refuse an index that does not reach to the end of its shard.

    >>> from ._build_index import build
    >>> index = build([("a.txt", 512, 3)])
    >>> check_end(index, 2048, lambda start, length: bytes(length), "a.tar")
    >>> check_end(index, 1000, lambda start, length: bytes(length), "a.tar")
    Traceback (most recent call last):
    webdataset.errors.StaleIndex: the index describes 1024 bytes, the shard has 1000 – a.tar – delete the index ...
    """
    end, rest = index.end, size - index.end
    if rest < 0:
        raise stale(f"the index describes {end} bytes, the shard has {size}", url)
    if (rest > _LONGEST_END or any(read(end, rest))) and _holds_samples(url, end):
        raise stale(f"the shard goes on behind byte {end}, where the index ends", url, offset=end)


def _holds_samples(url: str, start: int) -> bool:
    """Whether anything but directories, hidden files and the like follows."""
    with stores.open_read(url, start=start) as stream:
        try:
            return any(sample_and_field(member.name) for member in tar.read_members(stream, start=start))
        except FormatError:
            return True


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
    """The error, with its remedy."""
    return StaleIndex(what, Where(shard=url, offset=offset), hint="delete the index and build it again")
