"""HTTP Range: parts of a field, read from its offset in the shard, a megabyte at a time."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from typing import NamedTuple

from webdataset import stores
from webdataset.errors import SpecError
from webdataset.index import ReadsRanges

_PORTION = 1 << 20


class Part(NamedTuple):
    """Bytes of a field, from `first` to before `stop`."""

    first: int
    stop: int


class NotSatisfiable(SpecError):
    """The field has no such bytes."""


def asked_part(header: str | None, size: int) -> Part | None:
    """The part that a `Range` header requests; None for the whole field.

    >>> asked_part("bytes=2-3", 10), asked_part("bytes=-4", 10), asked_part("bytes=8-", 10), asked_part(None, 10)
    (Part(first=2, stop=4), Part(first=6, stop=10), Part(first=8, stop=10), None)
    """
    found = re.fullmatch(r"bytes=(\d{0,18})-(\d{0,18})", (header or "").strip())
    if found is None or not (found[1] or found[2]):
        return None  # several parts or another unit: the whole is a correct answer
    if not found[1]:
        return Part(max(0, size - int(found[2])), size)
    first = int(found[1])
    stop = min(int(found[2]) + 1, size) if found[2] else size
    if first >= size or stop <= first:
        raise NotSatisfiable(f"expected a range in {size} bytes, got {header!r}")
    return Part(first, stop)


def portions(source: ReadsRanges, offset: int, part: Part, ending: threading.Event) -> Iterator[bytes]:
    """The bytes of a part, a portion at a time: a field may be larger than memory. Setting the event cancels it."""
    for start in range(part.first, part.stop, _PORTION):
        with stores.abandonable(ending):
            data = source.read(offset + start, min(_PORTION, part.stop - start))
        yield data
