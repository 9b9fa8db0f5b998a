"""Everything else: fsspec behind the same door, and nothing through it that the door forbids."""

import sys

import pytest

from webdataset import config, stores
from webdataset.errors import MissingDependency, UnknownScheme, UnsafeContent

pytest.importorskip("fsspec", reason="fsspec is not installed")


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
