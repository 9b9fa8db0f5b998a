"""No secret leaves: a secret in every position of an address, through every stage that can fail.

Everything that a person or a file gets to see is searched: messages, notes, the whole chain of causes and contexts,
tracebacks, warnings, log lines, `repr`, checkpoints, counters and names of cached files.
"""

import dataclasses
import importlib
import inspect
import io
import json
import logging
import pickle
import pkgutil
import shutil
import socket
import tarfile
import warnings
from contextlib import contextmanager, suppress
from urllib.parse import unquote

import pytest

import webdataset as wds
from fakes import answer, send_object
from planted_secrets import POSITIONS, SECRET, address, assert_clean, shown
from webdataset import handlers, shards, stores, tools
from webdataset.cache import url_to_cache_name
from webdataset.errors import StoreError, WebDatasetError
from webdataset.index import index_url, read_description
from webdataset.testing import LoopbackServer
from wids._indexed_tar import cache_localname, default_localname


@pytest.fixture
def listening(caplog):
    """Log lines and warnings of everything that the test does."""
    caplog.set_level(logging.DEBUG)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield (
            lambda: (
                [record.getMessage() for record in caplog.records]
                + [str(record.exc_info) for record in caplog.records]
                + [str(each.message) for each in caught]
            )
        )


FAULTS = [404, 500, "drop", "garbage"]


@contextmanager
def broken(fault):
    """A server that fails in one of the ways that servers fail in."""

    def respond(handler):
        if isinstance(fault, int):
            answer(handler, fault, b"no " + handler.path.encode())
        elif fault == "drop":
            handler.connection.shutdown(socket.SHUT_RDWR)
        else:
            send_object(handler, b"this is not a tar file, " * 100)

    with LoopbackServer(respond) as server:
        yield server.url("").removeprefix("http://").rstrip("/")
    stores.close_connections()


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setenv("WDS_RETRIES", "1")
    monkeypatch.setenv("GOPEN_VERBOSE", "1")
    monkeypatch.setenv("WDS_TIMEOUT", "5")
    monkeypatch.setattr("webdataset.stores._resuming_stream.time.sleep", lambda seconds: None)
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    monkeypatch.setenv("AWS_SKIP_SIGNATURE", "1")
    monkeypatch.setenv("AWS_ALLOW_HTTP", "1")
    monkeypatch.setenv("AWS_REGION", "us-east-1")


def read_all(url):
    with stores.open_read(url) as stream:
        return stream.read()


VERBS = {
    "open": read_all,
    "stat": stores.stat,
    "range": lambda url: stores.read_range(url, 5, 1 << 30),
    "write": lambda url: write(url),
    "list": lambda url: shards.expand(url.replace("a.tar", "*.tar") if "*" not in url else url) and read_all(url),
    "dataset": lambda url: list(wds.WebDataset(url, index=False)),
    "resampled": lambda url: next(iter(wds.WebDataset(url, resampled=True))),
    "index": lambda url: len(wds.IndexedDataset(url)),
    "description": read_description,
    "braces": lambda url: shards.expand(url + "{0..3"),
    "too many": lambda url: shards.expand(url + "{0..999999999}"),
    "no such variable": lambda url: shards.expand(url + "${NOPE}"),
    "empty entry": lambda url: shards.expand(url + "::"),
    "not an address": lambda url: shards.expand([url, 7, {url: url}]),
}


def write(url):
    with stores.open_write(url) as stream:
        for _ in range(100):
            stream.write(bytes(100_000))


NEEDS_NO_SERVER = [name for name, text in POSITIONS.items() if "{h}" not in text]


def attempt(url, verbs=VERBS):
    """Do everything that can be done with an address, and look at what comes of it."""
    for verb in verbs:
        try:
            VERBS[verb](url)
        except Exception as error:
            assert_clean(shown(error))
            if isinstance(error, WebDatasetError):
                assert_clean(shown(pickle.loads(pickle.dumps(error))))


NEEDS_SERVER = [name for name in POSITIONS if name not in NEEDS_NO_SERVER]
# Every position with one fault, every fault with many positions; all pairs in the long run.
PAIRS = [
    pytest.param(name, fault, id=f"{name}-{fault}", marks=[] if turn % 4 == number else [pytest.mark.long])
    for turn, name in enumerate(NEEDS_SERVER)
    for number, fault in enumerate(FAULTS)
]


@pytest.mark.parametrize(("position", "fault"), PAIRS)
def test_secrets_in_failures_of_stores_and_shards(listening, position, fault):
    with broken(fault) as host:
        attempt(address(position, host))
    assert_clean(listening())


@pytest.mark.leaks_allowed  # obstore keeps its threads
@pytest.mark.parametrize("position", NEEDS_NO_SERVER)
def test_secrets_in_addresses_of_other_kinds(listening, position):
    attempt(address(position, ""), [verb for verb in VERBS if verb != "write" or "s3" not in position])
    assert_clean(listening())


# --- stages: the shard itself is good, and its address has a secret ------------------------------------------------


def fails(sample):
    raise ValueError(f"cannot use {sample['__url__']}")


def generator_that_fails(samples):
    for sample in samples:
        fails(sample)
        yield sample


STAGES = {
    "generator": lambda ds: ds.compose(generator_that_fails),
    "generator in a thread": lambda ds: wds.WebLoader(
        ds.compose(generator_that_fails), batch_size=None, num_workers=1, workers="threads"
    ),
    "map": lambda ds: ds.map(fails),
    "map in a word": lambda ds: ds.map(lambda sample: 1 / 0),
    "select": lambda ds: ds.select(fails),
    "decode": lambda ds: ds.decode("pil"),
    "map_dict": lambda ds: ds.map_dict(txt=lambda value: 1 / 0),
    "to_tuple": lambda ds: ds.to_tuple("nothing"),
    "rename": lambda ds: ds.rename(x="nothing"),
    "rename_files": lambda ds: ds.associate(lambda key: 1 / 0),
}
HANDLERS = [wds.reraise_exception, wds.warn_and_continue, wds.warn_and_stop]


@pytest.fixture(scope="module")
def shard(tmp_path_factory):
    path = tmp_path_factory.mktemp("shard") / "a.tar"
    with wds.TarWriter(str(path)) as writer:
        for number in range(5):
            writer.write({"__key__": str(number), "txt": b"x", "jpg": b"not a picture"})
    return path.read_bytes()


@pytest.fixture
def site(shard):
    with LoopbackServer(lambda handler: send_object(handler, shard)) as server:
        yield server.url("").removeprefix("http://").rstrip("/")
    stores.close_connections()


# One of each kind in the ordinary run, all of them in the long one.
SHORT = {"user name", "password with @", "X-Amz-Signature", "fragment", "path", "header of curl"}
GOOD = [
    pytest.param(name, marks=[] if name in SHORT else [pytest.mark.long])
    for name, text in POSITIONS.items()
    if text.startswith("http") or "curl" in text
]


@pytest.mark.parametrize("position", GOOD)
def test_secrets_in_failures_of_stages(site, listening, position):
    needs_curl(position)
    url = address(position, site)
    for stage in STAGES.values():
        dataset = stage(wds.WebDataset(url, index=False))
        assert_clean([repr(dataset)])
        with pytest.raises(Exception) as caught:  # noqa: PT011 - of many kinds
            list(dataset)
        assert_clean(shown(caught.value))
    assert_clean(listening())


@pytest.mark.parametrize("handler", HANDLERS)
@pytest.mark.parametrize("position", ["password", "?token=", "fragment"])
def test_secrets_in_what_handlers_say(site, listening, position, handler, monkeypatch):
    monkeypatch.setattr("webdataset.handlers._tally", type(handlers._tally)())  # the first ten of a kind are shown
    url = address(position, site)
    stages = [wds.SimpleShardList(url), wds.tarfile_to_samples(handler=handler), wds.map(fails, handler=handler)]
    try:
        list(wds.DataPipeline(*stages))
    except ValueError as error:
        assert_clean(shown(error))
    said = listening()
    assert handler is wds.reraise_exception or any("cannot use" in text for text in said)
    assert_clean(said)


def needs_curl(position):
    if "curl" in POSITIONS[position] and shutil.which("curl") is None:
        pytest.skip("curl is not installed")


@pytest.mark.parametrize("position", GOOD)
@pytest.mark.parametrize("resampled", [False, True])
def test_secrets_in_checkpoints(site, position, resampled):
    """And the checkpoint is as good as one with the secret: the dataset knows it."""
    needs_curl(position)
    url = address(position, site)
    make = lambda: wds.WebDataset(
        [url, url + "&x" if "?" in url else url], index=False, resampled=resampled, seed=3
    ).shuffle(3)  # noqa: E501
    dataset = make()
    rows = iter(dataset)
    head = [next(rows)["__key__"] for _ in range(3)]
    saved = json.dumps(dataset.state_dict())
    rows.close()
    assert_clean([saved, repr(dataset)])
    again = make()
    again.load_state_dict(json.loads(saved))
    others = iter(again)
    rest = [next(others)["__key__"] for _ in range(4)]
    others.close()
    whole = iter(make())
    assert head + rest == [next(whole)["__key__"] for _ in range(7)]
    whole.close()


@pytest.mark.parametrize("position", GOOD)
def test_secrets_in_the_cache(site, listening, position, tmp_path, monkeypatch):
    needs_curl(position)
    monkeypatch.setenv("WDS_VERBOSE_CACHE", "1")
    url = address(position, site)
    list(wds.WebDataset(url, index=False, cache_dir=str(tmp_path)))
    found = list(tmp_path.rglob("*"))
    assert found
    assert_clean(map(str, found))
    assert_clean(path.read_bytes().decode("latin1") for path in found if path.is_file() and "a.tar" not in path.name)
    assert_clean(listening())


@pytest.mark.parametrize("position", NEEDS_SERVER)
def test_secrets_in_warnings_about_what_a_shard_holds(position, listening):
    """Links and fields that are left out; their names are a stranger's, and make no second line and move no cursor."""
    needs_curl(position)
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as tar:
        for name, kind in (("a.txt", tarfile.REGTYPE), ("b\n\x1b[2J.x", tarfile.SYMTYPE), ("c\n.x", tarfile.FIFOTYPE)):
            info = tarfile.TarInfo(name)
            info.type, info.linkname = kind, "x\nERROR: \x1b[2J"
            tar.addfile(info)

    def respond(handler):
        send_object(handler, archive.getvalue()) if "a.tar" in handler.path else answer(handler, 404)

    with LoopbackServer(respond) as server:
        url = address(position, server.url("").removeprefix("http://").rstrip("/"))
        for dataset in (wds.WebDataset(url, index=False), wds.WebDataset(url, resampled=True).slice(1)):
            list(dataset.decode(only="nothing"))
        with suppress(WebDatasetError):  # a command has no index
            list(wds.IndexedDataset(url, fields=["y"]))
    stores.close_connections()
    assert any("link" in text for text in listening())
    assert_clean(listening())
    assert all(text.isprintable() for text in listening() if "link" in text or "field" in text)


@pytest.mark.parametrize("position", POSITIONS)
def test_secrets_in_the_public_names_of_copies(position):
    """Those of the public library and of wids, which quote addresses."""
    url = address(position, "h:80")
    for name in (url_to_cache_name(url), url_to_cache_name(url, 1), default_localname("/x")(url), cache_localname("/x")(url)):  # fmt: skip
        assert_clean([name, unquote(name)])


@pytest.mark.parametrize("text", [
    f"machine 127.0.0.1 login me password x {SECRET}", f"machine 127.0.0.1 login me password x\n{SECRET}", f"{SECRET}",
    f"machine 127.0.0.1 login me passwd {SECRET}", f"machine 127.0.0.1 login me password \xff{SECRET}",
])  # fmt: skip
def test_secrets_in_a_netrc_file_that_cannot_be_read(text, tmp_path, monkeypatch, listening):
    (tmp_path / "netrc").write_bytes(text.encode("latin1"))
    (tmp_path / "netrc").chmod(0o600)
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    with pytest.raises(WebDatasetError, match=r"netrc .* cannot be read") as caught:
        read_all("http://127.0.0.1:1/a.tar")
    assert_clean([*shown(caught.value), *listening()])


# --- redirects -----------------------------------------------------------------------------------------------------


def test_credentials_do_not_follow_a_redirect_to_clear_text():
    """Decided without a connection: what would be sent after a redirect, for every pair of origins."""
    from webdataset.stores._request import Request

    start = Request(
        "https://h/a", {"Authorization": "Basic x", "X-Own": "y", "Range": "bytes=0-"}, frozenset({"x-own"})
    )
    kept = {
        "https://h/b": True, "/b": True, "https://h:443/b": True, "HTTPS://H/b": True,
        "http://h/b": False, "http://h:443/b": False, "https://h:444/b": False, "https://h.evil.org/b": False,
        "https://evil/b": False, "//evil/b": False, "https://h@evil/b": False, "https://evil\\@h/b": False,
    }  # fmt: skip
    for location, expected in kept.items():
        headers = start.moved(location).headers
        assert ("Authorization" in headers, "X-Own" in headers) == (expected, expected), location
        assert headers["Range"] == "bytes=0-"
    assert "Authorization" in Request("http://h/a", {"Authorization": "x"}).moved("https://h/a").headers
    for location in ("file:///etc/passwd", "pipe:true", "ftp://h/a", "PIPE:x", "memory://x", "data:,x"):
        with pytest.raises(wds.errors.UnsafeContent):
            start.moved(location)


@pytest.mark.parametrize("verb", [read_all, stores.stat, lambda url: stores.read_range(url, 0, 1), write])
@pytest.mark.parametrize("status", [301, 302, 307, 308])
def test_credentials_do_not_reach_another_port(verb, status):
    seen = []

    def note(handler):
        seen.append(handler.headers.get("Authorization"))
        if handler.command == "PUT":
            handler.rfile.read(int(handler.headers["Content-Length"]))
            answer(handler, 201, b"")
        else:
            send_object(handler, b"hello")

    with LoopbackServer(note) as other:

        def redirect(handler):
            assert handler.headers.get("Authorization")
            if handler.command == "PUT":
                handler.rfile.read(int(handler.headers["Content-Length"]))
            answer(handler, status, b"", Location=other.url("a"))

        with LoopbackServer(redirect) as first:
            url = first.url("a").replace("http://", f"http://me:{SECRET}@")
            if verb is write and status in {301, 302}:
                with pytest.raises(StoreError):
                    verb(url)
            else:
                verb(url)
                assert seen and set(seen) == {None}
            stores.close_connections()


@pytest.mark.parametrize("value", ['{"https://h/": "S"}', '{"https://h/": {"X-Own": "S"', '{"https://h/": {"X-Own": ["S"]}}', '["S"]', "S"])  # fmt: skip
def test_headers_that_cannot_be_read_are_not_shown(monkeypatch, value):
    monkeypatch.setenv("WDS_HTTP_HEADERS", value.replace("S", SECRET))
    with pytest.raises(wds.errors.SpecError, match="WDS_HTTP_HEADERS") as caught:
        read_all("http://127.0.0.1:1/a.tar")
    assert_clean(shown(caught.value))


@pytest.mark.parametrize("sign", ["/", "#", "?", "[", "]", "\\", " ", "\u20ac", ":", "//", "%"])
def test_passwords_that_are_not_escaped(sign):
    """Parsers of addresses show in their errors what they took for a host or a port."""
    for scheme in ("http", "https", "ftp", "sftp", "file"):
        for password in (f"{SECRET}{sign}x", f"x{sign}{SECRET}"):
            url = f"{scheme}://me:{password}@127.0.0.1:1/a.tar"
            for act in (read_all, stores.stat, shards.expand, stores.list_urls):
                try:
                    act(url if act is not stores.list_urls else url.replace("a.tar", "*.tar"))
                except Exception as error:
                    assert_clean(shown(error))


ENVIRONMENTS = {
    "header": {"WDS_HTTP_HEADERS": json.dumps({"http://127.0.0.1:1/": {"X-Own": f"{SECRET}\n"}})},
    "header in Greek": {"WDS_HTTP_HEADERS": json.dumps({"http://127.0.0.1:1/": {"X-Own": f"{SECRET}\u03b1"}})},
    "name of a header": {"WDS_HTTP_HEADERS": json.dumps({"http://127.0.0.1:1/": {f"X {SECRET}": "x"}})},
    "token of the hub": {"HF_TOKEN": f"a\n{SECRET}", "HF_ENDPOINT": "http://127.0.0.1:1"},
    "token of AIStore": {"AIS_AUTHN_TOKEN": f"{SECRET}\n", "AIS_ENDPOINT": "http://127.0.0.1:1"},
    "token of AWS": {"AWS_SESSION_TOKEN": f"{SECRET}\n", "AWS_ACCESS_KEY_ID": "k", "AWS_SECRET_ACCESS_KEY": SECRET, "AWS_SKIP_SIGNATURE": "0"},
    "proxy": {"http_proxy": f"http://me:{SECRET}@127.0.0.1:1", "no_proxy": ""},
    "proxy, not escaped": {"http_proxy": f"http://me:{SECRET}/x@127.0.0.1:1", "no_proxy": ""},
    "address of AIStore": {"AIS_ENDPOINT": f"http://me:{SECRET}/x@127.0.0.1:1"},
    "address of the hub": {"HF_ENDPOINT": f"http://me:{SECRET}/x@127.0.0.1:1"},
}  # fmt: skip


@pytest.mark.leaks_allowed  # obstore keeps its threads
@pytest.mark.parametrize("environment", ENVIRONMENTS.values(), ids=ENVIRONMENTS)
def test_secrets_of_the_environment(environment, listening, monkeypatch):
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    for url in ("http://127.0.0.1:1/a.tar", "hf://datasets/me/x/a.tar", "ais://b/a.tar", "s3://bucket/a.tar"):
        try:
            read_all(url)
        except WebDatasetError as error:
            assert_clean(shown(error))
    stores.close_connections()
    assert_clean(listening())


@pytest.mark.parametrize("position", POSITIONS)
def test_secrets_in_representations(position):
    url = address(position, "h:80")
    things = [
        shards.SimpleShardList(url),
        shards.ResampledShards(url),
        shards.MSSource(urls=[url]),
        wds.errors.Where(shard=url),
    ]
    if not url.startswith("pipe:"):
        things.append(read_description({"wids_version": 1, "shardlist": [{"url": url, "nsamples": 1}]}))
    assert_clean(map(repr, things))
    assert_clean(map(str, things))


# Fields that hold addresses.
PLACES = set("url urls path folder base place shard inputs outputs input output description index ledger damaged written quarantine".split())  # fmt: skip


def test_secrets_in_representations_of_every_public_class():
    """A class that is added has to be decorated by `hides_secrets`, if a field of it holds an address."""
    packages = [
        wds,
        *(importlib.import_module(f"webdataset.{each.name}") for each in pkgutil.iter_modules(wds.__path__)),
    ]
    public = [getattr(package, name) for package in packages for name in getattr(package, "__all__", ())]
    looked_at = 0
    for cls in {value for value in public if inspect.isclass(value)}:
        kinds = {name: str(kind) for name, kind in getattr(cls, "__annotations__", {}).items()}
        names = [name for name in PLACES & set(kinds) if "str" in kinds[name] or kinds[name] == "Any"]
        if not names or not (dataclasses.is_dataclass(cls) or hasattr(cls, "_fields")):
            continue
        values = {name: f"https://me:{SECRET}@h/a.tar" if name in names else None for name in kinds}
        if dataclasses.is_dataclass(cls):
            instance = object.__new__(cls)
            for field in dataclasses.fields(cls):
                object.__setattr__(instance, field.name, values.get(field.name))
        else:
            instance = tuple.__new__(cls, values.values())
        with suppress(TypeError, AttributeError):  # of an own repr that needs more; it is tested with real objects
            assert_clean([repr(instance)])
            looked_at += 1
    assert looked_at > 20


# --- what stays on a disk, or is counted ---------------------------------------------------------------------------


def test_secrets_in_results_and_writers(site, tmp_path):
    """What a `repr` contains an address of: samples, lists, locations, reports and writers."""
    url = f"http://me:{SECRET}@{site}/%d.tar?token={SECRET}"
    dataset = wds.WebDataset(url % 0, index=False)
    located = wds.IndexedDataset(url % 0, index=str(tmp_path))
    with wds.TarWriter(url % 1) as one, wds.ShardWriter(url) as many:
        assert_clean(map(repr, [one, many]))
        one.abort()
        many.abort()
    sample, urls = next(iter(dataset)), dataset.pipeline[0].urls
    assert_clean(map(repr, [sample, urls, located.where(0), tools.Report(outputs=(url,))]))
    assert SECRET in sample["__url__"] and index_url(urls[0], "d") == index_url(url % 0, "d")


@pytest.mark.parametrize("workers", [{"num_workers": 0}, {"num_workers": 1}, {"num_workers": 1, "workers": "threads"}])
def test_secrets_in_counters(site, workers):
    dataset = wds.WebDataset(f"http://me:{SECRET}@{site}/a.tar", index=False).map(
        fails, handler=wds.ignore_and_continue
    )
    loader = wds.WebLoader(dataset, batch_size=None, **workers)
    list(loader)
    stats = loader.stats()
    assert stats.skipped.count == 5 and "cannot use" in stats.skipped.first[0].reason
    assert_clean([stats, repr(stats), json.dumps(stats.skipped.shards)])


RECORDINGS = {
    "DBCache": lambda path: wds.DBCache(f"{path}/db", verbose=False),
    "LMDBCached": lambda path: wds.LMDBCached(f"{path}/lmdb"),
    "DBCache, own pickler": lambda path: wds.DBCache(f"{path}/db", verbose=False, pickler=pickle),
    "LMDBCached, own pickler": lambda path: wds.LMDBCached(f"{path}/lmdb", pickler=pickle),
}


def with_its_address(sample):
    return {**sample, "seen": [(sample["__url__"], {"from": sample["__url__"]})], "view": memoryview(b"x")}


@pytest.mark.parametrize("recording", RECORDINGS)
@pytest.mark.parametrize("options", [{}, {"resampled": True}])
def test_secrets_in_recorded_samples(site, recording, options, tmp_path):
    """And a sample of a recording gets the same random numbers."""
    if recording.startswith("LMDBCached"):
        pytest.importorskip("lmdb", reason="lmdb is not installed")
    dataset = wds.WebDataset(f"http://me:{SECRET}@{site}/a.tar?token={SECRET}", index=False, **options).slice(5)
    recorded = dataset.map(with_its_address).compose(RECORDINGS[recording](tmp_path))
    drawn = [[wds.rng(sample).random() for sample in recorded] for _ in range(2)]
    assert drawn[0] == drawn[1]
    assert options or drawn[0] == [wds.rng(sample).random() for sample in dataset]
    assert_clean(path.read_bytes().decode("latin1") for path in tmp_path.rglob("*") if path.is_file())


def test_secrets_in_the_shards_that_are_written(site, tmp_path):
    with wds.TarWriter(str(tmp_path / "copy.tar"), keep_meta=True) as writer:
        for sample in wds.WebDataset(f"http://me:{SECRET}@{site}/a.tar?token={SECRET}", index=False):
            writer.write(sample)
    assert b"/a.tar?token=***" in (tmp_path / "copy.tar").read_bytes()
    assert_clean([(tmp_path / "copy.tar").read_bytes().decode("latin1")])
