"""One 512-byte header block → `Header`: every dialect, step by step. `_scan_window` is its fast twin."""

from __future__ import annotations

import zlib
from typing import NamedTuple

from webdataset.errors import BadHeader, Where

BLOCK = 512
ZEROS = bytes(BLOCK)

# What the type flag says about the payload. Links, devices and directories (1–6) have none, whatever their size field
# says; that is how tarfile reads them.
REGULAR = frozenset({b"0", b"\0", b"7"})
WITHOUT_PAYLOAD = frozenset({b"1", b"2", b"3", b"4", b"5", b"6"})
LINKS = frozenset({b"1", b"2"})
GNU_LONG_NAME, GNU_LONG_LINK = b"L", b"K"
PAX_GLOBAL = b"g"
PAX_NEXT = frozenset({b"x", b"X"})  # X is what Solaris wrote before the standard
SPARSE, CONTINUED = b"S", b"M"

_OCTAL = frozenset(b"01234567")
_POSIX_MAGIC = b"ustar\0"


class Header(NamedTuple):
    """What a header block says about the member that follows it.

    >>> Header(name="a.txt", size=3, kind=b"0", link="")
    Header(name='a.txt', size=3, kind=b'0', link='')
    """

    name: str
    size: int
    kind: bytes
    link: str


def parse_header(block: bytes, offset: int = 0) -> Header:
    """Read one header block, its checksum verified first.

    >>> import tarfile
    >>> block = tarfile.TarInfo("a.txt").tobuf()[:512]
    >>> parse_header(block)
    Header(name='a.txt', size=0, kind=b'0', link='')
    >>> parse_header(b"A" + block[1:], offset=1536)
    Traceback (most recent call last):
    webdataset.errors.BadHeader: the header's checksum does not match – byte 1536 – ...

    `offset` is the block's offset in the archive, for messages.
    """
    _verify_checksum(block, offset)
    name = text(block[:100])
    kind = block[156:157]
    if block[257:263] == _POSIX_MAGIC and block[345]:
        # GNU headers keep times where POSIX keeps the first part of long names, so the magic decides.
        name = f"{text(block[345:500])}/{name}"
    return Header(name, _parse_size(block[124:136], offset), kind, text(block[157:257]))


def text(field: bytes) -> str:
    """The text of a header field: up to its first NUL, as UTF-8; other bytes survive as surrogates, as in tarfile.

    >>> text(b"a.txt" + bytes(95))
    'a.txt'
    """
    return field.partition(b"\0")[0].decode("utf-8", "surrogateescape")


def parse_number(field: bytes) -> int | None:
    """A numeric header field, octal or base-256; None when it is neither.

    >>> parse_number(b"00000000017" + bytes(1)), parse_number(bytes([0x80, 0, 0, 17])), parse_number(b"17 apples")
    (15, 17, None)
    """
    if field[0] in {0x80, 0xFF}:
        value = int.from_bytes(field[1:], "big")
        return value if field[0] == 0x80 else value - (1 << 8 * (len(field) - 1))
    digits = field.partition(b"\0")[0].strip()
    if not _OCTAL.issuperset(digits):
        return None
    return int(digits or b"0", 8)


def _parse_size(field: bytes, offset: int) -> int:
    size = parse_number(field)
    if size is None or size < 0:
        raise BadHeader(
            f"expected a size in the header, got {field!r}",
            Where(offset=offset),
            hint="the shard is damaged or was written by a faulty program; write it again",
        )
    return size


def _verify_checksum(block: bytes, offset: int) -> None:
    stored = parse_number(block[148:156])
    rest = block[:148] + b"        " + block[156:]
    if stored is not None and stored == byte_sum(rest):
        return
    # Some historic programs summed signed bytes: each byte from 0x80 up counts 256 less.
    if stored is not None and stored == byte_sum(rest) - 256 * sum(byte >> 7 for byte in rest):
        return
    raise BadHeader(
        "the header's checksum does not match" if stored is not None else "this is not a tar header",
        Where(offset=offset),
        hint="the shard is damaged or not a tar archive; fetch or write it again",
    )


def byte_sum(block: bytes) -> int:
    """The sum of a block's bytes, in 0.3 µs instead of the 2.5 µs of `sum`.

    >>> byte_sum(bytes([255]) * 512) == 512 * 255
    True

    Adler-32's low half is 1 + the sum of the bytes modulo 65,521, which 256 bytes cannot reach.
    """
    return (zlib.adler32(block[:256]) & 0xFFFF) + (zlib.adler32(block[256:]) & 0xFFFF) - 2
