"""Documents that are small, or have no end, and ask for more than the memory holds."""

import json
from contextlib import suppress
from pathlib import Path

import pytest

import webdataset as wds
from wids import _descriptions as wids_descriptions
from webdataset import shards, stores, tools
from webdataset.errors import SpecError, StoreError, WebDatasetError
from webdataset.index import load_index, read_description
from webdataset.testing import LoopbackServer


def test_too_many_shards_are_refused_before_they_fill_the_memory():
    for spec in (
        "{0..999999999}.tar", "{0..9999}{0..9999}.tar", ["{000000000..999999999..7}.tar"], "{999999999..0}.tar",
        "{a,b{0..9999}}{0..9999}.tar", "{0..9}" * 9, "{a..z}" * 6, "{a,b}" * 30,
    ):  # fmt: skip
        with pytest.raises(SpecError, match="at most 10,000,000 shards"):
            shards.expand(spec)


def test_documents_that_name_more_shards_than_they_list_are_bounded(tmp_path, monkeypatch):
    monkeypatch.setattr("webdataset.index._description.MAX_SHARDS", 50)
    monkeypatch.setattr("webdataset.index._description._MOST_PARTS", 20)
    monkeypatch.chdir(tmp_path)
    one = {"wids_version": 1, "shardlist": [{"url": "a.tar", "nsamples": 1}]}
    Path("in.json").write_text(json.dumps(one))
    many = json.dumps({"wids_version": 1, "shardlist": [{"url": f"{n}.tar", "nsamples": 1} for n in range(20)]})
    Path("many.json").write_text(many)
    for part, times in (("in.json", 21), ("many.json", 3)):
        for parts in (times - 1, times):
            Path("d.json").write_text(json.dumps({"wids_version": 1, "datasets": [{"source_url": part}] * parts}))
            if parts < times:
                assert read_description("d.json").shards
            else:
                with pytest.raises(wds.errors.FormatError, match="too many parts or shards"):
                    read_description("d.json")
    for resample in (10**12, "many", 1.5):
        with pytest.raises(SpecError, match="whole numbers"):
            list(shards.parse_spec({"datasets": [{"shards": ["a.tar"], "resample": resample}]}))


DOCUMENTS = {
    "description": read_description,
    "index page": lambda url: stores.list_urls(url.replace("d.json", "*")),
    "index": lambda url: load_index(url.replace("d.json", "a.tar")),
    "hub": lambda _: stores.list_urls("hf://datasets/me/x/*"),
    "AIStore": lambda _: stores.list_urls("ais://b/*"),
}


@pytest.mark.parametrize("read_it", DOCUMENTS.values(), ids=DOCUMENTS)
def test_a_document_without_an_end_does_not_fill_the_memory(read_it, monkeypatch):
    monkeypatch.setattr("webdataset.stores._store.LARGEST_DOCUMENT", 3 << 20)

    def endless(handler):
        handler.send_response(200)
        handler.send_header("Content-Length", str(1 << 40))
        handler.end_headers()
        with suppress(OSError):  # the reader has gone
            while handler.command == "GET":
                handler.wfile.write(b" " * (1 << 16))

    with LoopbackServer(endless) as server:
        monkeypatch.setenv("HF_ENDPOINT", server.url(""))
        monkeypatch.setenv("AIS_ENDPOINT", server.url(""))
        with pytest.raises(StoreError, match="of more than 3,145,728 bytes is not read"):
            read_it(server.url("d.json"))
        stores.close_connections()


@pytest.mark.parametrize("spec", ["a", "{0..9}", "{00..10..3}", "{9..0}", "{a,b,c}", "{a,b{0..3}c{x,y}}{0..4}", "{a}", "{}", "x{,y}", "{{a,b},{0..2}}", "{a..c}"])  # fmt: skip
def test_the_number_of_shards_is_known_before_they_are_made(spec):
    from webdataset.shards._expand import _count

    assert _count(spec) == len(shards.expand_urls(spec))


def test_an_endless_list_ends():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("webdataset.shards._expand.MAX_SHARDS", 1000)
        with pytest.raises(SpecError, match="at most"):
            shards.expand(iter(lambda: "a.tar", None))


@pytest.mark.parametrize(
    "text", [b"a: 1" + b":1" * 50_000, b"".join(b"%d: 1\n" % (n * (2**61 - 1)) for n in range(1, 8000))]
)
def test_integers_of_a_yaml_file_that_take_quadratic_time_are_refused(text):
    """In base 60, and as keys that all have one hash: minutes for 2 MB."""
    with pytest.raises(SpecError, match="digits, at most 20 are allowed"):
        shards.load_yaml(text, "to test")
    assert shards.load_yaml(b"a: 1:30\nb: 18_446_744_073\n", "to test") == {"a": 90, "b": 18_446_744_073}


DEEP = b"[" * 100_000
READERS = {
    "description": read_description,
    "description, changed by wids": lambda path: wids_descriptions.update(path, dict),
    "table": lambda path: tools.create(path, f"{path}.tar"),
    "expression": lambda path: tools.Expression("json.a == 1")({"__key__": "0", "json": DEEP}),
}


@pytest.mark.parametrize("read_it", READERS.values(), ids=READERS)
def test_json_of_very_many_levels_is_an_error(read_it, tmp_path):
    """Python's parser raises no ValueError for it, but a RecursionError."""
    path = tmp_path / "a.jsonl"
    path.write_bytes(DEEP)
    with pytest.raises(WebDatasetError, match="not JSON|cannot be computed"):
        read_it(str(path))


def test_a_list_of_objects_of_very_many_levels_is_an_error(monkeypatch):
    def answer(handler):
        handler.send_response(200)
        handler.send_header("Content-Length", str(len(DEEP)))
        handler.end_headers()
        handler.wfile.write(DEEP)

    with LoopbackServer(answer) as server:
        monkeypatch.setenv("HF_ENDPOINT", server.url(""))
        monkeypatch.setenv("WDS_RETRIES", "1")
        with pytest.raises(StoreError, match="that is not JSON"):
            stores.list_urls("hf://datasets/me/x/*")
        stores.close_connections()
