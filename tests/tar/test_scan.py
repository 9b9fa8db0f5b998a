import tarfile

from webdataset.tar._scan_window import Table
from webdataset.tar._walk_window import NOTHING


def test_a_tar_inside_a_tar_is_payload(tar):
    inner = tar([("x.txt", b"inner"), ("y.txt", b"")])
    outer = tar([("a.tar", inner), ("b.txt", b"outer")])
    table = Table(outer)
    assert table.names == ["a.tar", "x.txt", "y.txt", "b.txt"]
    assert [table.run_from(offset)[0] for offset in (0, table.offsets[-1])] == [["a.tar"], ["b.txt"]]


def test_only_what_ends_in_the_window_is_there(tar):
    archive = tar([("a.txt", b"a" * 512), ("b.txt", b"b" * 513)])
    assert Table(archive[:1023]).names == []
    assert Table(archive[:2559]).names == ["a.txt"]
    assert Table(archive[:2560]).names == ["a.txt", "b.txt"]


def test_a_window_need_not_begin_with_a_header(tar):
    archive = b"padding" + tar([("a.txt", b"a"), ("b.txt", b"b")])
    table = Table(archive, origin=7, base=1000)
    assert table.offsets == [1007, 2031]
    assert archive[table.starts[1] : table.stops[1]] == b"b"
    assert table.run_from(1007) == (["a.txt", "b.txt"], [1007, 2031], [519, 1543], [520, 1544])
    assert table.run_from(1519) == NOTHING


def test_a_pax_header_with_times_belongs_to_its_member(tar):
    archive = tar([("a.txt", b"a"), ("b.txt", b"b")], tarfile.PAX_FORMAT, mtime=1.5)
    table = Table(archive)
    assert table.names == ["a.txt", "b.txt"]
    assert table.offsets == [0, 2048]
    assert table.run_from(0)[0] == ["a.txt", "b.txt"]


def test_a_pax_header_with_a_name_breaks_the_chain(tar):
    archive = tar([("a.txt", b"a"), ("ä.txt", b"b"), ("c.txt", b"c")], tarfile.PAX_FORMAT)
    table = Table(archive)
    assert table.run_from(0)[0] == ["a.txt"]
    assert table.run_from(1024) == NOTHING


def test_bad_checksums_are_not_plain(tar):
    archive = bytearray(tar([("a.txt", b"a"), ("b.txt", b"b")]))
    archive[1024 + 50] = 1
    assert Table(bytes(archive)).names == ["a.txt"]
    archive[50] = 1
    assert Table(bytes(archive)).names == []
