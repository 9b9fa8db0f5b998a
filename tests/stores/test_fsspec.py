"""Everything else: fsspec behind the same door, and nothing through it that the door forbids."""

import itertools
import os
import random
import sys

import pytest

import servers
from webdataset import config, stores
from webdataset.errors import MissingDependency, StoreError, UnknownScheme, UnsafeContent
from webdataset.stores._fsspec import _TIMES, FsspecStore

pytest.importorskip("fsspec", reason="fsspec is not installed")
from fsspec.spec import AbstractBufferedFile, AbstractFileSystem  # noqa: E402


def test_a_scheme_that_nobody_knows():
    with pytest.raises(UnknownScheme, match="'nonsense'") as caught:
        stores.open_read("nonsense://x/a.tar")
    assert isinstance(caught.value, ValueError)
    assert "stores.schemes" in caught.value.hint


def test_a_package_that_is_missing(monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    monkeypatch.setitem(sys.modules, "pyarrow.fs", None)
    with pytest.raises(MissingDependency, match="hdfs"):
        stores.open_read("hdfs://host/a.tar")
    monkeypatch.setitem(sys.modules, "fsspec", None)
    with pytest.raises(MissingDependency, match=r"webdataset\[fsspec\]"):
        stores.open_read("gdrive://a.tar")


def test_chained_addresses(tmp_path):
    (tmp_path / "a.txt").write_bytes(b"hello")
    with stores.open_read(f"local://{tmp_path}/a.txt") as stream:
        assert stream.read() == b"hello"


@pytest.mark.parametrize(
    "disguise", ["local://{}", "simplecache::file://{}", "filecache::local://{}", "dir://x::file://{}"]
)
def test_D17_secure_mode_is_not_bypassed_by_another_name(tmp_path, monkeypatch, disguise):
    (tmp_path / "a.txt").write_bytes(b"hello")
    monkeypatch.setitem(vars(config.safety), "enforce", True)
    with pytest.raises(UnsafeContent, match="cannot open local files"):
        stores.open_read(disguise.format(tmp_path / "a.txt"))


def test_every_reading_verb_is_tried_again(monkeypatch):
    """A file system whose server drops every second call."""
    import fsspec
    from fsspec.implementations.memory import MemoryFileSystem

    class Dropping(MemoryFileSystem):
        protocol = "dropping"
        calls = 0

        @classmethod
        def _strip_protocol(cls, path):
            return MemoryFileSystem._strip_protocol(path.replace("dropping://", "memory://"))

        def _call(self):
            Dropping.calls += 1
            if Dropping.calls % 2:
                raise ConnectionResetError("the server closed the connection")

        def find(self, *args, **options):
            self._call()
            return super().find(*args, **options)

        def info(self, *args, **options):
            self._call()
            return super().info(*args, **options)

    fsspec.register_implementation("dropping", Dropping, clobber=True)
    MemoryFileSystem().pipe("/d/a.tar", b"hello")
    try:
        assert stores.stat("dropping://d/a.tar").size == 5
        with stores.open_read("dropping://d/a.tar") as stream:
            assert stream.read() == b"hello"
        assert [url.rpartition("/")[2] for url in stores.list_urls("dropping://d/")] == ["a.tar"]
    finally:
        MemoryFileSystem().rm("/d", recursive=True)


OLD, NEW = random.Random(1).randbytes(6000), random.Random(2).randbytes(6000)
BLOCK = 1000


class Replaced(AbstractFileSystem):
    """A file that is replaced at one call, and a connection that breaks at another; each block is a call of its own."""

    protocol = "replaced"
    version, replaced_at, breaks_at = {}, 0, 0

    @classmethod
    def begin(cls, version, replaced_at, breaks_at):
        cls.version, cls.replaced_at, cls.breaks_at, cls.calls = version, replaced_at, breaks_at, 0

    @classmethod
    def data(cls):
        cls.calls += 1
        if cls.calls == cls.breaks_at:
            raise ConnectionResetError("the server closed the connection")
        return NEW if cls.replaced_at and cls.calls >= cls.replaced_at else OLD

    def info(self, path, **_):
        number = int(self.data() is NEW)
        return {"name": path, "size": 6000, "type": "file"} | {
            name: f"{text}{number}" for name, text in self.version.items()
        }

    def _open(self, path, mode="rb", **options):
        return Blocks(self, path, mode, block_size=BLOCK, cache_type="bytes", size=6000)


class Blocks(AbstractBufferedFile):
    def _fetch_range(self, start, end):
        return Replaced.data()[start:end]


VERSIONS = {"strong": {"ETag": "v"}, **{name: {name: "2026-01-0"} for name in _TIMES}}


@pytest.fixture
def quick(monkeypatch):
    import fsspec

    fsspec.register_implementation("replaced", Replaced, clobber=True)
    monkeypatch.setattr("webdataset.stores._resuming_stream.time.sleep", lambda _: None)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_file_that_is_replaced_at_any_call_is_one_version_or_an_error(version, quick):
    """Whenever it is replaced: before or after its version is asked for, between two blocks, while a fault is healed."""
    store = FsspecStore()
    for replaced_at, breaks_at in itertools.product(range(25), range(0, 25, 3)):
        for read, parts in (
            (lambda: store.open_read("replaced://h/a").read(), (OLD, NEW)),
            (lambda: store.read_range("replaced://h/a", 500, 3000, known), (OLD[500:3500],)),
        ):
            Replaced.begin(VERSIONS[version], 0, 0)
            known = store.stat("replaced://h/a").etag
            Replaced.begin(VERSIONS[version], replaced_at, breaks_at)
            try:
                assert read() in parts, (replaced_at, breaks_at)
            except StoreError as error:
                assert replaced_at and "changed" in str(error), (replaced_at, breaks_at)


def test_a_file_of_another_size_is_another_file(quick):
    Replaced.begin({}, 0, 0)
    assert FsspecStore().read_range("replaced://h/a", 500, 10, size=6000) == OLD[500:510]
    with pytest.raises(StoreError, match="its size was 5999 and is now 6000"):
        FsspecStore().read_range("replaced://h/a", 500, 10, size=5999)


def test_a_file_of_a_real_server_that_is_replaced_between_two_blocks(tmp_path):
    old, new = (random.Random(number).randbytes(12 << 20) for number in (1, 2))  # a block of ftp has 5 MiB
    with servers.ftp(tmp_path) as port:
        (tmp_path / "a.tar").write_bytes(old)
        os.utime(tmp_path / "a.tar", (1e9, 1e9))
        with stores.open_read(f"ftp://u:p@127.0.0.1:{port}/a.tar") as stream:
            assert stream.read(1 << 20) == old[: 1 << 20]
            (tmp_path / "b.tar").write_bytes(new)
            os.replace(tmp_path / "b.tar", tmp_path / "a.tar")
            with pytest.raises(StoreError, match="the object changed while it was read"):
                stream.read()
