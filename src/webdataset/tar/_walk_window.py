"""Plain headers of a window one after the other: the twin of `_scan_window` for large members."""

from __future__ import annotations

from mmap import mmap

from ._parse_header import BLOCK, byte_sum, text
from ._pax_records import only_times

# Names, offsets of headers in the archive, starts and stops of payloads in the window.
Columns = tuple[list[str], list[int], list[int], list[int]]

NOTHING: Columns = ([], [], [], [])

_MAGICS = frozenset({b"ustar\x0000", b"ustar  \x00"})
_PAX = ord("x")
_KINDS = b"0x"


def walk(window: bytes | mmap, at: int, end: int, base: int = 0) -> Columns:
    """The plain members from `at` on that are in `window[:end]`, whose first byte is at `base` in the archive.

    >>> import io, tarfile
    >>> archive = io.BytesIO()
    >>> with tarfile.open(fileobj=archive, mode="w", format=tarfile.USTAR_FORMAT) as tar:
    ...     for name in ("a.txt", "b.txt"):
    ...         tar.addfile(tarfile.TarInfo(name))
    >>> walk(archive.getvalue(), 0, 1024)
    (['a.txt', 'b.txt'], [0, 512], [512, 1024], [512, 1024])
    """
    names: list[str] = []
    offsets: list[int] = []
    starts: list[int] = []
    stops: list[int] = []
    first = at  # of the headers of a member
    while at + BLOCK <= end:
        block = window[at : at + BLOCK]
        size = _plain_size(block)
        if size is None:
            break
        start = at + BLOCK
        at = start + (size + BLOCK - 1 & -BLOCK)
        if at > end:
            break
        if block[156] == _PAX:
            if first != start - BLOCK or not only_times(window[start : start + size]):
                break
            continue
        names.append(text(block[:100]))
        offsets.append(base + first)
        starts.append(start)
        stops.append(start + size)
        first = at
    return names, offsets, starts, stops


def _plain_size(block: bytes) -> int | None:
    """The size of the payload, if this is a plain header (see `_scan_window`) or one of PAX records."""
    if (
        block[257:265] not in _MAGICS
        or block[156] not in _KINDS
        or not block[0]
        or block[345]
        or block[154:156] != b"\0 "
        or block[135] not in b"\0 "
    ):
        return None
    size, stored = block[124:135], block[148:154]
    if (size + stored).strip(b"01234567"):
        return None
    # The checksum counts its own field, six digits, a NUL and a blank, as eight blanks.
    return int(size, 8) if byte_sum(block) - sum(stored) + 7 * 0x20 == int(stored, 8) else None
