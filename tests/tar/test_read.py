import bz2
import gzip
import io
import lzma
import random
import subprocess
import tarfile

import pytest
import zstandard
from hypothesis import HealthCheck, assume, example, given, settings
from hypothesis import strategies as st

from webdataset.errors import BadHeader, FormatError, StoreError, TruncatedShard, UnsupportedMember
from webdataset.tar import BLOCK, read_members, read_runs

FORMATS = pytest.mark.parametrize("format", [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
WINDOWS = [512, 1024, 8192, 10240, 1 << 20]


def outcome(archive, **options):
    """Everything that comes out: members, skipped ones, and the error."""
    members, skipped = [], []
    try:
        for member in read_members(archive, on_skip=lambda header, offset: skipped.append((header, offset)), **options):
            members.append(member)
    except FormatError as error:
        return members, skipped, type(error), str(error)
    return members, skipped, None, None


def by_tarfile(archive):
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        return [(m.name, m.offset, m.offset_data, tar.extractfile(m).read()) for m in tar if m.isreg()]


class Archive(bytes):
    def __repr__(self):
        return f"<archive of {len(self)} bytes>"


names = st.one_of(
    st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=120),
    st.sampled_from(
        ["a.txt", "b.jpg", "ä.txt", "d/" * 60 + "x.txt", "n" * 100, "n" * 101, "long" * 75, "a b.c d", "./a"]
    ),
).filter(lambda name: not name.endswith("/"))  # a slash at the end says directory
payloads = st.one_of(st.binary(max_size=40), st.integers(0, 3000).map(lambda size: b"p" * size), st.just(b"q" * 20_000))


@st.composite
def members(draw):
    info = tarfile.TarInfo(draw(names))
    info.type = draw(st.sampled_from([tarfile.REGTYPE] * 8 + [b"7", b"\0", b"1", b"2", b"3", b"4", b"5", b"6"]))
    if info.type == b"\0" and len(info.name.encode()) > 100:
        info.type = b"0"  # tarfile takes those whose name is cut behind a slash for directories
    info.mtime = draw(st.sampled_from([0, 1700000000, 1700000000.25]))
    info.uname = draw(st.sampled_from(["", "user", "ü"]))
    info.linkname = draw(st.sampled_from(["", "a.txt", "target" * 30])) if info.type in (b"1", b"2") else ""
    payload = draw(payloads) if info.isreg() else b""
    info.size = len(payload)
    return info, payload


@st.composite
def archives(draw, most=2):
    """Archives of all flavours, concatenated or not."""
    whole = b""
    for _ in range(draw(st.integers(1, most))):
        archive = io.BytesIO()
        format = draw(st.sampled_from([tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT]))
        headers = draw(st.sampled_from([{}, {}, {"comment": "made here"}, {"path": "everything.txt"}]))
        with tarfile.open(fileobj=archive, mode="w", format=format, pax_headers=headers) as tar:
            for info, payload in draw(st.lists(members(), max_size=30)):
                try:
                    tar.addfile(info, io.BytesIO(payload))
                except ValueError:  # ustar cannot say it
                    continue
        whole += archive.getvalue()
    return Archive(whole)


@pytest.fixture(params=["scan", "walk"])
def fast(request, monkeypatch):
    """Which of the two fast paths is taken; a window of one block takes neither."""
    monkeypatch.setattr("webdataset.tar._read._WORTH_WALKING", {"scan": 1 << 60, "walk": -1}[request.param])


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(archives(), st.sampled_from(WINDOWS), st.sampled_from([None, 100, 700, 5000]))
def test_fast_and_slow_paths_agree(trickle, fast, archive, window, step):
    expected = outcome(trickle(archive), window=512)
    assert outcome(trickle(archive, step), window=window) == expected
    assert expected[2:] == (None, None)


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(archives(), st.data())
def test_they_agree_on_damaged_archives_too(trickle, fast, archive, data):
    damaged = bytearray(archive)
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(
            st.integers(0, len(damaged) - 1) | st.integers(0, len(damaged) // 512 - 1).map(lambda n: n * 512 + 130)
        )
        damaged[at] = data.draw(st.integers(0, 255))
    damaged = bytes(damaged[: data.draw(st.just(len(damaged)) | st.integers(0, len(damaged)))])
    strict = data.draw(st.booleans())
    expected = outcome(trickle(damaged), window=512, strict=strict)
    for window in WINDOWS[1:]:
        assert outcome(trickle(damaged), window=window, strict=strict) == expected


@settings(deadline=None)
@given(archives(most=1).filter(lambda archive: b"everything.txt" not in archive))
def test_tarfile_agrees(archive):
    members, skipped, error, _ = outcome(archive)
    assume(members or skipped)  # tarfile does not open archives without members
    assert error is None
    assert [tuple(member) for member in members] == by_tarfile(archive)


@pytest.fixture(scope="module")
def uneven():
    """Members around every size at which the reader changes its ways, between tiny ones and long names."""
    draw = random.Random(1)
    sizes = [(1 << shift) + off for shift in (15, 16, 17, 18, 19, 20, 22) for off in (-513, -512, 0, 1)]
    sizes += [0, 1, 511, 512, 513, 700] * 20
    draw.shuffle(sizes)
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for number, size in enumerate(sizes):
            info = tarfile.TarInfo(f"{number:04d}." + draw.choice(["jpg", "jpg", "n" * 150]))
            info.size, info.mtime = size, draw.choice([0, 1.5])
            tar.addfile(info, io.BytesIO(draw.randbytes(size)))
    return Archive(archive.getvalue())


class Into:
    """A stream that is read into memory, `step` bytes at a time, and fails once instead of ending, if told to."""

    def __init__(self, trickle):
        self.read = trickle.read

    def readinto(self, view):
        piece = self.read(len(view))
        view[: len(piece)] = piece
        return len(piece)


@pytest.mark.parametrize("step", [None, 5_000, 100_000, 3_000_000])
@pytest.mark.parametrize("wrap", [lambda stream: stream, Into], ids=["read", "readinto"])
def test_tarfile_agrees_on_members_of_all_sizes(uneven, trickle, wrap, step):
    expected = by_tarfile(uneven)
    assert list(map(tuple, read_members(wrap(trickle(uneven, step))))) == expected
    half = len(expected) // 2
    start = expected[half][1]
    assert list(map(tuple, read_members(wrap(trickle(uneven[start:], step)), start=start))) == expected[half:]


@pytest.mark.parametrize("strict", [True, False])
@pytest.mark.parametrize("wrap", [lambda stream: stream, Into], ids=["read", "readinto"])
def test_members_of_all_sizes_come_before_a_failure(uneven, trickle, wrap, strict):
    expected = by_tarfile(uneven)
    for row in range(0, len(expected), 21):
        _, offset, data_offset, payload = expected[row]
        for cut in (offset, offset + 100, data_offset, data_offset + len(payload) // 2, data_offset + len(payload)):
            found = []
            with pytest.raises(StoreError, match="reset"):  # noqa: PT012 - what came before it counts
                stream = wrap(trickle(uneven[:cut], 100_000, StoreError("reset")))
                for member in read_members(stream, strict=strict):
                    found.append(tuple(member))
            whole = row + (cut == data_offset + len(payload))
            # The last one may still lack its padding, and then waits for it.
            assert len(found) in {whole, whole - 1}
            assert found == expected[: len(found)]


@FORMATS
@pytest.mark.parametrize(
    "name", ["a b.txt", "ä/ö.txt", "日本.txt", "x" * 300 + ".txt", "d/" * 150 + "x.txt", "\udcff.txt", "a\nb"]
)
def test_names(tar, format, name):
    try:
        archive = tar([(name, b"abc"), ("next.txt", b"d")], format)
    except ValueError:
        pytest.skip("ustar cannot say this name")
    found = list(read_members(archive))
    assert [(m.name, m.data) for m in found] == [(name, b"abc"), ("next.txt", b"d")]


@pytest.mark.parametrize("format", ["v7", "oldgnu", "gnu", "ustar", "posix"])
def test_gnu_tar_agrees(tmp_path, format):
    long = "d" * 50 + "/" + "e" * 50 + "/" + "f" * 90 + ".txt" if format in ("gnu", "oldgnu", "posix") else "f.txt"
    for name, content in {"a.txt": b"abc", "b c.jpg": b"x" * 5000, "empty.cls": b"", long: b"long"}.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(content)
    command = ["tar", f"--format={format}", "--sort=name", "-C", str(tmp_path), "-c", "."]
    archive = subprocess.run(command, capture_output=True, check=True).stdout
    ours = {member.name: member.data for member in read_members(archive)}
    assert ours == {
        f"./{path.relative_to(tmp_path)}": path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()
    }
    assert [tuple(m) for m in read_members(archive)] == by_tarfile(archive)


@pytest.mark.parametrize("format", ["gnu", "posix"])
def test_sparse_files_made_by_gnu_tar_are_refused(tmp_path, format):
    with open(tmp_path / "holes.bin", "wb") as file:
        file.seek(1 << 20)
        file.write(b"end")
    command = ["tar", f"--format={format}", "--sparse", "-C", str(tmp_path), "-c", "holes.bin"]
    archive = subprocess.run(command, capture_output=True, check=True).stdout
    with pytest.raises(UnsupportedMember, match=r"sparse file – member holes.bin, byte 0 – .*--sparse"):
        list(read_members(archive))


@pytest.mark.parametrize("format", [tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
def test_old_directories_are_told_by_the_slash_of_the_whole_name(tar, format):
    directory = tarfile.TarInfo("folder/")
    directory.type = b"\0"
    cut_behind_a_slash = "d/" * 60 + "a.txt"
    archive = tar([directory, (cut_behind_a_slash, b"abc")], format, type=b"\0")
    assert [(m.name, m.data) for m in read_members(archive)] == [(cut_behind_a_slash, b"abc")]


def test_continued_members_are_refused(tar):
    info = tarfile.TarInfo("rest.bin")
    info.type = b"M"
    with pytest.raises(UnsupportedMember, match="another volume"):
        list(read_members(tar([info])))


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


@pytest.mark.parametrize("garbage", [b"g" * 512, b"g" * 100, b"g" * 5000])
def test_garbage_behind_the_end(tar, garbage):
    archive = tar([("a.txt", b"abc")])
    found, _, error, message = outcome(archive + garbage)
    assert len(found) == 1
    assert error in (BadHeader, TruncatedShard)
    assert f"byte {len(archive)}" in message or "inside a header" in message
    assert outcome(archive + garbage, strict=False)[2] is None
    assert outcome(archive + garbage, concatenated=False)[:3] == (found, [], None) or len(garbage) < 512


def test_a_wiped_header_is_not_the_end(tar):
    """One block of zeros instead of a header hides its member; two in a row end an archive, one never does."""
    archive = bytearray(tar([("a.txt", b"abc"), ("b.txt", b""), ("c.txt", b"def")]))
    archive[1024:1536] = bytes(512)
    found, _, error, message = outcome(bytes(archive))
    assert [m.name for m in found] == ["a.txt"]
    assert error is BadHeader
    assert "lone block of zeros" in message


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


@given(st.binary(max_size=3000))
def test_garbage_is_never_data(garbage):
    found, _, error, _ = outcome(garbage)
    assert not found
    assert error is not None or not garbage.strip(b"\0")


def test_ten_gigabytes_claimed_in_a_kilobyte(tar, checksum):
    import tracemalloc

    info = tarfile.TarInfo("huge.bin")
    info.size = 10_000_000_000
    archive = info.tobuf(tarfile.GNU_FORMAT) + b"x" * 512
    tracemalloc.start()
    found, _, error, message = outcome(archive)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert (found, error) == ([], TruncatedShard)
    assert "512 of 10,000,000,000 bytes of the payload of huge.bin" in message
    assert peak < 40 << 20  # untouched: BytesIO gives what it has


@pytest.mark.parametrize("kind", [b"x", b"g", b"L", b"K"])
def test_extensions_that_claim_too_much_are_refused(kind):
    info = tarfile.TarInfo("extension")
    info.size, info.type = 10_000_000_000, kind
    with pytest.raises(BadHeader, match="claims 10,000,000,000 bytes"):
        list(read_members(info.tobuf(tarfile.GNU_FORMAT) + bytes(4096)))


def test_an_extension_needs_a_member(tar):
    extension = tar([("long" * 50, b"")], tarfile.GNU_FORMAT)[:1024]
    with pytest.raises(BadHeader):
        list(read_members(extension + bytes(1024)))


def test_every_type_flag(tar):
    """Any type flag, checksum right: read, passed over, reported or refused, and the next member is found."""
    for kind in (bytes([flag]) for flag in range(256)):
        content = b"9 path=z\n" if kind in b"xXg" else b"abc"
        info = tarfile.TarInfo("odd.txt")
        info.type, info.size = kind, len(content)
        payload = b"" if kind in b"123456" else content + bytes(512 - len(content))
        found, skipped, error, _ = outcome(info.tobuf(tarfile.GNU_FORMAT) + payload + tar([("next.txt", b"def")]))
        if kind in b"SM":
            assert error is UnsupportedMember
            continue
        assert error is None, kind
        assert found[-1].data == b"def", kind
        assert len(found) == (2 if kind in b"0\x007" else 1), kind
        assert bool(skipped) == (kind not in b"0\x0073456xXgLK"), kind


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(
        st.tuples(st.binary(min_size=512, max_size=512), st.integers(0, 255), st.sampled_from([0, 1, 511, 8**10])),
        max_size=20,
    )
)
@example([(b"a" * 512, 0x78, 511)])
def test_checksum_valid_nonsense(checksum, trickle, fast, headers):
    """Random header blocks with right checksums and likely sizes: an answer or a typed error, the same at any window."""
    archive = b""
    for noise, kind, size in headers:
        block = bytearray(noise)
        block[124:136] = b"%011o\0" % size
        block[156] = kind
        archive += checksum(block) + noise[: -(-min(size, 512) // 512) * 512]
    archive += bytes(1024)
    first = outcome(trickle(archive), window=512)
    for window in WINDOWS[1:]:
        assert outcome(trickle(archive), window=window) == first


def test_renaming_and_leaving_out(tar):
    archive = tar([(f"{n}.{ending}", bytes(n)) for n in range(200) for ending in ("JPG", "txt")])
    rename = lambda name: name.lower() if name.endswith("JPG") else None
    for window in WINDOWS:
        found = list(read_members(archive, rename=rename, window=window))
        assert [m.name for m in found] == [f"{n}.jpg" for n in range(200)]
        assert [m.size for m in found] == list(range(200))


def test_large_members_nobody_wants_are_not_kept(tar):
    import tracemalloc

    archive = tar([("big.bin", bytes(30 << 20)), ("a.txt", b"abc")])
    tracemalloc.start()
    found = list(read_members(io.BytesIO(archive), rename=lambda name: name if name == "a.txt" else None))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert [m.data for m in found] == [b"abc"]
    assert peak < 8 << 20


@FORMATS
def test_a_reading_can_start_at_any_member(tar, format):
    archive = tar(
        [(f"{n}/" * 40 + ".txt", b"x" * n * 50) for n in range(1, 30)], format, mtime=1.5 if format == 2 else 0
    )
    whole = list(read_members(archive))
    for number, member in enumerate(whole):
        assert list(read_members(archive[member.offset :], start=member.offset)) == whole[number:]


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


@pytest.mark.parametrize("pack", [gzip.compress, bz2.compress, lzma.compress, zstandard.compress])
@pytest.mark.parametrize("strict", [True, False])
def test_D04_a_failure_behind_a_packed_archive_is_an_error(tar, trickle, pack, strict):
    packed = pack(tar([("a.txt", b"abc")]))
    for end in range(len(packed) // 2, len(packed) + 1):
        with pytest.raises(StoreError, match="reset"):
            list(read_members(trickle(packed[:end], failure=StoreError("reset")), strict=strict))


def test_D56_links_are_reported(tar):
    link = tarfile.TarInfo("b.txt")
    link.type, link.linkname = tarfile.LNKTYPE, "a.txt"
    with pytest.warns(UserWarning, match="b.txt at byte 1024 is a link to a.txt and is left out"):
        assert len(list(read_members(tar([("a.txt", b"abc"), link])))) == 1
