"""Who may open what: every scheme from every place where an address can be read.

The table below is written out again on purpose: a change of `stores/_trust.py` must be made here too, and is then seen.
"""

import io
import json
import os
import pickle
from contextlib import suppress
from copy import deepcopy
from pathlib import Path

import pytest

import webdataset as wds
import wids
from fakes import answer, send_object
from webdataset import shards, stores
from webdataset.address import Address, Birth, birth_of, is_from_data, like
from webdataset.errors import SpecError, StoreError, UnsafeContent, WebDatasetError
from webdataset.flow import Drawn, url_as_json, url_from_json
from webdataset.index import index_url, read_description
from webdataset.legacy.gopen import gopen_htgs
from webdataset.stores._trust import TABLE, Kind, may_send_credentials
from webdataset.testing import LoopbackServer, make_shard

EXPECTED = """
            USER   FILE   MAPPING  CHECKPOINT  DESCRIPTION  SPEC    LISTING  REDIRECT  CONTENT
COMMAND     OPEN   NEVER  NEVER    NEVER       NEVER        NEVER   NEVER    NEVER     NEVER
STREAM      OPEN   NEVER  NEVER    NEVER       NEVER        NEVER   NEVER    NEVER     NEVER
LOCAL       OPEN   OPEN   OPEN     OPEN        HOME         HOME    HOME     NEVER     NEVER
MEMORY      OPEN   NEVER  OPEN     OPEN        HOME         HOME    HOME     NEVER     NEVER
WEB         OPEN   NEVER  OPEN     OPEN        PUBLIC       PUBLIC  HOME     PUBLIC    PUBLIC
CLOUD       OPEN   NEVER  OPEN     OPEN        OPEN         OPEN    HOME     NEVER     OPEN
OTHER       OPEN   NEVER  OPEN     OPEN        HOME         HOME    HOME     NEVER     NEVER
WRAPPER     OPEN   NEVER  NEVER    OPEN        NEVER        NEVER   NEVER    NEVER     NEVER
"""
_HEAD, *_ROWS = (line.split() for line in EXPECTED.strip().splitlines())
CELLS = {(row[0], birth): rule for row in _ROWS for birth, rule in zip(_HEAD, row[1:], strict=True)}

# kind, an address of the dataset at home, one elsewhere, and the home
PLACES = [
    ("COMMAND", "pipe:printf x", "pipe:printf x", "pipe:"),
    ("COMMAND", "PIPE:printf x", "PIPE:printf x", ""),
    ("STREAM", "-", "-", ""),
    ("LOCAL", "{home}/a.tar", "{elsewhere}/a.tar", "{home}"),
    ("LOCAL", "file://{home}/a.tar", "file://{elsewhere}/a.tar", "{home}"),
    ("LOCAL", "FILE:{home}/a.tar", "FILE:{elsewhere}/a.tar", "{home}"),
    ("LOCAL", "{home}/x/../a.tar", "{home}/../elsewhere/a.tar", "{home}"),
    ("LOCAL", "{home}/a.tar", "{home}-not/a.tar", "file://{home}"),
    ("MEMORY", "memory://home/a.tar", "memory://elsewhere/a.tar", "memory://home/"),
    *(("WEB", f"{s}://home/a.tar", f"{s}://elsewhere/a.tar", f"{s}://home/x/") for s in ("http", "https", "HTTPS")),
    *(("CLOUD", f"{s}://home/a.tar", f"{s}://elsewhere/a.tar", f"{s}://home/x/")
      for s in ("s3", "s3a", "gs", "az", "azure", "abfs", "abfss", "ais")),
    ("CLOUD", "hf://datasets/me/home/a.tar", "hf://datasets/me/elsewhere/a.tar", "hf://datasets/me/home@v1/x/"),
    *(("OTHER", f"{s}://home/a.tar", f"{s}://elsewhere/a.tar", f"{s}://home/x/")
      for s in ("sftp", "ssh", "ftp", "hdfs", "github", "mine")),
    *(("WRAPPER", f"{s}://home/a.tar", f"{s}://elsewhere/a.tar", f"{s}://home/x/")
      for s in ("local", "dir", "simplecache", "filecache", "blockcache", "zip", "tar", "reference", "jar")),
]  # fmt: skip


def read(url):
    with stores.open_read(url) as stream:
        return stream.read()


@pytest.fixture
def room(tmp_path, monkeypatch):
    """Every scheme is served by a function that notes what reaches it; local files are real."""
    for folder in ("home/x", "elsewhere", "home-not"):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "a.tar").write_bytes(b"x")
    (tmp_path / "home" / "a.tar").write_bytes(b"x")
    opened = []

    def opener(url, mode, bufsize):
        opened.append(url)
        return io.BytesIO(b"x")

    for kind, address, _, _ in PLACES:
        scheme = "-" if kind == "STREAM" else stores.scheme_of(address)
        if kind not in {"LOCAL", "COMMAND"}:
            monkeypatch.setitem(stores.schemes, scheme, opener)
    return opened


def test_the_table_is_the_one_of_this_test():
    assert {(kind.name, birth.name): rule.name for (kind, birth), rule in TABLE.items()} == CELLS
    assert {kind.name for kind in Kind} == {row[0] for row in _ROWS} and {b.name for b in Birth} == set(_HEAD)


@pytest.mark.parametrize("place", PLACES, ids=lambda place: place[1])
def test_every_cell(room, tmp_path, place):
    for birth in set(Birth) - {Birth.FILE}:  # a path is never parsed: test_a_file_is_a_file_whatever_its_name
        try_cell(room, tmp_path, place, birth)


def try_cell(room, tmp_path, place, birth):
    kind, near, far, home = (part.replace("{home}", f"{tmp_path}/home").replace("{elsewhere}", f"{tmp_path}/elsewhere") for part in place)  # fmt: skip
    rule = CELLS[kind, birth.name]
    for address, is_near in ((near, True), (far, False)):
        room.clear()
        url = address if birth is Birth.USER else Address(address, birth, home)
        if rule == "NEVER" or (rule == "HOME" and not is_near):
            for act in (stores.open_read, stores.stat, stores.open_write, stores.is_local, stores.gopen, stores.list_urls, lambda u: stores.read_range(u, 0, 1)):  # fmt: skip
                with pytest.raises(UnsafeContent):
                    act(url)
            assert room == []
        else:
            assert read(url) == b"x"


@pytest.mark.parametrize("birth", list(Birth), ids=lambda birth: birth.name)
@pytest.mark.parametrize("place", [place for place in PLACES if place[0] == "WEB"], ids=lambda place: place[1])
def test_credentials_go_where_the_document_came_from(place, birth):
    _, near, far, home = place
    if birth is Birth.FILE:
        return
    by_user = CELLS["WEB", birth.name] == "OPEN"
    assert may_send_credentials(Address(near, birth, home))
    assert may_send_credentials(Address(far, birth, home)) == by_user
    assert may_send_credentials(Address(near, birth, "/data/")) == by_user
    assert may_send_credentials(Address(near.replace("home", "home:81"), birth, home)) == by_user
    assert may_send_credentials(Address(near.replace("home", "home.evil.org"), birth, home)) == by_user


def test_what_was_read_from_data_is_written_at_home_only(room):
    for place in ("https://elsewhere/a.tar", "http://home/a.tar", "s3://bucket/a.tar"):
        with pytest.raises(UnsafeContent):
            stores.open_write(Address(place, Birth.DESCRIPTION, "https://home/"))
    stores.open_write(Address("https://home/a.tar", Birth.DESCRIPTION, "https://home/"))


# --- real places where addresses are read ------------------------------------------------------------------------

HOSTILE = [
    "pipe:touch {marker}", "PIPE:touch {marker}", "Pipe:touch {marker}", "pipe:touch {marker};.tar", " pipe:touch {marker}",
    "\tpipe:touch {marker}", "pipe://touch {marker}", "-", "{secret}", "file://{secret}", "file:{secret}", "FILE:{secret}",
    "../secret.tar", "x/../../secret.tar", "file:../secret.tar", "./../secret.tar", "local://{secret}", "dir://{secret}",
    "simplecache::file://{secret}", "zip://a::file://{secret}", "file://localhost{secret}", "{secret}#x", "//{secret}", "data:text/plain,SECRET",
]  # fmt: skip


@pytest.fixture
def scene(tmp_path, monkeypatch):
    """A dataset in `data`, a secret next to it, a marker that no command may make, a server with the same dataset."""
    data = tmp_path / "data"
    data.mkdir()
    secret, marker = tmp_path / "secret.tar", tmp_path / "marker"
    secret.write_bytes(b"SECRET")
    monkeypatch.chdir(data)
    monkeypatch.setenv("WDS_RETRIES", "0")
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"SECRET")))
    pages = {}

    def respond(handler):
        found = pages.get(handler.path.partition("?")[0])
        if found is None:
            answer(handler, 404, b"")
        elif isinstance(found, str):
            answer(handler, 302, b"", Location=found)
        else:
            send_object(handler, found)

    with LoopbackServer(respond) as server:
        yield type("Scene", (), {"data": data, "secret": secret, "marker": marker, "pages": pages, "server": server})()
    stores.close_connections()


def first(urls):
    return next(iter(urls))


def description_of(url, nsamples=1, **more):
    return json.dumps({"wids_version": 1, "shardlist": [{"url": url, "nsamples": nsamples}], **more}).encode()


def from_local_description(scene, text):
    (scene.data / "d.json").write_bytes(description_of(text))
    return first(read_description("d.json").urls)


def from_remote_description(scene, text):
    scene.pages["/d.json"] = description_of(text)
    return first(read_description(scene.server.url("d.json")).urls)


def from_a_base(scene, text):
    inner = {"base": text, "shardlist": [{"url": "secret.tar", "nsamples": 1}]}
    (scene.data / "d.json").write_text(json.dumps({"wids_version": 1, "datasets": [inner]}))
    return first(read_description("d.json").urls)


def from_a_folder_as_base(scene, text):
    return from_a_base(scene, os.path.dirname(text) if "secret" in text else f"{text} #")


def from_a_nested_description(scene, text):
    (scene.data / "d.json").write_text(json.dumps({"wids_version": 1, "datasets": [{"source_url": "in.json"}]}))
    (scene.data / "in.json").write_bytes(description_of(text))
    return first(read_description("d.json").urls)


def from_a_source_url(scene, text):
    (scene.data / "d.json").write_text(json.dumps({"wids_version": 1, "datasets": [{"source_url": text}]}))
    return first(read_description("d.json").urls)


def from_a_join(scene, text):
    part = {"shardlist": [{"url": text, "nsamples": 1}]}
    (scene.data / "d.json").write_bytes(description_of("a.tar", join=[part]))
    return first(read_description("d.json").further(part["shardlist"]).urls)


def from_a_remote_join(scene, text):
    part = {"shardlist": [{"url": text, "nsamples": 1}]}
    scene.pages["/d.json"] = description_of("a.tar", join=[part])
    return first(read_description(scene.server.url("d.json")).further(part["shardlist"]).urls)


def from_a_yaml_spec(scene, text):
    pytest.importorskip("yaml")
    (scene.data / "s.yaml").write_text(json.dumps({"datasets": [{"shards": [text]}]}))
    return first(first(shards.parse_spec(str(scene.data / "s.yaml"))).urls)


def from_a_yaml_prefix(scene, text):
    pytest.importorskip("yaml")
    (scene.data / "s.yaml").write_text(json.dumps({"prefix": text, "datasets": [{"shards": [" .tar"]}]}))
    return first(first(shards.parse_spec(str(scene.data / "s.yaml"))).urls)


def from_a_local_listing(scene, text):
    name = text.replace("/", "_")
    (scene.data / name).write_bytes(b"file")
    found = first(shards.expand("*"))
    assert read(found) == b"file"
    return found


def from_a_directory(scene, text):
    name = text.replace("/", "_") + ".tar"
    (scene.data / name).write_bytes(b"file")
    found = first(wds.DirectoryShardList(".", mode="keep", poll=None))["url"]
    assert read(found) == b"file"
    return found


def from_a_path_object(scene, text):
    name = text.replace("/", "_")
    (scene.data / name).write_bytes(b"file")
    found = first(shards.expand([Path(name)]))
    assert read(found) == b"file"
    return found


def from_a_remote_listing(scene, text):
    scene.pages["/"] = f'<a href="{text}">x</a>'.encode()
    return first(stores.list_urls(scene.server.url("*")))


def from_a_redirect(scene, text):
    scene.pages["/a.tar"] = text.replace("\t", "%09")
    return scene.server.url("a.tar")


def from_the_contents(scene, text):
    return Address(text, Birth.CONTENT)


def from_a_rewriting_rule(scene, text):
    os.environ["GOPEN_REWRITE"] = f"https://h/={text}".replace(";", "")
    return Address("https://h/../secret.tar", Birth.DESCRIPTION, "https://h/")


BIRTHPLACES = [value for name, value in list(globals().items()) if name.startswith("from_")]


@pytest.mark.parametrize("birthplace", BIRTHPLACES, ids=lambda place: place.__name__)
def test_hostile_addresses_from_every_place(scene, monkeypatch, birthplace):
    for number, hostile in enumerate(HOSTILE):
        monkeypatch.setenv("GOPEN_REWRITE", "")
        scene.data = scene.secret.parent / f"data-{number}"
        scene.data.mkdir()
        monkeypatch.chdir(scene.data)
        try_hostile(scene, birthplace, hostile)


def try_hostile(scene, birthplace, hostile):
    text = hostile.format(secret=scene.secret, marker=scene.marker)
    try:
        url = birthplace(scene, text)
        for act in (stores.open_read, stores.gopen, wds.gopen):
            with act(url) as stream:
                assert b"SECRET" not in stream.read()
        path = stores.is_local(url)
        assert path is None or os.path.realpath(path) != str(scene.secret)
    except (WebDatasetError, OSError, StopIteration):
        pass  # refused, or not there: either way nothing was run or read
    assert not scene.marker.exists()


@pytest.mark.parametrize("text", [each for each in HOSTILE if each.lstrip().lower().startswith("pipe")])
def test_a_hostile_dataset_runs_nothing(scene, text):
    """The same by the front door, with and without an index."""
    (scene.data / "d.json").write_bytes(description_of(text.format(marker=scene.marker)))
    for make in (wds.WebDataset, wds.IndexedDataset):
        with pytest.raises((WebDatasetError, OSError)):
            list(make(str(scene.data / "d.json")))
    assert not scene.marker.exists()


@pytest.mark.parametrize("make", [wds.WebDataset, wds.IndexedDataset, lambda u: wds.WebDataset(u, index=False), lambda u: wds.WebDataset(u, resampled=True)])  # fmt: skip
def test_rewriting_does_not_make_commands_of_data(scene, monkeypatch, make):
    """The user's rule is for addresses that the user writes; the text after it would reach a shell."""
    monkeypatch.setenv("GOPEN_REWRITE", "https://h/=pipe:cat ")
    scene.pages["/d.json"] = description_of(f"https://h/x; touch {scene.marker}")
    with pytest.raises(UnsafeContent, match="pipe: commands are not run when they come from a dataset description"):
        next(iter(make(scene.server.url("d.json"))))
    assert not scene.marker.exists()


def test_rewriting_of_a_listing_or_a_yaml_spec(scene, monkeypatch, tmp_path):
    scene.pages["/"] = b'<a href="a.tar">a</a>'
    found = first(stores.list_urls(scene.server.url("*")))
    (tmp_path / "local.tar").write_bytes(b"file")
    local = stores.list_urls(str(tmp_path / "*.tar"))
    monkeypatch.setenv("GOPEN_REWRITE", "http://=pipe:echo ;s3://=pipe:echo ;mem(ory)://x/=/mnt/;/=pipe:echo ")
    for url in (found, Address("s3://b/a.tar", Birth.SPEC), Drawn(found, 3), like(found, "http://h/a.idx")):
        with pytest.raises(UnsafeContent):
            stores.open_read(url)
    assert stores.is_local(Address("memory://x/a.tar", Birth.SPEC)) == "/mnt/a.tar"
    for rule in ("memory://x/=/mnt/", "memory://x/=file:/mnt/", "memory://x/=file:///mnt/", "memory://x/=s3://b/"):
        monkeypatch.setenv("GOPEN_REWRITE", rule)
        for way_out in ("..", "y/..", "y/../..", "%2e%2e", "%2E.", "y%2f..%2f..", "y%2F%2e%2e"):
            if "%" in way_out and "file:" not in rule:
                continue  # an ordinary name
            with pytest.raises(UnsafeContent):
                stores.is_local(Address(f"memory://x/{way_out}/etc/passwd", Birth.SPEC))
    monkeypatch.setenv("GOPEN_REWRITE", "http://=pipe:echo ;/=pipe:echo ")
    assert [read(path) for path in local if "local" in path] == [b"file"]  # a path is never rewritten


def test_a_file_is_a_file_whatever_its_name(scene):
    names = ["pipe:touch marker;.tar", "-", "memory:x.tar", "s3:x.tar", "note:1.tar", "http:x", "file:x.tar", "a{0..3}.tar", "[x].tar", "a b.tar"]  # fmt: skip
    for name in names:
        (scene.data / name).write_bytes(name.encode())
    for found in (shards.expand("*"), shards.expand(list(Path().glob("*"))), shards.expand(Path().glob("*")), stores.list_urls("./")):  # fmt: skip
        assert sorted(read(url).decode() for url in found) == sorted(names)
        assert {birth_of(url) for url in found} == {Birth.FILE}
    assert not (scene.data / "marker").exists()


def test_the_text_of_an_address_is_harmless_when_its_type_is_lost(scene):
    for name in ("pipe:touch marker;.tar", "-"):
        (scene.data / name).write_bytes(b"file")
    for url in shards.expand("*"):
        assert read(str(url)) == b"file"
    assert not (scene.data / "marker").exists()


@pytest.mark.parametrize("text", [
    "x::pipe:touch marker", "x/y.tar:: PIPE:touch marker", "{pipe:touch marker;,b}.tar", "{p,q}ipe:touch marker", "{a/b,pipe:touch marker}",
    "x::{p,q}ipe:touch marker", "https://h/a::pipe:touch marker",
])  # fmt: skip
def test_no_text_out_of_a_document_becomes_a_command_by_its_expansion(scene, text):
    """As a part of a specification, or in a list: what `::` and braces make of it."""
    places = [from_local_description, from_remote_description, from_a_yaml_spec, from_a_nested_description]
    for place in places:
        with suppress(WebDatasetError):
            url = str(place(scene, text))
            for spec in (url, [url]):
                for found in shards.expand_urls(spec):
                    assert not found.strip().lower().startswith("pipe:")
    assert first(
        read_description({"wids_version": 1, "shardlist": [{"url": "s3://b/{a:b}::c.tar", "nsamples": 1}]}).urls
    )


SECRET_VARIABLES = {
    **dict.fromkeys(("AWS_SECRET_ACCESS_KEY", "HF_TOKEN", "PGPASS", "MYKEY", "GITHUB_PAT", "NPM_AUTH", "a.secret"), "s3cret"),
    **dict.fromkeys(("HTTPS_PROXY", "DATABASE_URL"), "http://me:s3cret@h/"),
    "PLAIN": "ghp_abcdefghijklmnop",
    "WDS_HTTP_HEADERS": '{"https://h/": {"X-Own": "s3cret"}}',
}  # fmt: skip


@pytest.mark.parametrize("name", SECRET_VARIABLES)
def test_environment_variables_do_not_leave_in_addresses(scene, monkeypatch, name):
    """By their names, and by what they contain."""
    pytest.importorskip("yaml")
    monkeypatch.setenv(name, SECRET_VARIABLES[name])
    for text in (f"https://evil/${name}" * ("." not in name), f"https://evil/${{{name}}}/", f"$HOME/${{{name}}}"):
        for spec in ({"prefix": text}, {"buckets": [text]}, {}):
            spec = {**spec, "datasets": [{"shards": ["a.tar" if spec else text]}]}
            (scene.data / "s.yaml").write_text(json.dumps(spec))
            if text:
                with pytest.raises(UnsafeContent, match="environment variable"):
                    list(shards.parse_spec("s.yaml"))


def test_the_remedies_work(scene, monkeypatch, tmp_path):
    (scene.data / "d.json").write_bytes(description_of(str(scene.secret)))
    with pytest.raises(UnsafeContent, match="WDS_TRUSTED_FOLDERS"):
        read_description("d.json")
    monkeypatch.setenv("WDS_TRUSTED_FOLDERS", f"/nowhere:{tmp_path}")
    assert read(first(read_description("d.json").urls)) == b"SECRET"
    monkeypatch.delenv("WDS_TRUSTED_FOLDERS")
    assert read(first(read_description("d.json", base=str(tmp_path)).urls)) == b"SECRET"


def test_a_description_from_a_command_needs_a_base(scene):
    (scene.data / "d.json").write_bytes(description_of("a.tar; touch marker"))
    with pytest.raises(SpecError, match="base="):
        read_description("pipe:cat d.json")
    assert first(read_description("pipe:cat d.json", base=".").urls) == "./a.tar; touch marker"


def test_credentials_of_another_host_are_not_sent(scene, monkeypatch):
    seen = []

    def note(handler):
        seen.append((handler.path, handler.headers.get("Authorization"), handler.headers.get("X-Own")))
        send_object(handler, b"x")

    with LoopbackServer(note) as other:
        table = {other.url(""): {"Authorization": "Bearer tok", "X-Own": "1"}, scene.server.url(""): {"X-Own": "2"}}
        monkeypatch.setenv("WDS_HTTP_HEADERS", json.dumps(table))
        scene.pages["/d.json"] = description_of(other.url("a.tar"))
        url = first(read_description(scene.server.url("d.json")).urls)
        read(url)
        read(str(url))  # as the user would write it
        stores.close_connections()
    assert seen == [("/a.tar", None, None), ("/a.tar", "Bearer tok", "1")]


def in_view(dataset):
    with dataset.preview() as shown:
        catalog = shown._server._catalogs[0]
        catalog.wait()
        assert catalog.at(3).view.key(3) == "3"


WAYS = {
    "stream": lambda urls, _: list(wds.WebDataset(urls, index=False)),
    "index": lambda urls, folder: list(wds.WebDataset(urls, index=folder)),
    "resampled": lambda urls, _: list(wds.WebDataset(urls, resampled=True).slice(9)),
    "cached": lambda urls, folder: list(wds.WebDataset(urls, index=False, cache_dir=folder)),
    "ahead": lambda urls, _: list(wds.WebDataset(urls, index=False, read_ahead=2)),
    "stages": lambda urls, _: list(wds.DataPipeline(wds.SimpleShardList(urls), wds.tarfile_to_samples())),
    "look-ups": lambda urls, _: [wds.IndexedDataset(urls)[number] for number in range(5)],
    "workers": lambda urls, _: list(wds.WebLoader(wds.WebDataset(urls), batch_size=None, num_workers=2)),
    "threads": lambda urls, _: list(wds.WebLoader(wds.WebDataset(urls), batch_size=None, num_workers=2, workers="threads")),
    "wids": lambda _, folder: [sample["__key__"] for sample in wids.ShardListDataset(f"{folder}/d.json")],
    "map_shards": lambda urls, folder: wds.map_shards([], urls, f"{folder}/out/", workers=2),
    "gopen": lambda urls, _: [wds.gopen(url).read() for url in urls],
    "htgs": lambda urls, _: [gopen_htgs(url).read() for url in urls],
    "url_opener": lambda urls, _: [each["stream"].read() for each in wds.url_opener({"url": url} for url in urls)],
    "view": lambda urls, _: in_view(wds.WebDataset(urls, index=False)),
    "view of an index": lambda urls, folder: in_view(wds.WebDataset(urls, index=folder)),
}  # fmt: skip


@pytest.mark.parametrize("way", WAYS)
def test_no_way_of_reading_sends_credentials_of_another_host(way, tmp_path, monkeypatch):
    """An address keeps its birth on every way from a description to the server that it names."""
    if way.startswith("view"):
        pytest.importorskip("starlette", reason="the viewer needs webdataset[view]")
    seen = []
    shard = Path(make_shard(str(tmp_path / "a.tar"), [{"__key__": str(n), "txt": "x"} for n in range(5)])).read_bytes()

    def note(handler):
        seen.append(handler.headers.get("Authorization"))
        send_object(handler, shard) if handler.path.endswith(".tar") else answer(handler, 404)

    (tmp_path / "netrc").write_text("machine 127.0.0.1 login me password secret")
    (tmp_path / "netrc").chmod(0o600)
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    with LoopbackServer(note) as other:
        (tmp_path / "d.json").write_bytes(description_of(other.url("a.tar"), nsamples=5))
        WAYS[way](read_description(str(tmp_path / "d.json")).urls, str(tmp_path))
        stores.close_connections()
    assert seen and set(seen) == {None}


# --- the type itself ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("birth", list(Birth))
def test_an_address_is_text(birth):
    url = Address("https://h/a.tar", birth, "https://h/")
    assert url == "https://h/a.tar" and hash(url) == hash("https://h/a.tar") and {url: 1}["https://h/a.tar"] == 1
    assert repr(url) == "'https://h/a.tar'" and f"{url}" == "https://h/a.tar" and json.loads(json.dumps([url])) == [url]
    assert type(str(url)) is str and type(url + "") is str and Path(url).name == "a.tar"
    for copy in (pickle.loads(pickle.dumps(url)), deepcopy(url), Address(url)):
        assert (copy, copy.birth, copy.home, type(copy)) == (url, birth, "https://h/", Address)
    drawn = pickle.loads(pickle.dumps(Drawn(url, 7)))
    assert (drawn, drawn.birth, drawn.draw) == (url, birth, 7) and (birth is Birth.USER or drawn.home == url.home)
    assert birth_of(index_url(url)) is birth and birth_of(index_url(url, "d")) is Birth.USER


def test_a_checkpoint_finds_the_address_of_the_dataset_again(scene):
    (scene.data / "d.json").write_bytes(description_of("a.tar"))
    dataset = shards.SimpleShardList(read_description("d.json").urls)
    saved = json.loads(json.dumps(url_as_json(dataset.urls[0])))
    assert type(saved) is str and birth_of(url_from_json(saved)) is Birth.DESCRIPTION
    assert birth_of(url_from_json([saved, 3])) is Birth.DESCRIPTION and url_from_json([saved, 3]).draw == 3


def test_secure_mode_refuses_files_whatever_their_birth(monkeypatch, tmp_path):
    (tmp_path / "a.tar").write_bytes(b"x")
    monkeypatch.setenv("WDS_SECURE", "1")
    for birth in (Birth.USER, Birth.FILE, Birth.MAPPING, Birth.DESCRIPTION):
        with pytest.raises(UnsafeContent, match="unsafe_gopen is False"):
            stores.open_read(Address(f"{tmp_path}/a.tar", birth, str(tmp_path)))


def test_without_the_extra_s3_names_the_line_to_type(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "obstore", None)
    for act in (stores.open_read, stores.stat, stores.open_write, stores.list_urls):
        with pytest.raises(wds.errors.MissingDependency, match=r"pip install 'webdataset\[cloud\]'"):
            act("s3://bucket/*.tar")
    with pytest.raises(wds.errors.MissingDependency, match=r"pip install 'webdataset\[cloud\]'"):
        next(iter(wds.WebDataset("s3://bucket/{0..1}.tar")))


def test_a_generator_of_paths_is_read_once_and_kept(tmp_path):
    for name in "ab":
        with wds.TarWriter(str(tmp_path / f"{name}.tar")) as writer:
            writer.write({"__key__": name, "txt": name})
    kept = shards.SimpleShardList(sorted(tmp_path.glob("*.tar")))
    assert len(kept) == 2 and [len(list(kept)) for _ in range(3)] == [2, 2, 2]
    assert sorted(shards.kept(tmp_path.glob("*.tar"))) == sorted(tmp_path.glob("*.tar")) and shards.kept(kept) is kept
    lazy = shards.SimpleShardList(tmp_path.glob("*.tar"))
    assert len(lazy) == 2 and [len(list(lazy)) for _ in range(3)] == [2, 2, 2]
    with pytest.raises(StoreError):
        stores.open_read(tmp_path / "missing.tar")


# --- what data names may name more ---------------------------------------------------------------------------------


def test_a_description_or_listing_that_data_names_gets_no_more_than_the_data(scene):
    """A YAML spec names a description, or a pattern, on another host: the shards there get no credentials either."""
    scene.pages["/d.json"] = description_of("a.tar")
    scene.pages["/"] = b'<a href="b.tar">b</a>'
    named = Address(scene.server.url("d.json"), Birth.SPEC, "https://h/")
    (shard,) = read_description(named).urls
    (listed,) = stores.list_urls(Address(scene.server.url("*.tar"), Birth.SPEC, "https://h/"))
    for url in (shard, listed):
        assert not may_send_credentials(url) and is_from_data(url)
    (own,) = read_description(scene.server.url("d.json")).urls
    assert may_send_credentials(own)


@pytest.mark.parametrize("make", [wds.WebDataset, wds.IndexedDataset])
def test_joined_shards_of_a_description_are_no_more_trusted_than_its_own(scene, monkeypatch, make):
    """Neither files elsewhere, nor the credentials for another host."""
    secret = make_shard(scene.secret, [{"__key__": "0", "txt": "SECRET"}])
    make_shard(scene.data / "a.tar", [{"__key__": "0", "cls": 1}])
    for text in (secret, f"file:{secret}", "../secret.tar"):
        (scene.data / "d.json").write_bytes(
            description_of("a.tar", join=[{"shardlist": [{"url": text, "nsamples": 1}]}])
        )
        with pytest.raises(UnsafeContent):
            list(make("d.json"))
    seen = []

    def note(handler):
        seen.append(handler.headers.get("Authorization"))
        send_object(handler, scene.secret.read_bytes()) if "secret.tar" in handler.path else answer(handler, 404)

    (scene.data / "netrc").write_text("machine 127.0.0.1 login me password secret")
    (scene.data / "netrc").chmod(0o600)
    monkeypatch.setenv("NETRC", str(scene.data / "netrc"))
    with LoopbackServer(note) as other:
        part = {"shardlist": [{"url": other.url("secret.tar"), "nsamples": 1}]}
        (scene.data / "d.json").write_bytes(description_of("a.tar", join=[part]))
        assert [sample["txt"] for sample in make("d.json")] == [b"SECRET"]
        stores.close_connections()
    assert seen and set(seen) == {None}
