import io
import random
import subprocess
import tarfile

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from tests.tar.reading import FORMATS, WINDOWS, outcome
from webdataset.errors import StoreError, UnsupportedMember
from webdataset.tar import read_members


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


def test_D56_links_are_reported(tar):
    link = tarfile.TarInfo("b.txt")
    link.type, link.linkname = tarfile.LNKTYPE, "a.txt"
    with pytest.warns(UserWarning, match="b.txt at byte 1024 is a link to a.txt and is left out"):
        assert len(list(read_members(tar([("a.txt", b"abc"), link])))) == 1
