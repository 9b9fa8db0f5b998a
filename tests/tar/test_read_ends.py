import bz2
import gzip
import io
import lzma
import tarfile

import pytest

from tests.tar.reading import FORMATS, WINDOWS, outcome
from webdataset.errors import BadHeader, StoreError, TruncatedShard
from webdataset.decompress import load_zstd
from webdataset.tar import read_members, read_runs


def test_D03_every_prefix_of_an_archive_is_an_error(tar):
    archive = tar([("a.txt", b"abc"), ("b.txt", b"x" * 700)])
    archive = archive[: archive.index(bytes(1024)) // 512 * 512 + 512]
    complete = list(read_members(archive + bytes(1024)))
    whole = archive + bytes(1024)
    for cut in range(len(whole)):
        found, _, error, message = outcome(whole[:cut])
        assert error is TruncatedShard, cut
        assert f"byte {cut}" in message
        assert found == complete[: len(found)]
    assert outcome(whole) == (complete, [], None, None)


@FORMATS
def test_D03_every_prefix_of_long_named_archives_is_an_error(tar, format):
    archive = tar([("d/" * 60 + "a.txt", b"abc")], format)
    end = len(archive.rstrip(b"\0")) + 511 & -512
    for cut in range(0, end + 1024, 7):
        assert outcome(archive[:cut])[2] is TruncatedShard, cut


def test_D03_zeros_behind_the_end_may_be_cut(tar):
    archive = tar([("a.txt", b"abc")])
    assert len(archive) == 10240
    for cut in range(1024 + 1024, len(archive), 100):
        assert outcome(archive[:cut])[2] is None


def test_lenient_reading_takes_what_is_whole(tar):
    archive = tar([("a.txt", b"abc"), ("b.txt", b"x" * 700)])
    whole = list(read_members(archive))
    for cut in (1024, 1024 + 100, 1024 + 512 + 700, 3072, 3072 + 512):
        found, _, error, _ = outcome(archive[:cut], strict=False)
        assert error is None
        assert found == [member for member in whole if member.data_offset + member.size <= cut]
    assert outcome(archive[: 1024 + 600], strict=False)[2] is TruncatedShard  # inside a payload
    assert outcome(b"", strict=False)[:3] == ([], [], None)


def test_a_short_message_in_place_of_an_archive_is_shown():
    _, _, error, message = outcome(b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n")
    assert error is TruncatedShard and "starts with b'version https" in message and "check the address" in message


@pytest.mark.parametrize("garbage", [b"g" * 512, b"g" * 100, b"g" * 5000])
def test_garbage_behind_the_end(tar, garbage):
    archive = tar([("a.txt", b"abc")])
    found, _, error, message = outcome(archive + garbage)
    assert len(found) == 1
    assert error in (BadHeader, TruncatedShard)
    assert f"byte {len(archive)}" in message or "in a header" in message
    assert outcome(archive + garbage, strict=False)[2] is None
    assert outcome(archive + garbage, concatenated=False)[:3] == (found, [], None) or len(garbage) < 512


def test_a_wiped_header_is_not_the_end(tar):
    """One block of zeros instead of a header hides its member; two in a row end an archive, one never does."""
    archive = bytearray(tar([("a.txt", b"abc"), ("b.txt", b""), ("c.txt", b"def")]))
    archive[1024:1536] = bytes(512)
    found, _, error, message = outcome(bytes(archive))
    assert [m.name for m in found] == ["a.txt"]
    assert error is BadHeader
    assert "found one zero block" in message


@FORMATS
@pytest.mark.parametrize("between", [0, 512, 10240])
def test_D06_concatenated_archives_are_all_read(tar, format, between):
    first, second = tar([("a.txt", b"abc")], format), tar([("b.txt", b"def")], format)
    first = first[:1024] + bytes(1024 + between)
    assert [m.name for m in read_members(first + second)] == ["a.txt", "b.txt"]
    assert [m.name for m in read_members(first + second, concatenated=False)] == ["a.txt"]


def test_global_records_end_with_their_archive():
    def make(name, headers):
        archive = io.BytesIO()
        with tarfile.open(fileobj=archive, mode="w", format=tarfile.PAX_FORMAT, pax_headers=headers) as tar:
            tar.addfile(tarfile.TarInfo(name))
        return archive.getvalue()

    both = make("a.txt", {"path": "global.txt"}) + make("b.txt", {})
    assert [m.name for m in read_members(both)] == ["global.txt", "b.txt"]
    assert [run.restartable for run in read_runs(both)] == [False, True]


def test_an_archive_of_global_records_only_is_empty():
    archive = io.BytesIO()
    tarfile.open(fileobj=archive, mode="w", format=tarfile.PAX_FORMAT, pax_headers={"comment": "x"}).close()
    assert outcome(archive.getvalue()) == ([], [], None, None)


def test_an_empty_file_is_an_error():
    with pytest.raises(TruncatedShard, match="0 bytes"):
        list(read_members(b""))


def test_an_empty_archive_is_empty():
    assert list(read_members(bytes(1024))) == list(read_members(bytes(10240))) == []


@pytest.mark.parametrize(
    "page", [b"<!DOCTYPE html>" + b" " * 600, b"\x89PNG\r\n\x1a\n" + b"1" * 600, b"PK\x03\x04" * 300]
)
def test_something_else_is_told_by_its_first_bytes(page):
    with pytest.raises(BadHeader, match="not a tar archive: it starts with .*check the address") as caught:
        list(read_members(page))
    assert repr(page[:8])[1:-1] in str(caught.value)
    assert isinstance(caught.value, tarfile.ReadError)


def test_a_stream_that_fails_late_is_not_taken_for_complete(tar, trickle):
    archive = tar([("a.txt", b"abc")])
    members = read_members(trickle(archive, failure=StoreError("the command failed")))
    assert next(members).name == "a.txt"
    with pytest.raises(StoreError, match="the command failed"):
        next(members)


@pytest.mark.parametrize("cut", [100, 512, 600, 1024, 1300])
def test_a_failure_is_not_reported_as_a_cut(tar, trickle, cut):
    for window in WINDOWS:
        with pytest.raises(StoreError, match="reset"):
            list(read_members(trickle(tar([("a.txt", b"abc")])[:cut], failure=StoreError("reset")), window=window))


@pytest.mark.parametrize("cut", [None, *range(0, 2600, 100)])
def test_a_failure_is_an_error_where_a_cut_is_none(tar, trickle, cut):
    archive = (tar([("a.txt", b"abc")]) + b"no tar" * 100)[:cut]
    for window in WINDOWS:
        with pytest.raises(StoreError, match="reset"):
            list(read_members(trickle(archive, failure=StoreError("reset")), window=window, strict=False))


@pytest.mark.parametrize("pack", [gzip.compress, bz2.compress, lzma.compress, load_zstd("to test").compress])
@pytest.mark.parametrize("strict", [True, False])
def test_D04_a_failure_behind_a_packed_archive_is_an_error(tar, trickle, pack, strict):
    packed = pack(tar([("a.txt", b"abc")]))
    for end in range(len(packed) // 2, len(packed) + 1):
        with pytest.raises(StoreError, match="reset"):
            list(read_members(trickle(packed[:end], failure=StoreError("reset")), strict=strict))
