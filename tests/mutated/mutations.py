"""Bytes → other bytes: what a stranger, a broken disk or a bad network makes of a file."""

import re
import struct
import zlib

from tests.tools.faults import patched

EXTREMES = (
    0,
    1,
    2,
    127,
    128,
    255,
    256,
    0x7FFF,
    0xFFFF,
    2**24,
    2**31 - 1,
    2**31,
    2**32 - 1,
    2**62,
    2**63 - 1,
    2**64 - 1,
)
NUMBERS = (
    b"0",
    b"-1",
    b"1",
    b"3",
    b"255",
    b"65537",
    b"2147483648",
    b"999999999",
    b"9223372036854775807",
    b"1" * 30,
    b"1e308",
    b"NaN",
)


def mutated(rng, data, others):
    """The data with one to four changes, and its checksums right again in half of the cases.

    Args:
        rng: a `random.Random`.
        data: a good file.
        others: good files, of which parts are taken.
    """
    for _ in range(rng.choice((1, 1, 1, 2, 2, 4))):
        data = rng.choice(CHANGES)(rng, data, rng.choice(others))
    return with_checksums(data) if rng.random() < 0.5 else data


def _place(rng, data):
    """Headers and directories are at the start and at the end."""
    size = len(data)
    near = rng.randrange(min(size, rng.choice((16, 64, 512)))) if size else 0
    return rng.choice((near, max(0, size - 1 - near), rng.randrange(size) if size else 0))


def _range(rng, data):
    start = _place(rng, data)
    return start, min(len(data), start + rng.choice((1, 2, 4, 8, 30, 300, 3000)))


def flip(rng, data, _):
    changed = bytearray(data)
    for _ in range(rng.choice((1, 1, 3, 20)) if data else 0):
        changed[_place(rng, data)] ^= 1 << rng.randrange(8)
    return bytes(changed)


def overwrite(rng, data, _):
    at = _place(rng, data)
    return data[:at] + bytes([rng.choice((0, 1, 0x20, 0x7F, 0x80, 0xFF, rng.randrange(256)))]) + data[at + 1 :]


def cut(rng, data, _):
    return data[: _place(rng, data)]


def delete(rng, data, _):
    start, stop = _range(rng, data)
    return data[:start] + data[stop:]


def repeat(rng, data, _):
    start, stop = _range(rng, data)
    return data[:start] + data[start:stop] * rng.choice((2, 3, 50)) + data[stop:]


def insert(rng, data, _):
    at, size = _place(rng, data), rng.choice((1, 2, 8, 100, 5000))
    return data[:at] + rng.choice((bytes(size), b"\xff" * size, rng.randbytes(size))) + data[at:]


def number(rng, data, _):
    """A length, offset or count of 1, 2, 4 or 8 bytes is extreme, or one more or less."""
    width, order = rng.choice((1, 2, 4, 8)), rng.choice(("little", "big"))
    at = _place(rng, data)
    now = int.from_bytes(data[at : at + width], order)
    value = rng.choice((*EXTREMES, now + 1, now - 1, now * 2, -now)) % 256**width
    return data[:at] + value.to_bytes(width, order) + data[at + width :]


def digits(rng, data, _):
    """The same for numbers that are written as text."""
    found = list(re.finditer(rb"\d+", data[:100_000]))
    if not found:
        return data
    match = rng.choice(found)
    value = rng.choice(NUMBERS)
    if rng.random() < 0.5:  # nothing moves
        value = value[: len(match[0])].rjust(len(match[0]), b"0")
    return data[: match.start()] + value + data[match.end() :]


def splice(rng, data, other):
    """The head of one file and the tail of another one."""
    return data[: _place(rng, data)] + other[_place(rng, other) :]


def transplant(rng, data, other):
    """A part of another file in place of one of this file."""
    (start, stop), at = _range(rng, other), _place(rng, data)
    return data[:at] + other[start:stop] + data[at + (stop - start) * rng.randrange(2) :]


CHANGES = (flip, flip, overwrite, cut, delete, repeat, insert, number, number, number, digits, splice, transplant)


def with_checksums(data):
    """Checksums are no protection: whoever changes a file on purpose writes new ones."""
    if data[:8] == b"\x89PNG\r\n\x1a\n":
        return _png(data)
    if data[257:262] == b"ustar":
        return _tar(data)
    if data[:4] == b"PK\3\4":
        return _zip(data)
    if data[:4] == b"OggS":
        return _ogg(data)
    return data


def _png(data):
    at, out = 8, data[:8]
    while at + 12 <= len(data):
        stop = at + 8 + int.from_bytes(data[at : at + 4])
        out += data[at:stop] + zlib.crc32(data[at + 4 : stop]).to_bytes(4)
        at = stop + 4
    return out


def _tar(data):
    blocks = [data[at : at + 512] for at in range(0, len(data), 512)]
    return b"".join(patched(each, 0, b"", checksum=True) if each[257:262] == b"ustar" else each for each in blocks)


def _zip(data):
    changed = bytearray(data)
    for at in (match.start() for match in re.finditer(rb"PK\x01\x02", data)):
        try:
            method, packed, start = (
                *struct.unpack_from("<H", data, at + 10),
                *struct.unpack_from("<I", data, at + 20),
                *struct.unpack_from("<I", data, at + 42),
            )
            begin = start + 30 + sum(struct.unpack_from("<HH", data, start + 26))
            content = data[begin : begin + packed]
            content = zlib.decompressobj(-15).decompress(content, 10**7) if method == 8 else content
        except (struct.error, zlib.error):
            continue
        changed[at + 16 : at + 20] = changed[start + 14 : start + 18] = zlib.crc32(content).to_bytes(4, "little")
    return bytes(changed)


_CRC = []
for _value in range(256):
    _value <<= 24
    for _ in range(8):
        _value = (_value << 1) ^ (0x04C11DB7 if _value & 0x80000000 else 0)
    _CRC.append(_value & 0xFFFFFFFF)


def _ogg(data):
    at, changed = 0, bytearray(data)
    while data[at : at + 4] == b"OggS" and at + 27 <= len(data):
        stop = at + 27 + data[at + 26] + sum(data[at + 27 : at + 27 + data[at + 26]])
        changed[at + 22 : at + 26] = bytes(4)
        crc = 0
        for byte in changed[at:stop]:
            crc = (crc << 8 & 0xFFFFFFFF) ^ _CRC[crc >> 24 ^ byte]
        changed[at + 22 : at + 26] = crc.to_bytes(4, "little")
        at = stop
    return bytes(changed)
