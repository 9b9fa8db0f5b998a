import io
import os
import tarfile
import threading

import pytest
from tests.index.archives import make, many

from webdataset import index, stores
from webdataset.errors import BadHeader, TruncatedShard
from webdataset.index._walk import GiveUpError, Opened, walk

LARGE = [(f"dir/{n:03d}.{ext}", bytes([n]) * (40_000 + n)) for n in range(80) for ext in ("jpg", "bin")]


def walked(tmp_path, data):
    (tmp_path / "a.tar").write_bytes(data)
    shard = Opened(str(tmp_path / "a.tar"))
    try:
        return list(walk(shard))
    except GiveUpError:
        return None
    finally:
        shard.close()


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
    "surprise", ["small", "long name", "pax", "link", "concatenated", "no end", "cut", "empty", "garbage behind"]
)
def test_gives_up_and_leaves_it_to_the_tar_room(tmp_path, surprise):
    data = make(LARGE)
    if surprise == "small":
        data = make(many(200))
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


def test_every_damaged_header_is_noticed(tmp_path):
    data = bytearray(make(LARGE[:4]))
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
