import tarfile

from hypothesis import given
from hypothesis import strategies as st

from webdataset.tar._scan_window import Table
from webdataset.tar._walk_window import NOTHING, walk


@given(st.lists(st.integers(0, 3000), min_size=1, max_size=20), st.booleans(), st.integers(512, 40_000))
def test_it_finds_what_the_scan_finds(tar, sizes, times, end):
    members = [(f"{number}.bin", b"p" * size) for number, size in enumerate(sizes)]
    archive = tar(members, tarfile.PAX_FORMAT if times else tarfile.USTAR_FORMAT, mtime=1.5 if times else 0)
    end = min(end, len(archive))
    assert walk(archive, 0, end, base=512) == Table(archive[:end], base=512).run_from(512)


def test_a_pax_header_with_a_name_ends_it(tar):
    archive = tar([("a.txt", b"a"), ("ä.txt", b"b")], tarfile.PAX_FORMAT)
    assert walk(archive, 0, len(archive))[0] == ["a.txt"]
    assert walk(archive, 1024, len(archive)) == NOTHING


def test_every_byte_of_a_header_counts(tar):
    archive = tar([("a.txt", b"abc")])
    for at in range(512):
        damaged = bytearray(archive)
        damaged[at] ^= 1
        assert walk(bytes(damaged), 0, len(damaged)) == NOTHING
