"""All plain headers of a window at once, with NumPy: the fast twin of `_parse_header` for plain headers.

Plain as in `_header_columns`, and a regular file. A table holds every block of a window that looks like this,
whether it is a header or a payload that resembles one (a tar inside a tar). The chain of headers decides: each header
gives the offset of the next one. Parts of the chain that are in the table are runs; where the chain leaves the table,
`_read_members` goes on one by one.

One header costs about 0.4 µs here, of it 0.08 µs for the checksum; tarfile takes 25 µs.
"""

from __future__ import annotations

from bisect import bisect_left
from mmap import mmap

import numpy as np

from ._header_columns import NAME, PREFIX, TYPE, Bools, Bytes, Ints, block_sums, find_headers, plain_sizes
from ._parse_header import BLOCK, text
from ._pax_records import only_times
from ._walk_window import NOTHING, Columns

_REGULAR, _PAX = ord("0"), ord("x")


class Table:
    """The plain headers of one window: offsets of members in the archive, payloads in the window, as columns.

    The window's first header is at `origin` in it, and its first byte at `base` in the archive; it ends at `end`.

    >>> import io, tarfile
    >>> archive = io.BytesIO()
    >>> with tarfile.open(fileobj=archive, mode="w", format=tarfile.USTAR_FORMAT) as tar:
    ...     for name in ("a.txt", "b.txt"):
    ...         tar.addfile(tarfile.TarInfo(name))
    >>> Table(archive.getvalue()).run_from(512)
    (['b.txt'], [512], [1024], [1024])
    """

    __slots__ = ("_breaks", "names", "offsets", "starts", "stops")

    def __init__(self, window: bytes | mmap, origin: int = 0, base: int = 0, end: int | None = None) -> None:
        end = len(window) if end is None else end
        count = (end - origin) // BLOCK
        found = find_headers(window, origin, count)
        blocks = np.frombuffer(window, np.uint8, count * BLOCK, origin).reshape(count, BLOCK)
        rows = blocks.take(found, axis=0)
        sizes, plain = plain_sizes(rows, block_sums(rows))
        plain &= ((rows[:, TYPE] == _REGULAR) | (rows[:, TYPE] == _PAX)) & (rows[:, PREFIX] == 0)
        if not plain.all():
            found, rows, sizes = found[plain], rows[plain], sizes[plain]
        at = origin + found * BLOCK
        ends = at + BLOCK + (sizes + BLOCK - 1 & -BLOCK)
        offsets = at
        pax = rows[:, TYPE] == _PAX
        if pax.any():
            offsets = _starts_with_times(window, at, sizes, ends, pax)
        keep = ~pax & (ends <= end)
        fields = rows[:, NAME]
        if not keep.all():  # nearly always: the last member of a window reaches beyond it
            at, offsets, ends, fields, sizes = at[keep], offsets[keep], ends[keep], fields[keep], sizes[keep]
        self.names = _names(fields)
        self.offsets: list[int] = (base + offsets).tolist()
        self.starts: list[int] = (at + BLOCK).tolist()
        self.stops: list[int] = (at + BLOCK + sizes).tolist()
        # The rows after which the chain does not go on with the next row.
        self._breaks: list[int] = np.flatnonzero(ends[:-1] != offsets[1:]).tolist()

    def run_from(self, offset: int) -> Columns:
        """The part of the chain that begins at this offset; nothing if there is no plain header."""
        first = bisect_left(self.offsets, offset)
        if first == len(self.offsets) or self.offsets[first] != offset:
            return NOTHING
        last = bisect_left(self._breaks, first)
        end = self._breaks[last] + 1 if last < len(self._breaks) else len(self.offsets)
        columns = self.names, self.offsets, self.starts, self.stops
        if end - first == len(self.names):
            return columns
        names, offsets, starts, stops = columns
        return names[first:end], offsets[first:end], starts[first:end], stops[first:end]


def _starts_with_times(window: bytes | mmap, at: Ints, sizes: Ints, ends: Ints, pax: Bools) -> Ints:
    """Where each member begins if a PAX header with times only is before it."""
    offsets = at.copy()
    for row in np.flatnonzero(pax[:-1] & ~pax[1:] & (ends[:-1] == at[1:])).tolist():
        start = int(at[row]) + BLOCK
        if only_times(window[start : start + int(sizes[row])]):
            offsets[row + 1] = at[row]
    return offsets


def _names(fields: Bytes) -> list[str]:
    width = int(np.flatnonzero(np.bitwise_or.reduce(fields, axis=0)).max(initial=0)) + 1
    padded = np.zeros((len(fields), width + 1), np.uint8)
    padded[:, :width] = fields[:, :width]
    # All names decoded at once and cut at their NULs: 0.07 µs each instead of 0.25.
    names = list(filter(None, padded.tobytes().decode("utf-8", "surrogateescape").split("\0")))
    if len(names) != len(fields):  # there is something after the NUL of a name
        names = [text(field.tobytes()) for field in fields]
    return names
