"""Header blocks of the members that we write.

The simplest dialect that can represent a member is used, because most readers understand it: ustar (with its `prefix`
field for long paths), then GNU (longer names, sizes of 8 GiB and more), and PAX only for owners whose names are too
long for both. The same arguments always give the same bytes.
"""

from __future__ import annotations

import tarfile
from functools import lru_cache
from typing import Final, NamedTuple

from webdataset.errors import EncodingError, SpecError, Where

END_OF_ARCHIVE: Final = bytes(1024)

# The numbers that `tarfile` gives to the formats.
_NUMBERED: Final = {tarfile.USTAR_FORMAT: "ustar", tarfile.GNU_FORMAT: "gnu", tarfile.PAX_FORMAT: "pax"}
_MAGIC: Final = {"ustar": b"ustar\x0000", "gnu": b"ustar  \x00"}
_ZEROS: Final = bytes(512)
_NAME: Final = 100  # bytes in the header's name field
_PREFIX: Final = 155  # bytes in its prefix field
_OWNER: Final = 31  # bytes of a user or group name, before the closing zero
_MAX_OCTAL: Final = 8**11 - 1  # eleven octal digits: 8 GiB - 1, or a time in the year 2242
_MAX_ID: Final = 8**7 - 1


class _Owner(NamedTuple):
    """What the members of one archive have in common."""

    mode: int = 0
    mtime: int = 0
    uid: int = 0
    gid: int = 0
    uname: str = ""
    gname: str = ""


class _Template(NamedTuple):
    """A header without name, size and prefix, cut at their positions; `checksum` is the sum of these parts."""

    before_size: bytes
    mtime: bytes
    after_checksum: bytes
    checksum: int

    def fill(self, name: bytes, size: bytes, prefix: bytes = b"") -> bytes:
        """The 512 bytes."""
        checksum = self.checksum + sum(name) + sum(size) + sum(prefix)
        return b"".join(
            (
                name.ljust(_NAME, b"\0"),
                self.before_size,
                size,
                self.mtime,
                b"%06o\0 " % checksum,
                self.after_checksum,
                prefix.ljust(_PREFIX + 12, b"\0"),
            )
        )


def padding(size: int) -> bytes:
    """The zeros that fill a payload up to whole blocks.

    >>> len(padding(1)), len(padding(512)), len(padding(513))
    (511, 0, 511)
    """
    return _ZEROS[: -size % 512]


def encode_header(
    name: str,
    size: int,
    *,
    mode: int = 0o444,
    mtime: int = 0,
    uid: int = 0,
    gid: int = 0,
    uname: str = "",
    gname: str = "",
    format: str | int | None = None,  # noqa: A002 - the name that tarfile and the public writer give it
) -> bytes:
    r"""All header blocks of one regular file; its payload and `padding(size)` follow.

    >>> header = encode_header("a.txt", 5)
    >>> len(header), header[:5], header[257:263]
    (512, b'a.txt', b'ustar\x00')
    >>> [len(encode_header("d/" * 100 + "a.txt", 5, format=dialect)) for dialect in (None, "gnu", "pax")]
    [512, 1536, 1536]
    >>> [len(encode_header("d" * 200 + ".txt", 5, format=dialect)) for dialect in (None, "gnu", "pax")]
    [1536, 1536, 1536]

    The name is written as UTF-8; bytes that were no UTF-8 when they were read come out again. `format` is "ustar",
    "gnu", "pax" or the number that `tarfile` gives it; None takes the plainest that fits.
    """
    path = _encode_path(name)
    if format is None and len(path) <= _NAME and 0 <= size <= _MAX_OCTAL:
        # The fast path for nearly every member: benchmarks/write.py.
        template = _ustar_template((mode, mtime, uid, gid, uname, gname))
        if template is not None:
            return template.fill(path, b"%011o\0" % size)
    if size < 0:
        raise SpecError(f"expected a size of at least 0, got {size}", Where(member=name))
    owner = _Owner(mode, mtime, uid, gid, uname, gname)
    dialect = _find_dialect(path, size, owner, format)
    if dialect == "gnu":
        return _encode_gnu(path, size, owner)
    if dialect == "pax":
        return _encode_pax(path, size, owner)
    prefix, rest = _split_path(path) or (b"", path)
    return _build_template(owner, "ustar", b"0").fill(rest, _number(size, 12), prefix)


def encode_member(name: str, data: bytes) -> bytes:
    """One regular file: header blocks, payload and padding.

    >>> len(encode_member("a.txt", b"abc"))
    1024
    """
    return encode_header(name, len(data)) + data + padding(len(data))


def _encode_path(name: str) -> bytes:
    try:
        path = name.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError as error:
        raise EncodingError(
            "the name is not valid Unicode", Where(member=ascii(name)), hint="choose another key or field name"
        ) from error
    if not path or path[-1] == 47 or 0 in path:
        raise EncodingError(
            "a file in a tar archive cannot have this name",
            Where(member=repr(name)),
            hint="a name must not be empty, end in '/' or contain a zero byte",
        )
    return path


def _find_dialect(path: bytes, size: int, owner: _Owner, format: str | int | None) -> str:  # noqa: A002 - as above
    wanted = _NUMBERED.get(format, format) if isinstance(format, int) else format
    if wanted not in (None, *_NUMBERED.values()):
        raise SpecError(f"format={format!r}: expected 'ustar', 'gnu', 'pax', tarfile's number for one of them, or None")
    _check(owner)
    short = _has_short_names(owner)
    plain = short and size <= _MAX_OCTAL and max(owner.uid, owner.gid) <= _MAX_ID and _split_path(path) is not None
    possible = {"ustar": plain, "gnu": short, "pax": True}
    if wanted is None:
        return next(dialect for dialect in possible if possible[dialect])
    if not possible[wanted]:
        raise EncodingError(
            f"the {wanted} format cannot represent this name, size or owner",
            Where(member=path.decode("utf-8", "replace")),
            hint="leave out format=; then the simplest format that can is used",
        )
    return wanted


def _check(owner: _Owner) -> None:
    limits = {"mode": 0o7777, "mtime": _MAX_OCTAL, "uid": 2**31, "gid": 2**31}
    for name, limit in limits.items():
        value = getattr(owner, name)
        if not isinstance(value, int) or not 0 <= value <= limit:
            raise SpecError(f"{name}={value!r} cannot be written", hint=f"use an integer from 0 to {limit}")
    for name in ("uname", "gname"):
        value = getattr(owner, name)
        if not isinstance(value, str) or "\0" in value:
            raise SpecError(f"{name}={value!r} is not a valid user or group name", hint="give text without NULs")


def _has_short_names(owner: _Owner) -> bool:
    return len(owner.uname.encode()) <= _OWNER and len(owner.gname.encode()) <= _OWNER


def _split_path(path: bytes) -> tuple[bytes, bytes] | None:
    """(prefix, name) for ustar's two fields, or None when the path does not fit."""
    if len(path) <= _NAME:
        return b"", path
    cut = path.find(b"/", max(len(path) - _NAME - 1, 1))
    return (path[:cut], path[cut + 1 :]) if 0 < cut <= _PREFIX else None


@lru_cache(maxsize=64)
def _ustar_template(shared: tuple[int, int, int, int, str, str]) -> _Template | None:
    owner = _Owner(*shared)
    _check(owner)
    fits = max(owner.uid, owner.gid) <= _MAX_ID and _has_short_names(owner)
    return _build_template(owner, "ustar", b"0") if fits else None


def _build_template(owner: _Owner, dialect: str, kind: bytes) -> _Template:
    before_size = _number(owner.mode, 8) + _number(owner.uid, 8) + _number(owner.gid, 8)
    mtime = _number(owner.mtime, 12)
    names = owner.uname.encode().ljust(_OWNER + 1, b"\0") + owner.gname.encode().ljust(_OWNER + 1, b"\0")
    after = kind + bytes(100) + _MAGIC[dialect] + names + bytes(16)  # no link, no device
    blank_checksum = 8 * ord(" ")
    return _Template(before_size, mtime, after, sum(before_size) + sum(mtime) + sum(after) + blank_checksum)


def _number(value: int, width: int) -> bytes:
    """Octal digits, or GNU's base-256 for numbers with more digits than the field has."""
    if value < 8 ** (width - 1):
        return b"%0*o\0" % (width - 1, value)
    return b"\x80" + value.to_bytes(width - 1, "big")


def _encode_gnu(path: bytes, size: int, owner: _Owner) -> bytes:
    header = _build_template(owner, "gnu", b"0").fill(path[:_NAME], _number(size, 12))
    if len(path) <= _NAME:
        return header
    body = path + b"\0"
    described = _build_template(_Owner(mode=0o644), "gnu", b"L").fill(b"././@LongLink", _number(len(body), 12))
    return described + body + padding(len(body)) + header


def _encode_pax(path: bytes, size: int, owner: _Owner) -> bytes:
    """As the standard library writes it: this is rare."""
    try:
        info = tarfile.TarInfo(path.decode())
    except UnicodeDecodeError as error:
        raise EncodingError(
            "PAX names are UTF-8 and this one is not", Where(member=repr(path)), hint="rename it, or leave out format="
        ) from error
    info.size = size
    for name, value in owner._asdict().items():
        setattr(info, name, value)
    return info.tobuf(tarfile.PAX_FORMAT)
