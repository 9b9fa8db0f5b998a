"""TarWriter and ShardWriter."""

import io
import os
import tarfile

import pytest

import webdataset as wds

from .room import of

# --- TarWriter ------------------------------------------------------------------------------------------------------


def written(room, sample=None, **options):
    path = room.path / "out.tar"
    with wds.TarWriter(str(path), **options) as sink:
        sink.write(sample or {"__key__": "k", "cls": 3})
    with tarfile.open(path) as tar:
        return tar.getmembers()


@of("TarWriter.fileobj")
def _(room):
    for target in (str(room.path / "x.tar"), room.path / "y.tar", io.BytesIO()):
        with wds.TarWriter(target) as sink:
            sink.write({"__key__": "k", "cls": 3})
    assert len(target.getvalue()) > 1024
    assert (room.path / "x.tar").read_bytes() == (room.path / "y.tar").read_bytes()


@of("TarWriter.user", "TarWriter.group", "TarWriter.mode", "TarWriter.mtime")
def _(room):
    (member,) = written(room)
    assert (member.uname, member.gname, member.mode) == ("bigdata", "bigdata", 0o444)
    (member,) = written(room, user="me", group="us", mode=0o600, mtime=77)
    assert (member.uname, member.gname, member.mode, member.mtime) == ("me", "us", 0o600, 77)


@of("TarWriter.compress")
def _(room):
    for compress, magic in ((True, b"\x1f\x8b"), ("bz2", b"BZh"), ("xz", b"\xfd7zXZ"), (False, b"k.cls")):
        written(room, compress=compress)
        assert (room.path / "out.tar").read_bytes().startswith(magic)


@of("TarWriter.encoder")
def _(room):
    with pytest.raises(ValueError, match="int"):
        written(room, encoder=False)
    written(room, encoder={"cls": lambda value: b"mine"})
    assert b"mine" in (room.path / "out.tar").read_bytes()
    written(room, encoder=lambda sample: {**sample, "cls": b"all"})
    assert b"all" in (room.path / "out.tar").read_bytes()


@of("TarWriter.keep_meta")
def _(room):
    sample = {"__key__": "k", "cls": 3, "_note": "kept"}
    assert [m.name for m in written(room, sample)] == ["k.cls"]
    assert [m.name for m in written(room, sample, keep_meta=True)] == ["k._note", "k.cls"]


@of("TarWriter.format")
def _(room):
    long = {"__key__": "k" * 200, "cls": 3}
    written(room, long, format=tarfile.GNU_FORMAT)
    assert b"././@LongLink" in (room.path / "out.tar").read_bytes()
    written(room, long, format=tarfile.PAX_FORMAT)
    assert b"path=" in (room.path / "out.tar").read_bytes()


# --- ShardWriter ----------------------------------------------------------------------------------------------------


def shards_written(room, count=5, **options):
    options = {"pattern": str(room.path / "s-%02d.tar"), "verbose": 0, **options}
    with wds.ShardWriter(**options) as sink:
        for number in range(count):
            sink.write({"__key__": f"{number}", "bin": bytes(100)})
    return sorted(path.name for path in room.path.glob("s-*"))


@of("ShardWriter.pattern", "ShardWriter.maxcount", "ShardWriter.start_shard")
def _(room):
    assert shards_written(room, maxcount=2, start_shard=7) == ["s-07.tar", "s-08.tar", "s-09.tar"]


@of("ShardWriter.maxsize")
def _(room):
    assert shards_written(room, maxsize=150) == ["s-00.tar", "s-01.tar", "s-02.tar"]


@of("ShardWriter.post")
def _(room):
    done = []
    shards_written(room, maxcount=3, post=done.append)
    assert [os.path.basename(name) for name in done] == ["s-00.tar", "s-01.tar"]


@of("ShardWriter.verbose")
def _(room):
    assert "s-00.tar" in room.logged(lambda: shards_written(room, verbose=1))
    assert "s-00.tar" not in room.logged(lambda: shards_written(room, verbose=0))


@of("ShardWriter.opener")
def _(room):
    opened = []

    def opener(name):
        opened.append(open(name + ".mine", "wb"))
        return opened[-1]

    assert shards_written(room, opener=opener) == ["s-00.tar.mine"]
    assert opened[0].closed
