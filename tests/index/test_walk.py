import io
import os
import tarfile
import tempfile
import threading

import pytest
from hypothesis import given, settings, strategies as st
from tests.index.archives import make, many

from webdataset import index, stores
from webdataset.errors import BadHeader, TruncatedShard
from webdataset.index._walk_headers import walk_headers

LARGE = [(f"dir/{n:03d}.{ext}", bytes([n]) * (40_000 + n)) for n in range(80) for ext in ("jpg", "bin")]


def walked(tmp_path, data):
    (tmp_path / "a.tar").write_bytes(data)
    return walk_headers(str(tmp_path / "a.tar"))


def streamed(data):
    with stores.open_write("memory://walk/a.tar") as stream:
        stream.write(data)
    return index.build_index("memory://walk/a.tar")


@pytest.mark.parametrize("format", [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
def test_the_same_index_as_from_the_whole_stream(tmp_path, format):
    members = [("dir", None), *LARGE, ("README", b"x"), ("dir/.hidden.jpg", b"y" * 9)]
    data = make(members, format)
    assert walked(tmp_path, data) is not None
    assert index.build_index(str(tmp_path / "a.tar")) == streamed(data)


@pytest.mark.parametrize(
    "surprise", ["nested", "long name", "pax", "link", "concatenated", "no end", "cut", "empty", "garbage behind"]
)
def test_gives_up_and_leaves_it_to_the_stream_reader(tmp_path, surprise):
    data = make(LARGE)
    if surprise == "nested":
        data = make([("a.tar", make(many(200))), *many(20)])
    elif surprise == "long name":
        data = make([*LARGE, ("n" * 150 + ".jpg", b"x")], tarfile.GNU_FORMAT)
    elif surprise == "pax":
        data = make([*LARGE, ("n" * 150 + ".jpg", b"x")], tarfile.PAX_FORMAT)
    elif surprise == "concatenated":
        data += make(many(3))
    elif surprise == "no end":
        data = data.rstrip(b"\0")
        data += bytes(-len(data) % 512)
    elif surprise == "cut":
        data = data[:50_000]
    elif surprise == "empty":
        data = make([])
    elif surprise == "garbage behind":
        data += b"garbage" * 100
    elif surprise == "link":
        out = io.BytesIO()
        with tarfile.open(fileobj=out, mode="w") as archive:
            link = tarfile.TarInfo("a.jpg")
            link.type, link.linkname = tarfile.SYMTYPE, "b.jpg"
            archive.addfile(link)
        data = out.getvalue()
    assert walked(tmp_path, data) is None
    path = str(tmp_path / "a.tar")
    if surprise in {"no end", "cut"}:
        with pytest.raises(TruncatedShard, match="a.tar"):
            index.build_index(path)
    elif surprise == "garbage behind":
        with pytest.raises(BadHeader):
            index.build_index(path)
    elif surprise == "link":
        with pytest.warns(UserWarning, match="link"):
            assert len(index.build_index(path)) == 0
    else:
        assert index.build_index(path) == streamed(data)


@pytest.mark.parametrize("format", [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
@pytest.mark.parametrize(
    "odd", [[], [("dir", None)], [("README", b"x"), ("dir/.hidden.jpg", b"y"), ("__meta__/a.json", b"{}")]]
)
def test_small_members_are_left_to_the_stream(tmp_path, format, odd):
    members = [*odd, *many(333, fields=("jpg", "seg.png", "metadata.json")), *odd, *many(11, start=900)]
    data = make(members, format)
    assert walked(tmp_path, data) is None
    assert index.build_index(str(tmp_path / "a.tar")) == streamed(data)


@given(
    st.lists(
        st.tuples(
            st.text("ab./_é-", min_size=1, max_size=30).map(lambda name: name.strip("/") or "x"),
            st.binary(max_size=900),
        ),
        min_size=1,
        max_size=40,
    )
)
@settings(max_examples=150, deadline=None)
def test_any_names_give_the_index_of_the_stream(members):
    data = make(members, tarfile.GNU_FORMAT)
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/a.tar"
        with open(path, "wb") as file:
            file.write(data)
        built, expected = index.build_index(path), streamed(data)
    assert built == expected and built.fields == expected.fields


@pytest.mark.parametrize("members", [LARGE[:4], many(2)])
def test_every_damaged_header_is_noticed(tmp_path, members):
    data = bytearray(make(members))
    good = index.build(
        [(info.name, info.offset_data, info.size) for info in tarfile.open(fileobj=io.BytesIO(bytes(data)))]
    )
    for byte in range(0, 257, 3):
        damaged = bytearray(data)
        damaged[good.extents(1)[0].offset - 512 + byte] ^= 1
        (tmp_path / "a.tar").write_bytes(damaged)
        with pytest.raises(BadHeader):
            index.build_index(str(tmp_path / "a.tar"))


def test_a_named_pipe_is_read_as_the_stream_it_is(tmp_path):
    os.mkfifo(tmp_path / "a.tar")
    writer = threading.Thread(target=(tmp_path / "a.tar").write_bytes, args=(make(many(3)),))
    writer.start()
    assert len(index.build_index(str(tmp_path / "a.tar"))) == 3
    writer.join()
