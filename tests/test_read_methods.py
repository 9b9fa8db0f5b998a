"""A stream of the user's own opener is read through its own methods, whichever it has and whoever reads it."""

import gzip
import hashlib
import io
import tarfile

import pytest

import webdataset as wds
from webdataset import stores
from webdataset.cache import FileCache, ShardCache, download
from webdataset.index import ShardEntry, VerifyShards
from webdataset.read_methods import find_read1, find_readinto
from webdataset.stores import ReadAhead, _read_ahead


def archive(samples=4, size=70_000):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for number in range(samples):
            info = tarfile.TarInfo(f"{number}.bin")
            info.size = size
            tar.addfile(info, io.BytesIO(bytes([number]) * size))
    return out.getvalue()


PLAIN = archive()
KEYS = list("0123")
FLIP = bytes(range(255, -1, -1))


def flipped(data):
    return bytes(data).translate(FLIP)


class Forwards:
    """Decrypts; every other name is that of the stream inside."""

    def __init__(self, inside):
        self.inside = inside

    def read(self, size=-1):
        return flipped(self.inside.read(size))

    def __getattr__(self, name):
        return getattr(self.inside, name)


class Slotted(Forwards):
    __slots__ = ("inside",)


class Inherits(io.BytesIO):
    def read(self, size=-1):
        return flipped(super().read(size))


class InheritsTwice(Inherits):
    pass


class HasReadinto(Inherits):
    def readinto(self, view):
        piece = self.read(len(view))
        view[: len(piece)] = piece
        return len(piece)


class HasRead1(Inherits):
    def read1(self, size=-1):
        return self.read(min(size, 1000))


class Least:
    """All that a stream must have; an empty read is None, as for a raw stream without data."""

    def __init__(self, inside):
        self._inside = inside

    def read(self, size):
        return flipped(self._inside.read(size)) or None

    def close(self):
        self._inside.close()


def replaced(inside):
    """`read` is replaced on the object itself."""

    class Named(io.BytesIO):
        pass

    stream = Named(inside.getvalue())
    inherited = stream.read
    stream.read = lambda size=-1: flipped(inherited(size))
    return stream


def of_bytes(kind):
    return lambda inside: kind(inside.getvalue())


STREAMS = {
    "forwards": Forwards,
    "slots": Slotted,
    "inherits": of_bytes(Inherits),
    "inherits twice": of_bytes(InheritsTwice),
    "has readinto": of_bytes(HasReadinto),
    "has read1": of_bytes(HasRead1),
    "least": Least,
    "replaced": replaced,
}


@pytest.fixture(params=STREAMS)
def secret(request, monkeypatch):
    """Serves `secret://`: what is stored is not what `read` returns."""
    contents = {"a.tar": PLAIN, "a.tar.gz": gzip.compress(PLAIN)}
    kind = STREAMS[request.param]
    opener = lambda url, mode, bufsize: kind(io.BytesIO(flipped(contents[url.rpartition("/")[2]])))
    monkeypatch.setitem(stores.schemes, "secret", opener)
    return opener


def keys(url, **options):
    with wds.WebDataset(url, shardshuffle=False, **options) as dataset:
        return [sample["__key__"] for sample in dataset]


@pytest.mark.parametrize("name", ["a.tar", "a.tar.gz"])
@pytest.mark.parametrize("options", [{}, {"read_ahead": 2}, {"in_memory": True}, {"select_files": "*.bin"}], ids=str)
def test_streamed(secret, name, options):
    assert keys(f"secret://h/{name}", **options) == KEYS


@pytest.mark.parametrize("slow", [False, True])
def test_ahead(secret, slow, monkeypatch):
    monkeypatch.setattr(_read_ahead._Shared, "slow", slow)
    with ReadAhead(["secret://h/a.tar"] * 2) as streams:
        assert [stream.read() for stream in streams] == [PLAIN] * 2
    with ReadAhead(["secret://h/a.tar"]) as streams:
        buffer = bytearray(len(PLAIN))
        [stream] = [stream for stream in streams if fill(stream, buffer)]
    assert buffer == PLAIN


def fill(stream, buffer):
    view, start = memoryview(buffer), 0
    while count := stream.readinto(view[start:]):
        start += count
    return start == len(buffer)


def test_cached(secret, tmp_path):
    (tmp_path / "c").mkdir()
    for _ in range(2):
        assert keys("secret://h/a.tar", cache_dir=str(tmp_path / "c")) == KEYS
    with ShardCache(tmp_path / "small", limit=1000).open("secret://h/a.tar") as stream:  # larger than the limit
        assert stream.read() == PLAIN
    for opened in FileCache(tmp_path / "files")(["secret://h/a.tar"]):
        with opened["stream"] as stream:
            assert stream.read() == PLAIN
    download("secret://h/a.tar", tmp_path / "copy.tar")
    assert (tmp_path / "copy.tar").read_bytes() == PLAIN


@pytest.mark.parametrize("check", [True, False])
def test_verified(secret, monkeypatch, check):
    monkeypatch.setenv("WDS_VERIFY_MD5", "1" if check else "0")
    entry = ShardEntry("a.tar", 4, filesize=len(PLAIN), md5sum=hashlib.md5(PLAIN).hexdigest())
    for read in (lambda stream, buffer: fill(stream, buffer), lambda stream, buffer: fill(Forward(stream), buffer)):
        buffer = bytearray(len(PLAIN))
        stream = VerifyShards([entry]).stream("a.tar", secret("secret://h/a.tar", "rb", 0))
        assert read(stream, buffer) and buffer == PLAIN
        assert stream.readinto(memoryview(bytearray(1))) == 0  # the end, where sizes are compared
        stream.close()


class Forward:
    """Reads by `read` what is asked for by `readinto`."""

    def __init__(self, stream):
        self.readinto = find_readinto(type("Only", (), {"read": staticmethod(stream.read)})())


def test_a_file_is_read_without_a_copy():
    stream = io.BytesIO(b"abc")
    assert find_readinto(stream) == stream.readinto and find_read1(stream) == stream.read1
    own = HasReadinto(b"abc")
    assert find_readinto(own) == own.readinto and find_read1(own) == own.read
