"""What a store lists is what is opened under the listed address: that object, or an error; each once."""

from contextlib import contextmanager

import pytest

import servers
from fakes import FakeAis, FakeHub, answer
from odd_names import ODD, REFUSED
from webdataset import stores
from webdataset.errors import SpecError, StoreError, UnsafeContent
from webdataset.testing import LoopbackServer

NAMES = sorted({*ODD, *REFUSED, "a", "../b/x", "./a", "a/.", "a?etl_name=upper", "a?archpath=x", "a?latest-ver=true"})


@contextmanager
def memory(folder, monkeypatch):
    for name in NAMES:
        stores.write_bytes(f"memory://odd/{name}", name.encode())
    yield "memory://odd/", NAMES


@contextmanager
def ais(folder, monkeypatch):
    with FakeAis() as fake:
        monkeypatch.setenv("AIS_ENDPOINT", fake.endpoint)
        fake.objects |= {("bucket", name): name.encode() for name in NAMES}
        fake.objects |= {("b", "x"): b"another bucket"}
        yield "ais://bucket/", NAMES


@contextmanager
def hub(folder, monkeypatch):
    with FakeHub(page=1000) as fake:
        monkeypatch.setenv("HF_ENDPOINT", fake.endpoint)
        fake.files |= {("datasets/me/odd", "main", name): name.encode() for name in NAMES}
        yield "hf://datasets/me/odd/", NAMES


def _as_files(folder):
    """The names that a file system can have."""
    names = [name for name in NAMES if "/" not in name and name not in {".", ".."}]
    for name in names:
        (folder / name).write_bytes(name.encode())
    return names


@contextmanager
def files(folder, monkeypatch):
    yield f"{folder}/", _as_files(folder)


@contextmanager
def ftp(folder, monkeypatch):
    names = [name for name in _as_files(folder) if name.isprintable() or (folder / name).unlink()]
    with servers.ftp(folder) as port:
        yield f"ftp://u:p@127.0.0.1:{port}/", names


@pytest.mark.parametrize("place", [memory, ais, hub, files, ftp], ids=lambda place: place.__name__)
def test_what_is_listed_is_opened(place, tmp_path, monkeypatch):
    monkeypatch.setenv("WDS_RETRIES", "0")
    with place(tmp_path, monkeypatch) as (folder, names):
        store = stores.schemes[stores.scheme_of(folder)]
        listed = [url for url in stores.list_urls(f"{folder}**") if url.startswith(folder)]
        assert len(listed) == len(set(listed)) and {*listed} <= {f"{folder}{name}" for name in names}
        opened = set()
        for url in listed:
            name = url.removeprefix(folder)
            try:
                with stores.open_read(url) as stream:
                    assert stream.read() == name.encode(), name
                assert stores.stat(url).size == len(name.encode()), name
                opened.add(name)
            except (SpecError, StoreError):
                assert name not in ODD or "?" in name, name
        assert len(opened) >= len(names) - len(REFUSED) - 6, (store, sorted(set(names) - opened))
        stores.close_connections()


@pytest.mark.parametrize("url", ["ais://bucket/../b/x", "ais://bucket/x/../y", "hf://datasets/me/odd/../../../x", "hf://datasets/me/.."])  # fmt: skip
def test_a_name_does_not_lead_out_of_its_bucket(url, monkeypatch):
    """Whoever wrote it: a library would resolve it on the way to the server."""
    monkeypatch.setenv("AIS_ENDPOINT", "http://127.0.0.1:1")
    for act in (stores.open_read, stores.stat, lambda url: stores.write_bytes(url, b"x")):
        with pytest.raises(SpecError, match="cannot be opened"):
            act(url)


def test_a_page_that_names_an_object_twice():
    page = b"".join(b'<a href="%s">x</a>' % link for link in (b"a.tar", b"./a.tar", b"/a.tar", b"x/../a.tar", b"b.tar"))
    with LoopbackServer(lambda handler: answer(handler, 200, page)) as server:
        assert stores.list_urls(server.url("*.tar")) == [server.url("a.tar"), server.url("b.tar")]
    stores.close_connections()


def test_the_hub_lists_one_repository():
    from webdataset.address import Address, Birth

    home = "hf://datasets/me/odd@v1/train/"
    for url, near in {
        "hf://datasets/me/odd/x": True,
        "hf://datasets/me/other/x": False,
        "hf://me/odd/x": False,
    }.items():
        if near:
            stores.permitted(Address(url, Birth.LISTING, home))
        else:
            with pytest.raises(UnsafeContent):
                stores.permitted(Address(url, Birth.LISTING, home))
