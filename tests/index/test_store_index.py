"""Indexes learned while streaming: the ones that reading on purpose gives, or none."""

import gzip
import logging
import os
import pickle
from itertools import islice

import pytest
from tests.index.archives import make, many

from webdataset import stores
from webdataset.flow import Pass
from webdataset.handlers import ignore_and_continue
from webdataset.index import StoreIndexes, _index_while_reading, build_index, index_url, write_dali
from webdataset.pipeline import DataPipeline
from webdataset.samples import ReadSamples
from webdataset.shards import SimpleShardList
from webdataset.testing import FaultServer


@pytest.fixture(autouse=True)
def nothing_refused():
    _index_while_reading._refused.clear()
    yield
    _index_while_reading._refused.clear()


@pytest.fixture
def shard(tmp_path):
    path = tmp_path / "a.tar"
    path.write_bytes(make([("dir", None), *many(900)]))
    return path


def read(path, **options):
    return list(ReadSamples(store_index=StoreIndexes(), **options)([{"url": str(path)}]))


def test_it_is_the_index_that_reading_on_purpose_gives(shard):
    assert len(read(shard)) == 900
    assert shard.with_suffix(".idx").read_bytes() == write_dali(build_index(str(shard)))


@pytest.mark.parametrize("name", ["long", "pax"])
def test_of_archives_of_every_kind(tmp_path, name):
    import tarfile

    path = tmp_path / f"{name}.tar"
    members = [("x" * 150 + f"{n}.txt", b"abc" * n) for n in range(40)]
    path.write_bytes(make(members, tarfile.GNU_FORMAT if name == "long" else tarfile.PAX_FORMAT))
    read(path)
    assert path.with_suffix(".idx").read_bytes() == write_dali(build_index(str(path)))


def test_a_compressed_shard(tmp_path):
    path = tmp_path / "a.tar.gz"
    path.write_bytes(gzip.compress(make(many(20))))
    read(path)
    assert (tmp_path / "a.idx").read_bytes() == write_dali(build_index(str(path)))


def test_not_one_byte_more_is_read(tmp_path):
    data = make(many(300))
    with FaultServer() as server:
        url = server.add("a.tar", data)
        stage = ReadSamples(store_index=StoreIndexes(str(tmp_path / "indexes")))
        assert len(list(stage([{"url": url}]))) == 300
        assert server.sent("a.tar") == len(data) and server.requests("a.tar") == 1
        (kept,) = (tmp_path / "indexes").iterdir()
        assert kept.read_bytes() == write_dali(build_index(url))
        assert str(kept) == index_url(url, str(tmp_path / "indexes"))


def test_half_a_reading_teaches_nothing(shard):
    stream = ReadSamples(store_index=StoreIndexes())([{"url": str(shard)}])
    assert len(list(islice(stream, 899))) == 899
    stream.close()
    assert not shard.with_suffix(".idx").exists()


def test_a_reading_that_went_on_from_the_middle_teaches_nothing(shard):
    stage = ReadSamples(store_index=StoreIndexes())
    at = stage.start(Pass())
    stream = stage.run(iter([{"url": str(shard)}]), at)
    list(islice(stream, 500))
    saved = at.save()
    stream.close()
    again = stage.start(Pass())
    again.load(saved, None)
    assert len(list(stage.run(iter([]), again))) == 400
    assert not shard.with_suffix(".idx").exists()


@pytest.mark.parametrize("damage", ["cut", "duplicate", "split"])
def test_a_shard_with_failures_teaches_nothing(tmp_path, damage):
    path = tmp_path / "a.tar"
    members = many(30)
    if damage == "duplicate":
        members.append(members[-1])
    if damage == "split":
        members.append((members[0][0] + ".again", b"x"))
    data = make(members)
    path.write_bytes(data[: len(data) // 2] if damage == "cut" else data)
    read(path, handler=ignore_and_continue)
    assert not (tmp_path / "a.idx").exists()


@pytest.mark.parametrize(
    "options",
    [{"select_files": "*.jpg"}, {"rename_files": str.upper}, {"strict": False}, {"concatenated": False}],
    ids=lambda options: next(iter(options)),
)
def test_a_reading_that_leaves_something_out_teaches_nothing(shard, options):
    read(shard, **options)
    assert not shard.with_suffix(".idx").exists()


def test_of_readers_that_share_a_shard_the_first_learns(shard):
    for first in (1, 0):
        item = {"url": str(shard), "first": first, "step": 2}
        assert len(list(ReadSamples(store_index=StoreIndexes())([item]))) == 450
        assert shard.with_suffix(".idx").exists() == (first == 0)


def test_a_known_index_is_left_alone_and_an_older_one_replaced(shard):
    index = shard.with_suffix(".idx")
    index.write_text("v1.2 0\n")
    read(shard)
    assert index.read_text() == "v1.2 0\n"
    os.utime(index, (1, 1))
    read(shard)
    assert index.read_bytes() == write_dali(build_index(str(shard)))


def test_a_place_that_cannot_be_written_is_said_once(tmp_path, caplog):
    (tmp_path / "file").write_text("in the way")
    urls = []
    for number in range(3):
        urls.append(str(tmp_path / f"{number}.tar"))
        (tmp_path / f"{number}.tar").write_bytes(make(many(3)))
    stage = ReadSamples(store_index=StoreIndexes(str(tmp_path / "file")))
    with caplog.at_level(logging.WARNING):
        assert len(list(stage([{"url": url} for url in urls]))) == 9
    assert [record.getMessage()[:24] for record in caplog.records] == ["indexes stay in memory: "]


def test_beside_a_command_or_a_remote_shard_there_is_no_place():
    assert StoreIndexes().begin("pipe:cat a.tar") is None
    assert StoreIndexes().begin("https://example.org/a.tar") is None
    assert StoreIndexes("memory://learn/indexes").begin("pipe:cat a.tar") is not None


def test_names_with_blanks_in_the_extension_have_no_index(tmp_path):
    path = tmp_path / "a.tar"
    path.write_bytes(make([("a.b c", b"x")]))
    assert len(read(path)) == 1
    assert not (tmp_path / "a.idx").exists()


def test_in_a_pipeline_and_through_pickle(tmp_path, shard):
    place = str(tmp_path / "indexes")
    pipeline = DataPipeline(SimpleShardList(str(shard)), ReadSamples(store_index=StoreIndexes(place)))
    assert len(list(pickle.loads(pickle.dumps(pipeline)))) == 900
    assert stores.stat(index_url(str(shard), place)).size
