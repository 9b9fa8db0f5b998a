"""The verbs, the scheme table, rewriting, and safety."""

import io
import sys
from pathlib import Path

import pytest

from webdataset import config, stores
from webdataset.errors import ShardNotFound, SpecError, UnsafeContent
from webdataset.index import open_bytes


@pytest.fixture
def secure(monkeypatch):
    monkeypatch.setitem(vars(config.safety), "enforce", True)


def test_D30_odd_names_are_just_names(tmp_path):
    for name in ("a#1.tar", "a?x=1.tar", "a%20b.tar", "sp ace.tar", "note:1.tar", "ünï.tar"):
        path = tmp_path / name
        path.write_bytes(name.encode())
        for address in (str(path), path):
            with stores.open_read(address) as stream:
                assert stream.read() == name.encode()
        assert stores.is_local(path) == str(path)


def test_file_urls_are_percent_decoded(tmp_path):
    (tmp_path / "a b#1.tar").write_bytes(b"x")
    with stores.open_read(f"file://{tmp_path}/a%20b%231.tar") as stream:
        assert stream.read() == b"x"
    assert stores.is_local(f"file:{tmp_path}/a%20b%231.tar") == f"{tmp_path}/a b#1.tar"
    with pytest.raises(SpecError, match="this machine"):
        stores.is_local("file://elsewhere/a.tar")


def test_drive_letters_are_local():
    assert stores.is_local("C:/data/a.tar") == "C:/data/a.tar"
    assert stores.is_local("c:\\data\\a.tar") == "c:\\data\\a.tar"


def test_a_path_object_is_a_file_even_when_it_looks_like_something_else(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("pipe:x").write_bytes(b"file")
    with stores.open_read(Path("pipe:x")) as stream:
        assert stream.read() == b"file"
    with pytest.raises(SpecError, match="string or a path"):
        stores.open_read(7)


def test_D30_standard_input_and_output(monkeypatch, capsysbinary):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BufferedReader(io.BytesIO(b"hello"))))
    with stores.open_read("-", start=1) as stream:
        assert stream.read() == b"ello"
    assert not sys.stdin.buffer.closed
    with stores.open_write("-") as stream:
        stream.write(b"out")
    assert capsysbinary.readouterr().out == b"out"


def test_user_schemes_are_honoured_by_every_verb(monkeypatch):
    seen = []

    def opener(url, mode, bufsize):
        seen.append((url, mode))
        return io.BytesIO(b"hello")

    monkeypatch.setitem(stores.schemes, "mine", opener)
    assert stores.open_read("mine://x").read() == b"hello"
    assert stores.open_read("mine:x", start=2).read() == b"llo"
    assert stores.read_range("mine:x", 1, 2) == b"el"
    assert stores.gopen("mine:x", "wb", bufsize=1) is not None
    assert seen[-1] == ("mine:x", "wb")


class Box(stores.Store):
    """A user's store with the `read_range` of version 2.0.0."""

    def open_read(self, url, start=0):
        return io.BytesIO(b"hello"[start:])

    def stat(self, url):
        return stores.Stat(5, "v1")

    def read_range(self, url, start, length, version=None):
        assert version in {None, "v1"}
        return super().read_range(url, start, length, version)


def test_a_store_that_compares_no_sizes_goes_on_working(monkeypatch):
    monkeypatch.setitem(stores.schemes, "box", Box())
    assert stores.read_range("box://x", 1, 2, version="v1", size=5) == b"el"
    assert stores.read_range("box://x", 1, 2, size=5) == b"el"
    assert open_bytes("box://x").read(0, 5) == b"hello"


def test_users_may_replace_a_builtin_scheme(monkeypatch, tmp_path):
    monkeypatch.setitem(stores.schemes, "", lambda url, mode, bufsize: io.BytesIO(url.encode()))
    assert stores.open_read("plain/name").read() == b"plain/name"
    assert stores.is_local("plain/name") is None


def test_the_table_can_be_called_like_the_public_one(tmp_path):
    (tmp_path / "a").write_bytes(b"x")
    with stores.schemes["file"](f"file:{tmp_path}/a", "rb", 8192) as stream:
        assert stream.read() == b"x"
    with pytest.raises(SpecError, match="mode"):
        stores.schemes["pipe"]("pipe:ls", "r+")
    with pytest.raises(SpecError, match="mode"):
        stores.gopen("x", "r")


@pytest.mark.parametrize("odd", [3, stores.MemoryStore])
def test_a_broken_table_entry(monkeypatch, odd):
    monkeypatch.setitem(stores.schemes, "odd", odd)
    with pytest.raises(SpecError, match="expected a Store object or a function"):
        stores.open_read("odd://x")


def test_rewriting(monkeypatch, tmp_path):
    (tmp_path / "a.tar").write_bytes(b"x")
    monkeypatch.setenv("GOPEN_REWRITE", f"zzz=y;https?://([a-z]+)/={tmp_path}/;{tmp_path}=never")
    assert stores.rewrite_url("http://host/a.tar") == f"{tmp_path}/a.tar"
    assert stores.rewrite_url("see http://host/a.tar") == "see http://host/a.tar"
    assert stores.is_local("http://host/a.tar") == f"{tmp_path}/a.tar"
    with stores.open_read("http://host/a.tar") as stream:
        assert stream.read() == b"x"


@pytest.mark.parametrize("rules", ["nonsense", "a=b;nonsense", "(=x", r"a=\7"])
def test_D31_a_malformed_rule_says_what_a_rule_is(monkeypatch, rules):
    monkeypatch.setenv("GOPEN_REWRITE", rules)
    with pytest.raises(SpecError, match="regex=replacement"):
        stores.open_read("a.tar")


def test_a_rewrite_rule_may_contain_an_equals_sign(monkeypatch):
    monkeypatch.setenv("GOPEN_REWRITE", "a=b=c")
    assert stores.rewrite_url("ax") == "b=cx"


def test_D17_secure_mode_has_no_way_round(secure, monkeypatch, tmp_path):
    (tmp_path / "a.tar").write_bytes(b"x")
    local = "gopen: unsafe_gopen is False, cannot open local files"
    for act in (
        lambda: stores.open_read(tmp_path / "a.tar"),
        lambda: stores.open_read(f"file:{tmp_path}/a.tar"),
        lambda: stores.open_write(tmp_path / "b.tar"),
        lambda: stores.read_range(tmp_path / "a.tar", 0, 1),
        lambda: stores.stat(tmp_path / "a.tar"),
        lambda: stores.list_urls(f"{tmp_path}/*"),
        lambda: stores.is_local(tmp_path / "a.tar"),
        lambda: stores.gopen(str(tmp_path / "a.tar")),
    ):
        with pytest.raises(UnsafeContent, match=local):
            act()
    monkeypatch.setenv("GOPEN_REWRITE", "x=y")
    with pytest.raises(ValueError, match="rewrite_url: unsafe_gopen is False, cannot rewrite URLs using environment"):
        stores.open_read("http://host/a")


def test_secure_mode_allows_the_standard_streams(secure, monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BufferedReader(io.BytesIO(b"hello"))))
    assert stores.open_read("-").read() == b"hello"


def test_listing(tmp_path):
    for name in ("train-1.tar", "train-0.tar", "val-0.tar", ".hidden.tar", "odd[1]?.tar"):
        (tmp_path / name).write_bytes(b"")
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "train-2.tar").write_bytes(b"")
    here = str(tmp_path)
    assert stores.list_urls(f"{here}/train-*.tar") == [f"{here}/train-0.tar", f"{here}/train-1.tar"]
    assert stores.list_urls(f"{here}/**/train-2.tar") == [f"{here}/sub/train-2.tar"]
    everything = [f"{here}/{n}" for n in ("odd[1]?.tar", "train-0.tar", "train-1.tar", "val-0.tar")]
    assert stores.list_urls(f"{here}/") == everything
    assert stores.list_urls(tmp_path) == everything
    assert stores.list_urls(f"{here}/odd[1]?.tar") == [f"{here}/odd[1]?.tar"]
    assert stores.list_urls(f"{here}/nothing-*.tar") == []
    assert stores.list_urls("https://h/a.tar") == ["https://h/a.tar"]
    with pytest.raises(ShardNotFound):
        stores.list_urls(f"{here}/nowhere/")


def test_bad_ranges():
    with pytest.raises(SpecError, match="start >= 0"):
        stores.read_range("memory://x", -1, 2)
