import pytest
from hypothesis import given
from hypothesis import strategies as st

from webdataset.errors import BadHeader, UnsupportedMember
from webdataset.tar import Header
from webdataset.tar._pax_records import apply, matters, only_times, parse_pax

PLAIN = Header("short", 1, b"0", "")


def record(keyword, value):
    body = b" " + keyword + b"=" + value + b"\n"
    length = len(body) + 1
    while len(str(length)) + len(body) != length:
        length = len(str(length)) + len(body)
    return str(length).encode() + body


@given(st.dictionaries(st.text(min_size=1).filter(lambda key: "=" not in key and "\0" not in key), st.text()))
def test_records_come_back(records):
    encoded = b"".join(record(key.encode(), value.encode()) for key, value in records.items())
    assert parse_pax(encoded) == records


def test_values_may_hold_newlines_and_equal_signs():
    assert parse_pax(record(b"path", b"a=b\n12 path=evil\n")) == {"path": "a=b\n12 path=evil\n"}


def test_binary_values_survive():
    records = record(b"hdrcharset", b"BINARY") + record(b"path", b"\xff\xfe.txt")
    assert parse_pax(records)["path"].encode("utf-8", "surrogateescape") == b"\xff\xfe.txt"


@pytest.mark.parametrize(
    "records",
    [b"path=a\n", b"0 path=a\n", b"5 path=a\n", b"99 path=a\n", b"9 path=a\r", b"-9 path=a\n", b"11 pathless\n"]
    + [b"12345678901234567890 path=a\n", b" 9 path=a\n", b"\xd9\xa1\xd9\xa0 path=a\n"],
)
def test_damaged_records_are_refused(records):
    with pytest.raises(BadHeader, match="PAX record.*byte 1024"):
        parse_pax(records, 1024)


@given(
    st.binary(max_size=60)
    | st.lists(st.sampled_from([b"mtime", b"atime", b"path", b"ctime"]), max_size=3).map(
        lambda keys: b"".join(record(key, b"1700000000.25") for key in keys)
    )
)
def test_only_times_agrees_with_the_parser(records):
    if only_times(records):
        assert set(parse_pax(records)) <= {"mtime", "atime", "ctime"}


def test_only_times_knows_what_the_public_writer_writes():
    assert only_times(record(b"mtime", b"1700000000.123456"))
    assert not only_times(record(b"mtime", b"1700000000.1") + record(b"path", b"a"))
    assert not only_times(b"99 mtime=1.5\n")
    assert not only_times(b"")


def test_an_empty_value_takes_the_keyword_back():
    assert apply(PLAIN, {"path": "", "size": "", "linkpath": ""}, 0) == PLAIN


@pytest.mark.parametrize("size", ["-1", "1.5", "1e9", "٣", "9" * 40])
def test_sizes_that_are_none_are_refused(size):
    with pytest.raises(BadHeader, match="expected a size in a PAX record"):
        apply(PLAIN, {"size": size}, 0)


@pytest.mark.parametrize("keyword", ["GNU.sparse.major", "GNU.sparse.map", "GNU.sparse.size"])
def test_sparse_files_are_refused(keyword):
    with pytest.raises(UnsupportedMember, match="sparse.*real.bin.*byte 512.*--sparse"):
        apply(PLAIN, {keyword: "1", "GNU.sparse.name": "real.bin"}, 512)
    assert matters({keyword: "1"})
