"""A path object is a file, whatever its name looks like; so is what a `file:` address decodes to.

A file may be called `pipe:touch x;.tar`: whoever may write into a folder chooses the names in it, and a program finds
them by `Path.glob`. Here every function that takes an address gets such a name, and no command may be made of it.
"""

import inspect
import json
import os
from pathlib import Path

import pytest

import webdataset as wds
import wids
from webdataset import index, interop, stores, tools
from webdataset.address import Address, Birth
from webdataset.cache import download
from webdataset.errors import UnsafeContent, WebDatasetError
from webdataset.stores import PipeStore
from webdataset.testing import make_shard
from webdataset.tools import MixSource, read_mix_sources, read_shard_list

NAME = "pipe:touch marker;.tar"
ENCODED = "file:pipe%3Atouch%20marker;.tar"


@pytest.fixture
def commands(tmp_path, monkeypatch):
    """The commands that were opened, in a folder with a shard of such a name."""
    opened = []

    def note(_, url, *__):
        opened.append(url)
        raise AssertionError(f"the command {url!r} was opened")

    monkeypatch.setattr(PipeStore, "open_read", note)
    monkeypatch.setattr(PipeStore, "open_write", note)
    monkeypatch.chdir(tmp_path)
    make_shard(Path(NAME), [{"__key__": "0", "txt": "hello"}])
    assert os.listdir(tmp_path) == [NAME]
    return opened


def content(url):
    with stores.open_read(url) as stream:
        return stream.read()


def streamed(opened):
    for shard in opened:
        with shard["stream"] as stream:
            return stream.read()


FORMS = {
    "path": Path(NAME),
    "encoded": Address(ENCODED, Birth.DESCRIPTION, "."),
    "listed": stores.local_file(NAME),
}

READERS = {
    "FileCache": lambda u: streamed(wds.FileCache("c")([{"url": u}])),
    "FileCache of addresses": lambda u: streamed(wds.FileCache("c")([u])),
    "StreamingOpen": lambda u: streamed(wds.StreamingOpen()([{"url": u}])),
    "url_opener": lambda u: streamed(wds.url_opener([{"url": u}])),
    "cached_url_opener": lambda u: streamed(wds.cached_url_opener([{"url": u}], cache_dir="c")),
    "WebDataset": lambda u: list(wds.WebDataset(u, shardshuffle=False)),
    "WebDataset of a list": lambda u: list(wds.WebDataset([u], shardshuffle=False)),
    "WebDataset with an index": lambda u: list(wds.WebDataset(u, shardshuffle=False, index=True)),
    "local_path of samples": lambda u: [content(s["__local_path__"]) for s in wds.WebDataset(u, shardshuffle=False)],
    "IndexedDataset": lambda u: wds.IndexedDataset(u)[0],
    "wids": lambda u: wids.ShardListDataset(u)[0],
    "create": lambda u: tools.create(u, "created-%d.tar").samples_out,
    "cat": lambda u: tools.cat([u], "cat.tar").samples_out,
    "map_shards": lambda u: wds.map_shards(lambda samples: samples, [u], "mapped/").samples_out,
    "names of inputs": lambda u: wds.map_shards(lambda samples: samples, [u], "{stem}-x.tar").samples_out,
    "names alone": lambda u: wds.map_shards(lambda samples: samples, [u], "{name}.new").samples_out,
    "is_local": lambda u: content(stores.is_local(u)),
    "download": lambda u: (download(u, Path("pipe:copy.tar")), content(Path("pipe:copy.tar"))),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("reader", READERS)
def test_the_file_is_read(commands, reader, form):
    assert READERS[reader](FORMS[form])
    assert commands == [] and not Path("marker").exists()


def functions_of(module):
    return [getattr(module, name) for name in module.__all__ if inspect.isroutine(getattr(module, name))]


# Those of Hugging Face read through `shards.expand` alone, and their package takes half a minute here.
EVERY = [each for each in (*functions_of(tools), *functions_of(index), *functions_of(interop)) if "hf" not in each.__name__]  # fmt: skip


@pytest.mark.parametrize("function", EVERY, ids=lambda function: f"{function.__module__}.{function.__name__}")
def test_no_function_makes_a_command_of_a_path(commands, function):
    """Whatever else each makes of its arguments: that a path among them is opened as a command is what would be wrong."""
    path = FORMS["path"]
    for given in (path, [path]):
        for more in ((), ("out.tar",), (given, "out.tar"), (Path("pipe:touch marker-%d.tar"),), ("0", "txt")):
            try:
                found = function(given, *more)
                list(found) if inspect.isgenerator(found) else None
            except Exception as error:  # noqa: BLE001 - most of these calls make no sense
                assert not isinstance(error, AssertionError)
    assert commands == []


def test_what_is_written_to_a_path_is_a_file(commands):
    with wds.TarWriter(Path("pipe:cat.tar")) as sink:
        sink.write({"__key__": "0", "txt": "hello"})
    os.mkdir("pipe:index")
    with wds.ShardWriter(Path("pipe:cat-%d.tar"), index=Path("pipe:index"), verbose=0) as sink:
        sink.write({"__key__": "0", "txt": "hello"})
    with wds.ShardWriter(Path("cat-%d.tar"), description=Path("pipe:cat.json"), verbose=0) as sink:
        sink.write({"__key__": "0", "txt": "hello"})
    assert {"pipe:cat.tar", "pipe:cat-0.tar", "pipe:cat.json"} <= set(os.listdir()) and len(os.listdir("pipe:index"))
    assert len(list(wds.WebDataset(Path("pipe:cat.json"), shardshuffle=False))) == 1
    assert commands == []


@pytest.mark.parametrize("birth", [Birth.DESCRIPTION, Birth.LISTING, Birth.FILE])
def test_a_name_from_data_is_not_put_into_a_command(commands, birth):
    make_shard("a;touch marker;.tar", [{"__key__": "0", "txt": "hello"}])
    for template in ("pipe:cat > {name}", "PIPE:cat > x/{stem}"):
        with pytest.raises(UnsafeContent, match="not put into a command"):
            wds.map_shards(lambda samples: samples, [Address("./a;touch marker;.tar", birth, ".")], template)
    assert commands == []


LISTED = ["pipe:touch marker", "PIPE:touch marker", "-", "local://{secret}", "zip://a::file://{secret}"]
ELSEWHERE = ["{secret}", "file:{secret}", "../secret.tar", "../*.tar", "{{..,x}}/secret.tar", "../"]


@pytest.mark.parametrize("place", ["list", "yaml"])
def test_a_file_that_lists_shards_is_data(commands, tmp_path, monkeypatch, place):
    """Like a YAML spec: no commands; and local files below the current directory or its own, but for a list here."""
    pytest.importorskip("yaml")
    (tmp_path / "data").mkdir()
    monkeypatch.chdir(tmp_path / "data")
    secret = tmp_path / "secret.tar"
    secret.write_bytes(b"SECRET")

    def named(text, where):
        text = text.format(secret=secret)
        stores.write_bytes(where, text.encode() if place == "list" else json.dumps({"sources": [{"shards": text}]}).encode())  # fmt: skip
        return read_shard_list(where) if place == "list" else read_mix_sources(where)[0].inputs

    for text in (*LISTED, *ELSEWHERE):
        with pytest.raises(WebDatasetError):
            named(text, "memory://elsewhere/list.txt")
        if place == "yaml" or text in LISTED:
            with pytest.raises(WebDatasetError):
                named(text, "list.txt")
    assert [str(url) for url in named("{{a,b}}.tar", "list.txt")] == ["a.tar", "b.tar"]
    make_shard("a.tar", [{"__key__": "0", "txt": "hello"}])
    assert [content(url)[:5] for url in named("*.tar", "list.txt")] == [b"0.txt"]
    assert tools.mix([MixSource(named("a.tar", "list.txt"))], "mixed.tar").samples_out == 1
    assert commands == []
