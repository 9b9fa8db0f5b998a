import os
import subprocess
import tarfile
from pathlib import Path

import pytest
from tests.index.archives import make, many
from hypothesis import given, settings, strategies as st

from webdataset import index
from webdataset.errors import EncodingError, FormatError, WebDatasetError
from webdataset.index import build, count_dali, read_dali, write_dali

EXAMPLE = b"v1.2 2\njpg 512 600 a/x0.jpg cls 2048 1 a/x0.cls\njpg 3072 10 a/x1.jpg seg.png 4096 2 a/x1.seg.png\n"


def members_of_example():
    return [("a/x0.jpg", b"x" * 600), ("a/x0.cls", b"1"), ("a/x1.jpg", b"y" * 10), ("a/x1.seg.png", b"zz")]


def test_byte_identical_to_the_published_example(tmp_path):
    (tmp_path / "a.tar").write_bytes(make(members_of_example()))
    assert write_dali(index.build_index(str(tmp_path / "a.tar"))) == EXAMPLE
    assert write_dali(read_dali(EXAMPLE)) == EXAMPLE


# What wds2idx 2.4.0 wrote for these archives.
RECORDED = {
    "pax": b"v1.2 2\njpg 1536 600 " + b"a" * 120 + b".jpg\ntxt 3072 1 b.txt\n",
    "prefix": b"v1.2 2\njpg 512 600 " + b"d" * 60 + b"/" + b"a" * 80 + b".jpg\ntxt 2048 1 b.txt\n",
    "again": b"v1.2 3\nx 512 1 a.x\nx 1536 1 b.x\ny 2560 1 a.y\n",
    "duplicate": b"v1.2 1\na 512 1 x2.a a 1536 1 x2.a\n",
    "upper": b"v1.2 1\nJPG 512 600 x0.JPG\n",
}
ARCHIVES = {
    "pax": make([("a" * 120 + ".jpg", b"x" * 600), ("b.txt", b"1")], tarfile.PAX_FORMAT),
    "prefix": make([("d" * 60 + "/" + "a" * 80 + ".jpg", b"x" * 600), ("b.txt", b"1")]),
    "again": make([("a.x", b"1"), ("b.x", b"1"), ("a.y", b"1")]),
    "duplicate": make([("x2.a", b"1"), ("x2.a", b"2")]),
    "upper": make([("x0.JPG", b"x" * 600)]),
}


@pytest.mark.parametrize("name", list(RECORDED))
def test_byte_identical_to_what_wds2idx_wrote(tmp_path, name):
    (tmp_path / "a.tar").write_bytes(ARCHIVES[name])
    assert write_dali(index.build_index(str(tmp_path / "a.tar"))) == RECORDED[name]


def test_gnu_long_names_get_true_offsets(tmp_path):
    """wds2idx writes 512 here, where the long name itself is stored."""
    (tmp_path / "a.tar").write_bytes(make([("a" * 120 + ".jpg", b"x" * 600), ("b.txt", b"1")], tarfile.GNU_FORMAT))
    assert index.build_index(str(tmp_path / "a.tar")).extents(0)[0].offset == 1536


def test_blanks_in_names_give_the_older_version_and_blanks_in_extensions_none():
    assert write_dali(build([("a b.jpg", 512, 600), ("c.txt", 2048, 1)])) == b"v1.1 2\njpg 512 600\ntxt 2048 1\n"
    for name in ("a.j pg", "a.", "a.j\tpg"):
        with pytest.raises(EncodingError):
            write_dali(build([(name, 512, 600)]))


def test_the_older_version_has_no_keys():
    older = read_dali(b"v1.1 2\njpg 512 600\ntxt 2048 1\n")
    assert len(older) == 2 and older.key(0) is None and older.extents(1)[0] == ("txt", 2048, 1)


def test_members_of_no_sample_in_other_tools_files_are_left_out():
    text = b"v1.2 6\nJPG 512 600 x0.JPG\nnoext 2048 1 noext\njpg 3072 0 x1.jpg\na 5632 1 x2.a\ntxt 7680 1 __meta__/k.txt\ntxt 8704 1 d/.h.txt\n"
    assert list(read_dali(text).keys) == ["x0", "x1", "x2"]


NAMES = st.builds(
    lambda key, ext: f"{key}.{ext}",
    st.text("abc/é", min_size=1, max_size=9).filter(lambda k: k[-1] != "/"),
    st.sampled_from(["jpg", "a.b"]),
)


@given(st.lists(st.tuples(NAMES, st.integers(0, 5000)), max_size=20))
@settings(max_examples=80)
def test_written_and_read_again(members):
    offset, rows = 512, []
    for name, size in members:
        rows.append((name, offset, size))
        offset += -(-size // 512) * 512 + 512
    built = build(rows)
    text = write_dali(built)
    assert read_dali(text) == built and count_dali(text[:40]) == len(built) and write_dali(read_dali(text)) == text


def plainly_written(built):
    """The same text, one member at a time."""
    lines = [f"v1.2 {len(built)}"]
    for key, extents in zip(built.keys, built.rows(), strict=True):
        lines.append(" ".join(f"{e.field} {e.offset} {e.size} {key}.{e.field}" for e in extents))
    return "".join(f"{line}\n" for line in lines).encode("utf-8", "surrogateescape")


@given(
    st.lists(
        st.tuples(
            st.text("ab/é\udcff", min_size=1, max_size=140).filter(lambda k: k[-1] != "/"),
            st.sampled_from(["jpg", "a.b", "metadata.json", "x" * 150]),
            st.sampled_from([0, 1, 512, 99_999, 123_456_789_012]),
        ),
        min_size=1,
        max_size=30,
    )
)
@settings(max_examples=80, deadline=None)
def test_all_at_once_is_what_one_by_one_gives(members):
    offset, rows = 512, []
    for key, field, size in members:
        rows.append((f"{key}.{field}", offset, size))
        offset += -(-size // 512) * 512 + 512
    built = build(rows)
    text = write_dali(built)
    assert text == plainly_written(built) and read_dali(text) == built


@given(st.lists(st.text("ab./_é\udcff", min_size=1, max_size=12), min_size=1, max_size=12))
@settings(max_examples=400, deadline=None)
def test_names_are_split_as_the_reader_splits_them(names):
    """Whatever other tools wrote into an index: the names of all members are split at once."""
    lines, last = [], None
    for number, name in enumerate(names):
        split = index.sample_and_field(name)
        if not lines or (split is not None and split[0] != last):
            lines.append("")
        lines[-1] += f" x {1024 * number + 512} 1 {name}"
        last = last if split is None else split[0]
    text = "\n".join([f"v1.2 {len(lines)}", *(line.strip(" ") for line in lines), ""])
    found = read_dali(text.encode("utf-8", "surrogateescape"))
    expected = [split for name in names if (split := index.sample_and_field(name)) is not None]
    members = zip(found.keys, found.rows(), strict=True)
    assert [(key, extent.field) for key, extents in members for extent in extents] == expected


def test_one_very_long_name_does_not_make_all_rows_long():
    import tracemalloc

    names = ["x" * 200_000 + ".jpg", *(f"{number:06d}.jpg" for number in range(3000))]
    built = build([(name, 512 + 1024 * number, 100) for number, name in enumerate(names)])
    tracemalloc.start()
    text = write_dali(built)
    assert read_dali(text) == built
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 200e6


@pytest.mark.parametrize("wrong", [
    b"", b"v1.2", b"v1.3 1\njpg 512 1 a.jpg\n", b"v1.2 -1\n", b"v1.2 x\n", b"\xff\xfe", b"v1.2 1 1\njpg 512 1 a.jpg\n",
    EXAMPLE[:-1],                                             # cut in the last line
    EXAMPLE[: EXAMPLE.rindex(b"\n", 0, -1) + 1],              # cut between lines
    EXAMPLE.replace(b"v1.2 2", b"v1.2 3"), EXAMPLE.replace(b"v1.2 2", b"v1.2 1"),
    b"v1.2 1\njpg 512 1\n", b"v1.2 1\n\n", b"v1.2 1\njpg  512 1 a.jpg\n",
    b"v1.2 1\njpg -512 1 a.jpg\n", b"v1.2 1\njpg 512 -1 a.jpg\n", b"v1.2 1\njpg 5x2 1 a.jpg\n",
    b"v1.2 1\njpg 513 1 a.jpg\n", b"v1.2 1\njpg 0 1 a.jpg\n",
    b"v1.2 1\njpg 512 600 a.jpg cls 1024 1 a.cls\n",          # overlap
    b"v1.2 2\njpg 2048 600 a.jpg\njpg 512 1 b.jpg\n",         # backwards
    b"v1.2 1\njpg 99999999999999999999 1 a.jpg\n", b"v1.2 1\njpg 512 999999999999999999999 a.jpg\n",
    b"v1.2 1\njpg 512 999999999999999999 a.jpg cls 1024 1 a.cls\n",
    "v1.2 1\njpg ٥١٢ 1 a.jpg\n".encode(),
])  # fmt: skip
def test_hostile_and_damaged_texts_are_typed_errors(wrong):
    with pytest.raises(FormatError) as caught:
        read_dali(wrong, "a.idx")
    assert caught.value.hint


@given(st.binary(max_size=60) | st.text("v1.2 512\njpga-", max_size=60).map(str.encode))
@settings(max_examples=300)
def test_nonsense_is_refused_or_harmless(data):
    try:
        read_dali(data)
    except WebDatasetError:
        pass


def test_every_truncation_is_noticed():
    text = write_dali(build([(f"{n:04d}.jpg", 512 + 1024 * n, 100) for n in range(40)]))
    for length in range(len(text)):
        with pytest.raises(FormatError):
            read_dali(text[:length])


WDS2IDX = os.environ.get("WDS_TEST_DALI_PYTHON", "")


@pytest.mark.long
@pytest.mark.skipif(not WDS2IDX, reason="set WDS_TEST_DALI_PYTHON to a Python with nvidia-dali-cuda120")
def test_wds2idx_itself_and_dali_agree(tmp_path):
    archives = {**ARCHIVES, "many": make(many(500)), "space": make([("a b.jpg", b"x" * 600), ("c.jpg", b"1")])}
    archives["gnu"] = make([("a" * 120 + ".jpg", b"x" * 600), ("b.jpg", b"1")], tarfile.GNU_FORMAT)
    tool = Path(WDS2IDX).with_name("wds2idx")
    for name, data in archives.items():
        (tmp_path / f"{name}.tar").write_bytes(data)
        ours = write_dali(index.build_index(str(tmp_path / f"{name}.tar")))
        (tmp_path / f"{name}.idx").write_bytes(ours)
        if name not in {"gnu", "space"}:
            subprocess.run([tool, tmp_path / f"{name}.tar", tmp_path / "theirs"], check=True, capture_output=True)
            assert (tmp_path / "theirs").read_bytes() == ours, name
    program = Path(__file__).with_name("read_with_dali.py")
    for name in ("many", "gnu", "space", "prefix"):
        out = subprocess.run(
            [WDS2IDX, program, tmp_path / f"{name}.tar", tmp_path / f"{name}.idx"], check=True, capture_output=True
        )
        built = read_dali((tmp_path / f"{name}.idx").read_bytes())
        rows = [
            {extent.field: archives[name][extent.offset : extent.stop].hex() for extent in row} for row in built.rows()
        ]
        assert out.stdout.decode().split() == [row.get("jpg") or "-" for row in rows]
