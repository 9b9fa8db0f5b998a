"""SQL over samples."""

import json

import pytest

from tests.tools.caption_shards import captions, write
from webdataset.errors import MissingDependency, SpecError
from webdataset.testing import FaultServer
from webdataset.tools import list_samples, query
from webdataset.writers import TarWriter

duckdb = pytest.importorskip("duckdb", reason="duckdb is not installed: pip install 'webdataset[query]'")


def ask(sql, inputs, **options):
    with query(sql, inputs, **options) as answer:
        return list(answer.rows())


@pytest.fixture
def shards(tmp_path):
    return captions(tmp_path)


def test_keys_shards_and_sizes(shards):
    assert ask("select count(*), count(distinct shard) from samples", shards) == [(30, 3)]
    assert ask("select key, number, shard from samples where number = 4 order by key", shards) == [
        (f"{4 + 10 * n:04d}", 4, shards[n]) for n in range(3)
    ]
    assert ask("select sum(size), sum(sizes.cls::int) from samples", shards)[0][1] == 50


def test_sizes_are_those_of_the_listing(tmp_path):
    """Members that only say where a sample was read before are no fields."""
    path = str(tmp_path / "kept.tar")
    with TarWriter(path, keep_meta=True) as sink:
        sink.write({"__key__": "a", "__url__": "elsewhere.tar", "txt": "abc"})
    (listed,) = list_samples(path)
    assert ask("select size, sizes from samples", path) == [(listed.size, json.dumps(listed.fields))]
    assert (listed.size, listed.fields) == (3, {"txt": 3})


def test_json_numbers_and_text(shards):
    assert ask("select key from samples where json.width > 270 order by key", shards) == [("0028",), ("0029",)]
    assert ask("select json.width from samples where cls = 3", shards) == [("30",)]
    assert ask("select count(*) from samples where txt ilike '%cat%'", shards) == [(10,)]
    assert ask("select avg(cls) from samples", shards) == [(14.5,)]


def test_a_field_with_a_dot_and_deep_paths(tmp_path):
    shard = write(tmp_path / "a.tar", [(f"{n}", {"meta.json": {"a": {"b": [n, 2 * n]}}}) for n in range(5)])
    assert ask('select key from samples where "meta.json".a.b[1] = 6', shard) == [("3",)]


def test_star_has_all_columns(shards):
    with query("select * from samples limit 1", shards) as answer:
        assert answer.columns == ("key", "shard", "number", "offset", "size", "sizes", "cls", "json", "txt")


def test_a_field_that_only_later_shards_have(tmp_path):
    one = write(tmp_path / "a.tar", [("a", {"bin": b"x"})])
    two = write(tmp_path / "b.tar", [("b", {"json": {"x": 1}})])
    assert ask("select key, json.x from samples order by key", [one, two]) == [("a", None), ("b", "1")]


def test_what_is_not_json_is_null(tmp_path):
    shard = write(
        tmp_path / "a.tar", [("a", {"json": b"{", "cls": b"x"}), ("b", {"json": b"1", "cls": b"2"})], encoder=False
    )
    assert ask("select key, json, cls from samples order by key", shard) == [("a", None, None), ("b", "1", 2)]


def test_streams_can_be_asked_too(shards):
    assert ask("select max(cls) from samples", f"pipe:cat {shards[1]}") == [(19,)]


def test_keys_are_a_list_for_select(shards):
    with query("select key from samples where cls < 2 order by 1", shards) as answer:
        assert list(answer.keys()) == ["0000", "0001"]
    with query("select cls from samples", shards) as answer, pytest.raises(SpecError, match="no column 'key'"):
        answer.keys()


def test_parquet(shards, tmp_path):
    out = str(tmp_path / "it's.parquet")
    with query("select key, cls from samples order by cls;", shards, parquet=out):
        pass
    name = out.replace("'", "''")
    assert duckdb.sql(f"select max(cls) from '{name}'").fetchall() == [(29,)]


def test_a_wrong_query_is_one_sentence_with_the_columns(shards):
    with pytest.raises(SpecError, match="the columns are key shard number offset size sizes cls .*json"):
        ask("select wrong from samples", shards)
    with pytest.raises(SpecError):
        ask("selec", shards)


def test_without_duckdb_the_error_names_the_extra(shards, monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "duckdb", None)
    with pytest.raises(MissingDependency, match=r"webdataset\[query\]"):
        ask("select 1", shards)


@pytest.mark.parametrize(
    "sql, share", [("select count(*) from samples", 0.0), ("select avg(json.n::int) from samples", 0.07)]
)
def test_of_a_dataset_of_pictures_little_is_read(tmp_path, sql, share):
    """95 % pictures, 5 % JSON: a question about the JSON reads at most 7 % of the bytes, one about sizes nothing."""
    samples = [
        (f"{n:05d}", {"jpg": bytes(95_000), "json": json.dumps({"n": n, "text": "x" * 4900}).encode()})
        for n in range(60)
    ]
    write(tmp_path / "a.tar", samples, encoder=False, index=True)
    data = (tmp_path / "a.tar").read_bytes()
    with FaultServer() as server:
        url = server.add("a.tar", data)
        server.add("a.idx", (tmp_path / "a.idx").read_bytes())
        assert len(ask(sql, url)) == 1
        assert server.sent("a.tar") + server.sent("a.idx") <= share * len(data) + 10_000
