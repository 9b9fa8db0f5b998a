"""Whatever cannot be opened, and whoever opens it: a typed error that says what, where and what to do.

Every kind of address that fails, for every function and verb that reads or writes one.
"""

import errno
import io
import os
import re
import socket
import tarfile

import pytest
from click.testing import CliRunner

import webdataset as wds
import wids
from webdataset import serve, stores, viewer
from webdataset.cache import FileCache, ShardCache, download
from webdataset.cli._main import VERBS
from webdataset.cli._main import wds as command
from webdataset.errors import WebDatasetError, Where
from webdataset.index import IndexedShards, read_description
from webdataset.testing import SystemFaults
from webdataset.tools import load_function, map_shards, simulate
from webdataset.writers import ShardWriter, TarWriter


def archive():
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for name, data in {"1.txt": b"one", "1.cls": b"1", "2.txt": b"two", "2.cls": b"2"}.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    return out.getvalue()


DATA = archive()


class Bare:
    """What an opener of the user may return: a stream with the one method that is needed."""

    def __init__(self, stored=None, url=None):
        self._stored, self._url = stored, url
        self._stream = io.BytesIO(DATA if stored is None else b"")

    def read(self, size=-1):
        return self._stream.read(size)

    def write(self, data):
        self._stored[self._url] = self._stored.get(self._url, b"") + bytes(data)
        return len(data)


def bare(url, mode, bufsize):
    if not url.endswith(".tar"):
        raise FileNotFoundError(errno.ENOENT, "No such file or directory", url)
    return Bare()


class LibraryError(OSError):
    """As in `requests`: an OSError that only the user's own code knows."""


def fails(error):
    def opener(url, mode, bufsize):
        raise error

    return opener


OPENERS = {
    "broken": fails(OSError(errno.EIO, "Input/output error")),
    "gone": fails(FileNotFoundError(errno.ENOENT, "No such file or directory")),
    "nothing": lambda url, mode, bufsize: None,
    "pathname": lambda url, mode, bufsize: url,
}
TOO_LONG = "x" * (256 << 10)  # Linux: 128 KiB for one argument
UNREADABLE = {
    "missing": "missing/a.tar",
    "missing file:": "file:missing/a.tar",
    "directory": "folder.tar",
    "null": "a\0b.tar",
    "long": "n" * 300 + ".tar",
    "below a file": "here.tar/a.tar",
    "memory": "memory://missing/a.tar",
    "unknown": "nosuchscheme://host/a.tar",
    "refused": "http://127.0.0.1:{port}/a.tar",
    "not an address": "http://[::1/a.tar",
    "too long": f"pipe:cat here.tar; : {TOO_LONG}",
    "command fails": "pipe:exit 3",
    "no command": "pipe:",
    **{kind: f"{kind}://host/a.tar" for kind in OPENERS},
}
# A writer makes a directory that is missing where that is its promise; a command may be given what it does not read.
UNWRITABLE = {
    **{kind: UNREADABLE[kind] for kind in UNREADABLE if kind not in {"missing", "missing file:", "memory"}},
    "command fails": "pipe:cat > /dev/null; exit 3",
}


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A folder with one shard and a folder that is called like one; the openers; a port that nobody listens on."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("WDS_RETRIES", "0")
    (tmp_path / "here.tar").write_bytes(DATA)
    (tmp_path / "folder.tar").mkdir()
    (tmp_path / "cache").mkdir()
    for scheme, opener in OPENERS.items():
        monkeypatch.setitem(stores.schemes, scheme, opener)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield taken.getsockname()[1]


def described(url, port):
    return url.replace("{port}", str(port))


def read(stream):
    with stream:
        return stream.read()


def by_cache(url):
    return read(ShardCache("cache").open(url))


def by_file_cache(url):
    return [opened["stream"].close() for opened in FileCache("cache")([url])]


def by_wids(url):
    with wids.ShardListDataset([{"url": url, "nsamples": 2}], cache_dir="copies") as dataset:
        return dataset[0]


def end(server):
    """Begin to serve, and end."""
    with server:
        pass


def by_catalog(url):
    """The page shows the shards that can be read, and the problems of the others."""
    with viewer.Catalog([url]) as catalog:
        catalog.wait()
        for problem in catalog.problems.values():
            assert not re.match(r"\w+: ", problem.what), "the name of a class of Python's"
            raise WebDatasetError(problem.what, Where(shard=problem.shard), hint=problem.remedy)


def with_close(dataset):
    with dataset:
        return list(dataset)


READERS = {
    "open_read": lambda url: read(stores.open_read(url)),
    "gopen": lambda url: read(wds.gopen(url)),
    "read_range": lambda url: stores.read_range(url, 0, 10),
    "WebDataset": lambda url: with_close(wds.WebDataset([url], shardshuffle=False)),
    "WebDataset, cached": lambda url: with_close(wds.WebDataset([url], shardshuffle=False, cache_dir="cache")),
    "WebDataset, indexed": lambda url: with_close(wds.WebDataset([url], shardshuffle=False, index=True)),
    "tarfile_to_samples": lambda url: list(wds.tarfile_to_samples()([{"url": url}])),
    "IndexedShards": lambda url: list(IndexedShards([url])),
    "read_description": read_description,
    "ShardCache": by_cache,
    "FileCache": by_file_cache,
    "download": lambda url: download(url, "copy.tar"),
    "ShardListDataset": by_wids,
    "map_shards": lambda url: map_shards(list, [url], "out/"),
    "simulate": lambda url: simulate([url]),
    "Worker": lambda url: end(serve.Worker(lambda: serve.shard_pipeline([url], index=True))),
    "Worker, address": lambda url: end(serve.Worker(lambda: serve.shard_pipeline(["here.tar"], index=True), url)),
    "Keys": serve.Keys.load,
    "look": lambda url: serve.look([url], serve.options_from(None, timeout=0.1)),
    "connect": lambda url: list(serve.connect([url], timeout=0.1)),
    "Connection": lambda url: end(serve.Connection(url)),
    "Catalog": by_catalog,
    "load_function": load_function,
    "read_checkpoint": viewer.read_checkpoint,
}
WRITERS = {
    "open_write": lambda url: read_nothing(stores.open_write(url)),
    "gopen": lambda url: read_nothing(wds.gopen(url, "wb")),
    "TarWriter": lambda url: written(TarWriter(url)),
    "ShardWriter": lambda url: written(ShardWriter("%d.tar", opener=lambda _: stores.open_write(url))),
    "download": lambda url: download("here.tar", url),
}
OUT = ("-o", "out.tar")
# What would go on for ever ends at once.
SERVED = ("--bind", "tcp://127.0.0.1:*")
ONCE = ("--count", 1, "--interval", 0)
SEEN = ("--no-browser", "--idle", 0)
READING_VERBS = {
    "create": ("@", *OUT), "cat": ("@", *OUT), "split": ("@", "-o", "o-%d.tar", "-n", 1), "reshard": ("@", "-o", "o-%d.tar", "-n", 1),
    "select": ("@", "--where", "cls > 0", *OUT), "partition": ("@", "-p", "a=0.5", "-o", "{part}-%d.tar"), "check": ("@",),
    "ls": ("@",), "show": ("@",), "get": ("1", "txt", "@"), "first": ("@",), "grep": ("one", "@"), "stats": ("@",),
    "diff": ("here.tar", "@"), "index": ("create", "@"), "query": ("select * from samples", "@"), "bench": ("@",), "doctor": ("@",),
    "sort": ("@", *OUT), "shuffle": ("@", *OUT), "join": ("here.tar", "--with", "@", *OUT), "rename": ("@", "-f", "text=txt", *OUT),
    "recode": ("@", "--short", 8, *OUT), "proc": ("@", "-c", "true", *OUT), "mix": ("1*@", "1*here.tar", *OUT),
    "convert": ("--from", "tar", "@", "out-%d.tfrecord"), "simulate": ("@",),
    "serve": ("@", *SERVED), "serve --keys": ("here.tar", *SERVED, "--keys", "@"), "serve --bind": ("here.tar", "--bind", "@"),
    "serve --to": ("here.tar", "--to", "@"), "monitor": ("@", *ONCE),
    "monitor --keys": ("tcp://127.0.0.1:1", "--keys", "@", *ONCE), "view": ("@", *SEEN),
    "view --compare": ("here.tar", "--compare", "@", *SEEN), "view --pipeline": ("here.tar", "--pipeline", "@", *SEEN),
    "view --checkpoint": ("here.tar", "--pipeline", "os:getcwd", "--checkpoint", "@", *SEEN),
}  # fmt: skip
SHOW_PROBLEMS = {"view", "view --compare"}  # on their page: see `by_catalog`
WRITING_VERBS = {
    "cat": ("here.tar", "-o", "@"), "select": ("here.tar", "--where", "cls > 0", "-o", "@"), "sort": ("here.tar", "-o", "@"),
    "proc": ("here.tar", "-c", "true", "-o", "@"), "query": ("select * from samples", "here.tar", "-o", "@"),
}  # fmt: skip


def read_nothing(sink):
    with sink:
        sink.write(b"x")


def written(sink):
    with sink:
        sink.write({"__key__": "1", "txt": "one"})


def check(error):
    assert isinstance(error, WebDatasetError), repr(error)
    assert len(str(error.where)) < 2000, "a long address is abbreviated"
    assert str(error.where) or re.search(r"pipe:|'|inputs", error.what), f"where? {error}"
    assert error.hint, f"what to do? {error}"


def run(verb, arguments, url):
    """A verb; the exception that it would have shown as one sentence."""
    line = [verb.split()[0], *(str(part).replace("@", url) for part in arguments), "--traceback"]
    result = CliRunner().invoke(command, line)
    assert result.exit_code or verb in SHOW_PROBLEMS, f"{line} says that all is well: {result.output}"
    if isinstance(result.exception, SystemExit | None):
        assert "Traceback" not in result.output
        return None
    return result.exception


def test_every_verb_is_tried():
    assert {verb.split()[0] for verb in READING_VERBS} == {*VERBS}


@pytest.mark.parametrize("kind", UNREADABLE)
@pytest.mark.parametrize("reader", READERS)
def test_functions_that_read(reader, kind, here):
    with pytest.raises(WebDatasetError) as caught:
        READERS[reader](described(UNREADABLE[kind], here))
    check(caught.value)


@pytest.mark.parametrize("kind", UNWRITABLE)
@pytest.mark.parametrize("writer", WRITERS)
def test_functions_that_write(writer, kind, here):
    with pytest.raises(WebDatasetError) as caught:
        WRITERS[writer](described(UNWRITABLE[kind], here))
    check(caught.value)


@pytest.mark.parametrize("verb", READING_VERBS)
def test_verbs_that_read(verb, here):
    for kind, url in UNREADABLE.items():
        if "\0" in url:
            continue  # no shell can pass it
        error = run(verb, READING_VERBS[verb], described(url, here))
        if error is not None:
            try:
                check(error)
            except AssertionError as failure:
                raise AssertionError(f"{kind}: {failure}") from error


@pytest.mark.parametrize("verb", WRITING_VERBS)
def test_verbs_that_write(verb, here):
    for kind, url in UNWRITABLE.items():
        if "\0" not in url and (kind != "directory" or verb == "query"):  # the others write a shard into it
            error = run(verb, WRITING_VERBS[verb], described(url, here))
            if error is not None:
                try:
                    check(error)
                except AssertionError as failure:
                    raise AssertionError(f"{kind}: {failure}") from error


@pytest.mark.parametrize("kind", ["long", "below a file"])
def test_a_folder_for_keys(kind, here):
    with pytest.raises(WebDatasetError) as caught:
        serve.write_keys(UNWRITABLE[kind])
    check(caught.value)
    check(run("serve", ("--new-keys", "@"), UNWRITABLE[kind]))


# They look samples up, and an opener cannot tell the size of a shard.
BY_SIZE = {"IndexedShards", "get", "index", "join"}
# They read something else than an archive, from a file or from the network.
OTHER_FILES = {"read_description", "Keys", "load_function", "read_checkpoint"}
OTHER_ADDRESSES = {"Worker, address", "look", "connect", "Connection"}


@pytest.mark.parametrize("reader", READERS)
def test_a_stream_that_has_nothing_but_read(reader, here, monkeypatch):
    monkeypatch.setitem(stores.schemes, "bare", bare)
    if reader in BY_SIZE | OTHER_FILES | OTHER_ADDRESSES:
        with pytest.raises(WebDatasetError) as caught:
            READERS[reader]("bare://host/a.tar")
        check(caught.value)
    else:
        READERS[reader]("bare://host/a.tar")


# These have other inputs than shards, or go on with what they can read.
NOT_TRIED = {"create", "doctor", "first", "mix", "serve", "monitor"}


@pytest.mark.parametrize("verb", sorted(set(VERBS) - NOT_TRIED))
def test_verbs_read_a_stream_that_has_nothing_but_read(verb, here, monkeypatch):
    monkeypatch.setitem(stores.schemes, "bare", bare)
    arguments = [str(part).replace("@", "bare://host/a.tar") for part in READING_VERBS[verb]]
    result = CliRunner().invoke(command, [verb, *arguments])
    assert result.exit_code == (verb in BY_SIZE), result.output
    assert "Error:" not in result.output  # a sentence of ours, without the name of a class of Python's


@pytest.mark.parametrize("writer", sorted(set(WRITERS) - {"gopen"}))
def test_a_stream_that_has_nothing_but_write(writer, here, monkeypatch):
    stored = {}
    monkeypatch.setitem(stores.schemes, "bare", lambda url, mode, bufsize: Bare(stored, url))
    WRITERS[writer]("bare://host/a.tar")
    assert [len(data) > 0 for data in stored.values()] == [True]


def test_an_error_of_a_library_stays_what_it_is(here, monkeypatch):
    """Only the user's own code can know what to do about it, and it asks for the class."""
    monkeypatch.setitem(stores.schemes, "library", fails(LibraryError("403")))
    with pytest.raises(LibraryError, match="403"):
        stores.open_read("library://host/a.tar")


@pytest.mark.parametrize("error", [errno.ENOMEM, errno.EAGAIN, errno.E2BIG, errno.ENOENT], ids=errno.errorcode.get)
@pytest.mark.parametrize("url", ["pipe:cat here.tar", "pipe:cat > out.tar"])
def test_no_process_can_be_started(url, error, here):
    """At each of the processes that a command needs, in turn."""
    started = 0
    while True:
        with SystemFaults(started + 1, error, only=("spawn",)) as faults:
            try:
                (WRITERS["TarWriter"] if ">" in url else READERS["open_read"])(url)
            except WebDatasetError as failure:
                check(failure)
                assert os.strerror(error) in str(failure)
        if not faults.struck:
            break
        started += 1
    assert started == 2  # the command, and the shell that ends it with this process
