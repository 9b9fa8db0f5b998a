"""What we write is what `tarfile`, GNU tar and bsdtar read, for names, sizes and owners of every kind."""

import io
import shutil
import subprocess
import tarfile

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from webdataset.errors import EncodingError, SpecError
from webdataset.tar import END_OF_ARCHIVE, encode_header, padding

GIGABYTES_8 = 8**11
FORMATS = [None, "ustar", "gnu", "pax"]
OTHER_TARS = [name for name in ("tar", "bsdtar") if shutil.which(name)]

components = st.text(st.sampled_from("ab.-_ é漢😀'\"*"), min_size=1, max_size=70).filter(lambda s: set(s) - set("."))
paths = st.lists(components, min_size=1, max_size=6).map("/".join)
payloads = st.binary(max_size=1100)


def archive(members, **options):
    """The bytes of a whole archive of (name, payload) pairs."""
    parts = []
    for name, payload in members:
        parts += [encode_header(name, len(payload), **options), payload, padding(len(payload))]
    return b"".join(parts) + END_OF_ARCHIVE


def listed(data):
    """What `tarfile` sees, refusing anything odd."""
    with tarfile.open(fileobj=io.BytesIO(data), mode="r:", errorlevel=2, ignore_zeros=False) as tar:
        return [(info, tar.extractfile(info).read()) for info in tar.getmembers()]


def header_of(data):
    """`tarfile`'s view of a header whose payload is too large to be there."""
    return tarfile.TarFile(fileobj=io.BytesIO(data + b"\0" * 512)).firstmember


def ustar_fits(name):
    try:
        encode_header(name, 0, format="ustar")
    except EncodingError:
        return False
    return True


@given(st.lists(st.tuples(paths, payloads), max_size=4), st.sampled_from(FORMATS))
@example([("d/" * 60 + "x" * 99, b"1")], None)
@example([("é" * 60 + ".txt", b"1")], "pax")
def test_tarfile_reads_what_was_written(members, format):
    if format == "ustar":
        assume(all(ustar_fits(name) for name, _ in members))
    data = archive(members, format=format, mode=0o640, mtime=12345, uid=7, gid=8, uname="us", gname="gr")
    assert len(data) % 512 == 0
    seen = listed(data)
    assert [(info.name, payload) for info, payload in seen] == members
    for info, _ in seen:
        assert (info.mode, info.mtime, info.uid, info.gid, info.uname, info.gname) == (0o640, 12345, 7, 8, "us", "gr")
        assert info.isreg()


@pytest.mark.parametrize("program", OTHER_TARS)
@settings(max_examples=25)
@given(data=st.data(), format=st.sampled_from([None, "gnu", "pax"]))
def test_other_tars_list_and_extract_what_was_written(program, data, format, tmp_path_factory):
    strings = st.lists(st.tuples(paths, payloads), min_size=1, max_size=4, unique_by=lambda member: member[0])
    # One top directory per member: a name may not be a directory of another one.
    members = [(f"{number}/{name}", payload) for number, (name, payload) in enumerate(data.draw(strings))]
    folder = tmp_path_factory.mktemp("extract")
    written = archive(members, format=format)
    literal = ["--quoting-style=literal"] if program == "tar" else []
    environment = {"LC_ALL": "C.UTF-8", "PATH": "/usr/bin:/bin"}
    listing = subprocess.run([program, *literal, "-tf", "-"], input=written, capture_output=True, env=environment)
    assert (listing.returncode, listing.stderr) == (0, b"")
    assert listing.stdout.decode().splitlines() == [name for name, _ in members]
    extract = [program, "-xf", "-", "-C", str(folder)]
    result = subprocess.run(extract, input=written, capture_output=True, env=environment)
    assert (result.returncode, result.stderr) == (0, b"")
    assert [(name, (folder / name).read_bytes()) for name, _ in members] == members


def test_D38_a_tiny_member_takes_1024_bytes():
    assert len(encode_header("a.cls", 1) + b"7" + padding(1)) == 1024


def test_the_plainest_format_that_fits_is_taken():
    flavour = {b"ustar\x0000": "ustar", b"ustar  \x00": "gnu"}
    assert flavour[encode_header("x" * 100, 1)[257:265]] == "ustar"
    assert flavour[encode_header("d/" * 77 + "x" * 100, 1)[257:265]] == "ustar"
    assert flavour[encode_header("x" * 101, 1)[257:265]] == "gnu"
    assert flavour[encode_header("d" * 156 + "/x", 1)[257:265]] == "gnu"
    assert flavour[encode_header("a", GIGABYTES_8 - 1)[257:265]] == "ustar"
    assert flavour[encode_header("a", GIGABYTES_8)[257:265]] == "gnu"
    assert encode_header("a", 1, uname="u" * 40)[156:157] == b"x"


@pytest.mark.parametrize(
    ("name", "format"),
    [
        ("a.txt", tarfile.USTAR_FORMAT),
        ("d/" * 60 + "a.txt", tarfile.USTAR_FORMAT),
        ("a.txt", tarfile.GNU_FORMAT),
        ("d/" * 60 + "a.txt", tarfile.GNU_FORMAT),
    ],
)
def test_byte_for_byte_as_tarfile_writes_it(name, format):
    info = tarfile.TarInfo(name)
    info.size, info.mode, info.mtime, info.uname, info.gname = 12345, 0o444, 99, "us", "gr"
    theirs = info.tobuf(format)
    ours = encode_header(name, 12345, mode=0o444, mtime=99, uname="us", gname="gr", format=format)
    # The long-name block carries a mode of its own, which nobody reads: ours is GNU tar's, tarfile's is 0.
    assert ours[-512:] == theirs[-512:]
    assert ours[512:-512] == theirs[512:-512]


def test_same_arguments_same_bytes():
    assert encode_header("a" * 200, 3, format="pax") == encode_header("a" * 200, 3, format="pax")


@pytest.mark.parametrize("format", [None, "gnu", "pax"])
@pytest.mark.parametrize("size", [GIGABYTES_8 - 1, GIGABYTES_8, 2**40, 2**60])
def test_sizes_beyond_8_gib(size, format):
    assert header_of(encode_header("a.bin", size, format=format)).size == size


@pytest.mark.parametrize("format", [None, "pax"])
def test_large_ids_and_long_owner_names(format):
    seen = header_of(encode_header("a", 0, uid=2**30, gid=8**7, uname="u" * 50, gname="ö" * 16, format=format))
    assert (seen.uid, seen.gid, seen.uname, seen.gname) == (2**30, 8**7, "u" * 50, "ö" * 16)


def test_names_that_were_not_utf8_come_back_as_they_were():
    name = b"caf\xe9.txt".decode("utf-8", "surrogateescape")
    assert listed(archive([(name, b"1")]))[0][0].name == name
    with pytest.raises(EncodingError, match="UTF-8"):
        encode_header(name, 1, format="pax")


@pytest.mark.parametrize("name", ["", "a/", "a\0b", "\ud800.txt"])
def test_impossible_names(name):
    with pytest.raises(EncodingError):
        encode_header(name, 1)


@pytest.mark.parametrize("length", [101, 300])
def test_ustar_on_request_says_what_it_cannot_say(length):
    with pytest.raises(EncodingError, match="ustar format cannot represent"):
        encode_header("x" * length, 1, format="ustar")
    with pytest.raises(EncodingError, match="ustar format cannot represent"):
        encode_header("x", GIGABYTES_8, format=tarfile.USTAR_FORMAT)


@pytest.mark.parametrize(
    "wrong",
    [
        {"format": "cpio"},
        {"format": []},
        {"mode": -1},
        {"mode": 0o10000},
        {"mtime": 1.5},
        {"mtime": -1},
        {"mtime": 8**11},
        {"uid": -1},
        {"uname": None},
        {"gname": "a\0"},
        {"size": -1},
    ],
)
def test_wrong_arguments(wrong):
    with pytest.raises(SpecError):
        encode_header("a", **{"size": 1, **wrong})


@given(st.integers(0, 5000))
def test_padding_completes_the_block(size):
    assert (size + len(padding(size))) % 512 == 0
    assert len(padding(size)) < 512
    assert not any(padding(size))
