"""A damaged archive → everything in it that can still be read, and everything that is wrong with it.

`_read_members` stops at the first fault, as training should. This reader goes on: it reports the damage and continues
at the next header whose checksum is right, wherever that is. It reads one member at a time, so it needs as much memory
as the largest member.

After a damaged header it first goes to the offset that the header's own size field leads to. If no header is there,
it searches byte by byte: bytes that are missing or added move everything after them away from multiples of 512.
"""

from __future__ import annotations

import io
from collections.abc import Iterator

from webdataset.decompress import Unpacked, find_compression
from webdataset.errors import BadHeader, TruncatedShard, UnsupportedMember

from ._byte_window import WINDOW, Readable
from ._damage import Damage, DamageKind, Surveyed
from ._extended_headers import Extensions
from ._parse_header import (
    BLOCK,
    GNU_LONG_LINK,
    GNU_LONG_NAME,
    PAX_GLOBAL,
    PAX_NEXT,
    SPARSE,
    WITHOUT_PAYLOAD,
    ZEROS,
    Header,
    parse_header,
    parse_number,
)
from ._rewindable_bytes import HeldBytes

_MAGIC = b"ustar"
_MAGIC_AT = 257
# The size field of a damaged header is followed this far; a larger one is more likely part of the damage.
_BELIEVED = 1 << 30
_EXTENSIONS = PAX_NEXT | {PAX_GLOBAL, GNU_LONG_NAME, GNU_LONG_LINK}


def survey(stream: Readable | bytes) -> Iterator[Surveyed | Damage]:
    """The members of an archive that can be read, and the damage between them, in the order of the archive.

    >>> import tarfile
    >>> block = tarfile.TarInfo("a.txt").tobuf()
    >>> for found in survey(b"X" + block[1:] + block):
    ...     print(found.offset, getattr(found, "what", found))
    0 the header's checksum does not match
    512 Surveyed(name='a.txt', offset=512, data_offset=1024, kind=b'0', link='', data=b'', gnu_long=False)
    1024 the archive ends without an end-of-archive mark
    """
    if isinstance(stream, bytes | bytearray | memoryview):
        stream = io.BytesIO(stream)
    source = HeldBytes(stream)
    kind = find_compression(source.peek(BLOCK))
    if kind is not None:
        source = HeldBytes(Unpacked(source, kind))
    return _Survey(source).run()


class _Survey:
    """One survey of one archive."""

    def __init__(self, source: HeldBytes) -> None:
        self._source = source
        self._extensions = Extensions(source)
        self._cut = False  # the end was reported already, inside something
        self._nameless = False  # the extended header of the next member, which may hold its name, is damaged

    def run(self) -> Iterator[Surveyed | Damage]:
        source, zeros = self._source, 0
        while True:
            source.forget()
            block = source.peek(BLOCK)
            if block == ZEROS:
                zeros += 1
                source.skip(BLOCK)
            elif len(block) < BLOCK:
                yield from self._at_end(block, zeros)
                return
            else:
                if zeros:
                    yield from self._after_zeros(block, zeros)
                zeros = 0
                yield from self._next_member()

    def _after_zeros(self, block: bytes, zeros: int) -> Iterator[Damage]:
        """What is between zeros and something that is not zero."""
        offset = self._source.offset
        if zeros == 1:
            what = "one zero block before this byte: a header was wiped out"
            yield Damage(DamageKind.WIPED_HEADER, what, offset - BLOCK)
        elif is_header(block):
            self._extensions.forget()
            what = "another archive follows the end of this one; GNU tar, tarfile and DALI stop here"
            yield Damage(DamageKind.CONCATENATED, what, offset, loses=False)
        else:
            yield Damage(DamageKind.GARBAGE, "something that is not tar follows the end of the archive", offset)
            self._cut = not self._search(offset + 1)

    def _next_member(self) -> Iterator[Surveyed | Damage]:
        start, first = self._source.offset, self._source.peek(BLOCK)
        found = self._next_header(start, first) if len(first) == BLOCK else None
        if isinstance(found, Damage):
            yield found
        elif found is not None:
            yield from self._payload(found, start, gnu_long=first[156:157] == GNU_LONG_NAME)

    def _next_header(self, start: int, first: bytes) -> Header | Damage | None:
        """The next header with its extensions, or what is wrong with it; None after a global header alone."""
        try:
            header = self._extensions.next_header()
        except UnsupportedMember:
            return self._pass_sparse(start)
        except TruncatedShard as error:
            return self._cut_extension(start, error)
        except BadHeader as error:
            return self._bad_header(start, first, error)
        if header is not None and header.kind == SPARSE:
            return self._skip_sparse(start, header.name, header.size)
        return header

    def _payload(self, header: Header, start: int, *, gnu_long: bool) -> Iterator[Surveyed | Damage]:
        source, begin = self._source, self._source.offset
        size = 0 if header.kind in WITHOUT_PAYLOAD else header.size
        damage = self._payload_damage(header.name, begin, size)
        if damage is not None:
            yield damage
            if damage.kind is not DamageKind.CUT_PADDING:
                return
        data = source.bytes_at(begin, size)
        if self._nameless:
            what = "the extended header before this member is damaged, so its name is not certain"
            yield Damage(DamageKind.BAD_EXTENSION, what, start, header.name, data=data)
        else:
            yield Surveyed(header.name, start, begin, header.kind, header.link, data, gnu_long)
        self._nameless = False
        source.rewind(min(begin + size + -size % BLOCK, source.end))

    def _payload_damage(self, name: str, begin: int, size: int) -> Damage | None:
        """Check a payload by what follows it; return the damage, if there is any."""
        source, padded = self._source, size + -size % BLOCK
        have = source.available(padded + BLOCK)
        holds_archive = self._holds_archive(begin, size, have)
        if have < size:
            doubted = source.bytes_at(begin, have)
            if not holds_archive and self._search(begin, stop=begin + have):
                return _misaligned(name, begin, doubted)
            source.rewind(begin + have)
            what = f"the archive ends after {have:,} of {size:,} bytes of the payload of {name}"
            return self._cut_off(DamageKind.CUT_PAYLOAD, what, begin + have, name)
        if have < padded and source.failure is None:
            self._cut = True
            what = f"the archive ends inside the padding of {name}"
            return Damage(DamageKind.CUT_PADDING, what, begin + have)
        if holds_archive or not size:
            return None
        if self._covers_members(begin, padded):
            return _misaligned(name, begin, source.bytes_at(begin, size))
        after = source.bytes_at(begin + padded, max(0, min(BLOCK, have - padded)))
        return None if len(after) < BLOCK or _may_be_header(after) else self._misplaced(name, begin, size)

    def _covers_members(self, begin: int, padded: int) -> bool:
        """Whether a range holds members of this archive, because bytes of its payload are missing; go to the first.

        Their headers lead from one to the next and beyond the range. Those of an archive inside a payload end in it.
        """
        source = self._source
        if not self._search(begin, stop=begin + padded):
            return False
        first = source.offset
        leads_out = self._follow_headers(first, begin + padded) >= begin + padded
        source.rewind(first if leads_out else begin)
        return leads_out

    def _holds_archive(self, begin: int, size: int, have: int) -> bool:
        """Whether a payload is an archive itself: it begins with a header, and its headers do not lead beyond it."""
        if size % BLOCK or not is_header(self._source.bytes_at(begin, min(BLOCK, have))):
            return False
        return self._follow_headers(begin, begin + min(size, have)) <= begin + size

    def _follow_headers(self, at: int, stop: int) -> int:
        """Go from header to header; return the first offset at or after `stop`, or without a header."""
        while at < stop and is_header(block := self._source.bytes_at(at, BLOCK)):
            size = parse_header(block).size
            at += BLOCK + size + -size % BLOCK
        return at

    def _misplaced(self, name: str, begin: int, size: int) -> Damage | None:
        """Find out why no header follows a payload: bytes are missing or were added, or the next header is damaged."""
        source, padded = self._source, size + -size % BLOCK
        source.available(padded + WINDOW)
        found = self._search(begin, stop=begin + padded + WINDOW)
        distance = source.offset - begin
        if found and (distance < padded or distance % BLOCK):
            return _misaligned(name, begin, source.bytes_at(begin, size))
        source.rewind(begin)
        return None

    def _pass_sparse(self, start: int) -> Damage:
        """A sparse file in PAX headers: its own header is the block that was read last."""
        header = parse_header(self._source.bytes_at(self._source.offset - BLOCK, BLOCK))
        return self._skip_sparse(start, header.name, header.size)

    def _skip_sparse(self, start: int, name: str, size: int) -> Damage:
        source = self._source
        source.available(size + BLOCK)
        source.rewind(min(source.offset + size + -size % BLOCK, source.end))
        if not _may_be_header(source.peek(BLOCK)):
            self._search(source.offset)  # GNU's own dialect has more blocks before the data
        return Damage(DamageKind.SPARSE, "this member is a sparse file", start, name)

    def _cut_extension(self, start: int, error: TruncatedShard) -> Damage:
        if self._search(start + 1):
            return Damage(DamageKind.CUT_HEADER, error.what, start)
        return self._cut_off(DamageKind.CUT_HEADER, error.what, start)

    def _cut_off(self, kind: DamageKind, what: str, offset: int, name: str | None = None) -> Damage:
        """The archive ends inside something, or its compression is damaged there."""
        self._cut = True
        failure = self._source.failure
        if failure is not None:
            cut = isinstance(failure, TruncatedShard)
            kind, what = DamageKind.CUT_COMPRESSION if cut else DamageKind.BAD_COMPRESSION, failure.what
        return Damage(kind, what, offset, name)

    def _bad_header(self, start: int, first: bytes, error: BadHeader) -> Damage:
        at = error.where.offset if error.where.offset is not None else start
        kind = _kind_of(first, at, error)
        block = self._source.bytes_at(at, BLOCK)
        if not self._follow_size(block, at):
            self._cut = not self._search(at + 1)
        self._nameless = _is_extension(first) and self._source.peek(BLOCK) != ZEROS
        name = block[:100].partition(b"\0")[0].decode("utf-8", "replace") if kind is DamageKind.BAD_CHECKSUM else None
        what = f"this is not a tar archive: it starts with {first[:16]!r}" if kind is DamageKind.NOT_TAR else error.what
        return Damage(kind, what, at, name)

    def _follow_size(self, block: bytes, at: int) -> bool:
        """Go to where the size field of a damaged header leads, if a header is there."""
        source, size = self._source, parse_number(block[124:136])
        if not _has_magic(block) or size is None or not 0 <= size < _BELIEVED:
            return False
        source.rewind(at + BLOCK)
        padded = size + -size % BLOCK
        have = source.available(padded + BLOCK)
        after = source.bytes_at(at + BLOCK + padded, BLOCK) if have >= padded + BLOCK else b""
        if have < padded or not (after == ZEROS or is_header(after) or have == padded):
            return False
        if not self._covers_members(at + 1, BLOCK + padded - 1):
            source.rewind(at + BLOCK + padded)
        return True

    def _search(self, start: int, stop: int | None = None) -> bool:
        """Go to the first byte from `start` on where a header with the right checksum begins; else to the end."""
        source, at = self._source, start
        while True:
            magic = source.find(_MAGIC, at + _MAGIC_AT, keep=stop is not None)
            if magic is None or (stop is not None and magic - _MAGIC_AT >= stop):
                if stop is None:
                    source.rewind(source.end)
                return False
            at = magic - _MAGIC_AT
            source.available_at(at + BLOCK)
            if is_header(source.bytes_at(at, BLOCK)):
                source.rewind(at)
                return True
            at += 1

    def _at_end(self, block: bytes, zeros: int) -> Iterator[Damage]:
        """No full block is left."""
        source = self._source
        offset = source.offset
        if source.failure is not None:
            if not self._cut:
                yield self._cut_off(DamageKind.NO_END, "", offset)
        elif not offset and not block:
            yield Damage(DamageKind.EMPTY, "the file has 0 bytes", 0)
        elif zeros >= 2 and block.strip(b"\0"):
            yield Damage(DamageKind.GARBAGE, "something that is not tar follows the end of the archive", offset)
        elif self._cut:
            return
        elif zeros < 2 and block:
            where = "a header" if offset else f"its first header: it starts with {block[:16]!r}"
            yield Damage(DamageKind.CUT_HEADER, f"the archive ends inside {where}", offset)
        elif zeros == 1:
            what = "the archive ends after one block of zeros instead of two"
            yield Damage(DamageKind.HALF_END, what, offset, loses=False)
        elif not zeros:
            yield Damage(DamageKind.NO_END, "the archive ends without an end-of-archive mark", offset)


def is_header(block: bytes) -> bool:
    """Whether a block is a header: its checksum is right, and it has a name and a size.

    >>> import tarfile
    >>> is_header(tarfile.TarInfo("a.txt").tobuf()), is_header(bytes(512))
    (True, False)
    """
    if len(block) < BLOCK or block == ZEROS:
        return False
    try:
        return bool(parse_header(block).name)
    except BadHeader:
        return False


def _has_magic(block: bytes) -> bool:
    return block[_MAGIC_AT : _MAGIC_AT + len(_MAGIC)] == _MAGIC


def _is_extension(block: bytes) -> bool:
    """Whether a damaged block was an extended header; noise may have any type."""
    named = b"PaxHeader" in block[:100] or b"@LongLink" in block[:100]
    return block[156:157] in _EXTENSIONS and (named or _has_magic(block))


def _may_be_header(block: bytes) -> bool:
    """Whether a block may be where a header is expected: it is one, is a damaged one, or ends the archive."""
    return block == ZEROS or _has_magic(block) or is_header(block)


def _misaligned(name: str, offset: int, data: bytes) -> Damage:
    what = f"bytes are missing from, or were added to, the payload of {name}: the next header is not where it belongs"
    return Damage(DamageKind.MISALIGNED, what, offset, name, data=data)


def _kind_of(first: bytes, at: int, error: BadHeader) -> DamageKind:
    if at == 0 and not _has_magic(first) and not is_header(first):
        return DamageKind.NOT_TAR
    if _is_extension(first):
        return DamageKind.BAD_EXTENSION
    checksum = "checksum" in error.what or "not a tar header" in error.what
    return DamageKind.BAD_CHECKSUM if checksum else DamageKind.BAD_HEADER
