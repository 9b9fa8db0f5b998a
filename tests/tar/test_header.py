import tarfile

import pytest
from hypothesis import given
from hypothesis import strategies as st

from webdataset.errors import BadHeader
from webdataset.tar import BLOCK, parse_header
from webdataset.tar._parse_header import parse_number


def block(name="a.txt", size=3, format=tarfile.USTAR_FORMAT, **fields):
    info = tarfile.TarInfo(name)
    info.size = size
    for field, value in fields.items():
        setattr(info, field, value)
    return info.tobuf(format)[-BLOCK:]


def test_a_plain_header():
    assert parse_header(block()) == ("a.txt", 3, b"0", "")


def test_the_posix_prefix_is_the_first_part_of_the_name():
    name = "d" * 90 + "/" + "f" * 60
    assert parse_header(block(name)).name == name


def test_gnu_headers_keep_times_where_posix_keeps_the_prefix(checksum):
    gnu = bytearray(block(format=tarfile.GNU_FORMAT))
    gnu[345:357] = b"14000000000\0"
    assert parse_header(checksum(gnu)).name == "a.txt"


def test_v7_headers_have_no_magic(checksum):
    v7 = bytearray(block())
    v7[257:] = bytes(BLOCK - 257)
    assert parse_header(checksum(v7)) == ("a.txt", 3, b"0", "")


def test_a_name_of_100_bytes_has_no_nul():
    assert parse_header(block("n" * 100)).name == "n" * 100


def test_what_follows_the_names_nul_is_no_name(checksum):
    dirty = bytearray(block())
    dirty[6:20] = b"left over junk"
    assert parse_header(checksum(dirty)).name == "a.txt"


@pytest.mark.parametrize("size", [8**11, 10**12, 2**63])
def test_sizes_beyond_8_gb_are_base_256(size):
    assert parse_header(block(size=size, format=tarfile.GNU_FORMAT)).size == size


@pytest.mark.parametrize(
    "field", [b"\xff" * 12, b"-0000000001\0", b"0x000000001\0", b"1_000000000\0", b"0000000000+\0"]
)
def test_sizes_that_are_none_are_refused(field, checksum):
    forged = bytearray(block())
    forged[124:136] = field
    with pytest.raises(BadHeader, match="expected a size in the header.*byte 1024"):
        parse_header(checksum(forged), 1024)


def test_the_historic_signed_checksum_is_right_too():
    signed = bytearray(block("ä" * 5))
    signed[148:156] = b" " * 8
    total = sum(signed) - 256 * sum(byte > 127 for byte in signed)
    signed[148:156] = b"%06o\0 " % total
    assert parse_header(bytes(signed)).name == "ä" * 5


@given(st.integers(0, BLOCK - 1), st.integers(1, 255))
def test_any_single_wrong_byte_is_found(at, change):
    good = block(uname="user", gname="group", mtime=1234567890)
    bad = bytearray(good)
    bad[at] ^= change
    if 148 <= at < 156:  # the checksum itself may be written in several ways
        try:
            assert parse_header(bytes(bad)) == parse_header(good)
        except BadHeader:
            return
    else:
        with pytest.raises(BadHeader):
            parse_header(bytes(bad))


@pytest.mark.parametrize(
    ("start", "stop"),
    [(0, 100), (100, 108), (108, 116), (116, 124), (124, 136), (136, 148), (148, 156), (156, 157), (157, 257)]
    + [(257, 263), (263, 265), (265, 297), (297, 329), (329, 337), (337, 345), (345, 500), (500, 512)],
)
def test_every_field_overwritten_is_found(start, stop):
    bad = bytearray(block(uname="user", gname="group", mtime=1234567890))
    bad[start:stop] = b"\xa5" * (stop - start)
    with pytest.raises(BadHeader, match="byte 512"):
        parse_header(bytes(bad), 512)


@given(st.binary(min_size=12, max_size=12))
def test_numbers_agree_with_tarfile(field):
    try:
        expected = tarfile.nti(field)
    except tarfile.InvalidHeaderError:
        expected = None
    ours = parse_number(field)
    # int() also takes signs, underscores and foreign digits, which no tar means.
    assert ours == expected or (ours is None and field[0] not in (0x80, 0xFF))


def test_a_forged_sum_65521_away_is_found():
    """The sum is computed with Adler-32, which counts modulo 65,521."""
    forged = bytearray(block())
    total = int(forged[148:154], 8)
    forged[148:156] = b"%06o\0 " % (total + 65521)
    assert int(forged[148:154], 8) == total + 65521
    with pytest.raises(BadHeader):
        parse_header(bytes(forged))
