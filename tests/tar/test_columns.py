import tarfile

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from webdataset.tar import BLOCK, parse_header
from webdataset.tar._header_columns import block_sums, find_headers, plain_sizes


def block(size=3, format=tarfile.USTAR_FORMAT):
    info = tarfile.TarInfo("a.txt")
    info.size = size
    return info.tobuf(format)


def rows(*blocks):
    return np.frombuffer(b"".join(blocks), np.uint8).reshape(-1, BLOCK)


def judged(*blocks):
    """Sizes and verdicts, each block told on its first 160 bytes: the sums are those of the whole."""
    blocks = rows(*blocks)
    sizes, plain = plain_sizes(blocks[:, :160], block_sums(blocks))
    return sizes.tolist(), plain.tolist()


@given(st.lists(st.integers(0, 8**11 - 1), max_size=20))
def test_sizes_are_those_of_the_slow_way(sizes):
    blocks = [block(size) for size in sizes]
    assert judged(*blocks) == ([parse_header(each).size for each in blocks], [True] * len(sizes))


@given(st.lists(st.binary(min_size=BLOCK, max_size=BLOCK), max_size=4))
def test_sums_are_those_of_the_bytes(blocks):
    assert block_sums(rows(*blocks)).tolist() == [sum(each) for each in blocks]


def test_every_byte_of_a_header_counts():
    good, damaged = block(), []
    for at in range(BLOCK):
        each = bytearray(good)
        each[at] ^= 1
        damaged.append(bytes(each))
    _, plain = judged(*damaged, good)
    assert plain == [False] * BLOCK + [True]


def test_a_block_that_is_not_plain_does_not_spoil_its_neighbours(checksum):
    forged = bytearray(block())
    forged[124:136] = b"/0000000001\0"  # the character before "0"
    nameless = bytearray(block())
    nameless[:100] = bytes(100)
    sizes, plain = judged(block(7), checksum(forged), checksum(nameless), block(8**11, tarfile.GNU_FORMAT), block(9))
    assert (sizes[0], sizes[-1], plain) == (7, 9, [True, False, False, False, True])


def test_both_magics_are_found_from_any_origin():
    window = b"odd" + bytes(BLOCK) + block() + bytes(BLOCK) + block(format=tarfile.GNU_FORMAT)
    assert find_headers(window, 3, 4).tolist() == [1, 3]
    assert find_headers(window, 3 + BLOCK, 2).tolist() == [0]
