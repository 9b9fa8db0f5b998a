"""How an index differs from the shard that it should describe."""

from __future__ import annotations

from collections.abc import Iterable

from webdataset.index import Extent, ShardIndex


def index_difference(stored: ShardIndex, built: ShardIndex) -> str | None:
    """How an index differs from the shard it should describe; None if it does not.

    >>> from webdataset.index import build
    >>> index_difference(build([("a.txt", 512, 3)]), build([("a.txt", 512, 4)]))
    "the index says txt at byte 512 with 3 bytes for sample 'a', the shard has txt at byte 512 with 4 bytes"
    """
    if len(stored) != len(built):
        return f"the index has {len(stored):,} samples, the shard has {len(built):,}"
    for number, (said, found) in enumerate(zip(stored.rows(), built.rows(), strict=True)):
        key = built.key(number)
        if stored.key(number) not in {None, key}:
            return f"the index says sample {stored.key(number)!r} where the shard has {key!r}"
        if said != found:
            return f"the index says {_extents(said)} for sample {key!r}, the shard has {_extents(found)}"
    return None


def _extents(extents: Iterable[Extent]) -> str:
    return ", ".join(f"{each.field} at byte {each.offset} with {each.size} bytes" for each in extents)
