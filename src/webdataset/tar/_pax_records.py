r"""Extended headers: PAX records, and the rule by which they and GNU long names change the next header.

A record is `LENGTH KEYWORD=VALUE\n`; the length counts the whole record, itself included.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from webdataset.errors import BadHeader, UnsupportedMember, Where

from ._parse_header import Header

# An extension is held in memory before it is understood. Paths end at 4 kB and extended attributes at 64 kB on Linux.
# The limit holds for all extensions of a member together, and for all global records of an archive.
LONGEST_EXTENSION = 1 << 20

_LENGTH = re.compile(rb"([1-9][0-9]{0,8}) ")
_ONLY_TIMES = re.compile(rb"(?:\d+ [amc]time=-?[\d.]+\n)+")


def parse_pax(records: bytes, offset: int = 0) -> dict[str, str]:
    r"""Keywords and values; an empty value cancels the keyword.

    >>> parse_pax(b"18 path=long/a.txt\n"[:18] + b"\n")
    Traceback (most recent call last):
    webdataset.errors.BadHeader: a PAX record has a wrong length – byte 0 – ...
    >>> parse_pax(b"19 path=long/a.txt\n")
    {'path': 'long/a.txt'}
    """
    found: dict[str, str] = {}
    at, end = 0, len(records)
    while at < end and records[at]:  # some writers pad with NULs inside the stated size
        match = _LENGTH.match(records, at)
        stop = at + int(match[1]) if match else 0
        if match is None or stop > end or stop <= match.end() or records[stop - 1] != 0x0A:
            raise _damaged("a PAX record has a wrong length", offset)
        keyword, equals, value = records[match.end() : stop - 1].partition(b"=")
        if not equals:
            raise _damaged("a PAX record has no value", offset)
        # hdrcharset=BINARY announces values that are not UTF-8; surrogates carry any byte, so it can be ignored.
        found[keyword.decode("utf-8", "surrogateescape")] = value.decode("utf-8", "surrogateescape")
        at = stop
    return found


def only_times(records: bytes) -> bool:
    r"""Whether these PAX records contain times only, which change neither name nor size nor offset of a member.

    The public library's own writer puts such a header before every member (a fractional mtime), so this
    is called often.

    >>> only_times(b"27 mtime=1700000000.123456\n"), only_times(b"19 path=long/a.txt\n")
    (True, False)
    """
    if not _ONLY_TIMES.fullmatch(records):
        return False
    return all(int(line.partition(b" ")[0]) == len(line) + 1 for line in records[:-1].split(b"\n"))


def apply(header: Header, changes: Mapping[str, str], offset: int) -> Header:
    """The header as its extensions change it.

    >>> from ._parse_header import Header
    >>> apply(Header("short", 1, b"0", ""), {"path": "long/a.txt", "size": "12"}, 0)
    Header(name='long/a.txt', size=12, kind=b'0', link='')
    """
    if any(keyword.startswith("GNU.sparse.") for keyword in changes):
        raise sparse(changes.get("GNU.sparse.name") or changes.get("path") or header.name, offset)
    name = changes.get("path") or header.name
    size = changes.get("size")
    if size and not (size.isascii() and size.isdigit() and len(size) < 20):
        raise _damaged(f"expected a size in a PAX record, got {size!r}", offset)
    return header._replace(
        name=name, size=int(size) if size else header.size, link=changes.get("linkpath") or header.link
    )


def matters(changes: Mapping[str, str]) -> dict[str, str]:
    """Those that change how a later member is read. There may be 100,000 others: nothing is done with them per member.

    >>> matters({"comment": "made by git", "path": "a.txt"})
    {'path': 'a.txt'}
    """
    return {
        keyword: value
        for keyword, value in changes.items()
        if keyword in {"path", "size", "linkpath"} or keyword.startswith("GNU.sparse.")
    }


def sparse(name: str, offset: int) -> UnsupportedMember:
    """The error for a sparse file, of either dialect."""
    return UnsupportedMember(
        "this member is a sparse file",
        Where(member=name, offset=offset),
        hint="write the archive again without `tar --sparse`",
    )


def _damaged(what: str, offset: int) -> BadHeader:
    return BadHeader(what, Where(offset=offset), hint="the shard is damaged; fetch or write it again")
