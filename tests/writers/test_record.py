"""Indexes and descriptions that are written while shards are written: what reading them would give."""

import hashlib
import io
import json
import tarfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from webdataset import stores
from webdataset.errors import EncodingError, SpecError
from webdataset.index import IndexedShards, build_index, index_url, read_description, write_dali
from webdataset.writers import ShardWriter, TarWriter

NAMES = st.text("ab0é_-/ .", min_size=1, max_size=130)


def sample(number, **fields):
    return {"__key__": f"dir/{number:04d}", "txt": f"number {number}" * number, "cls": number, **fields}


def written(folder, pattern="a-%03d.tar", count=7, maxcount=3, **options):
    with ShardWriter(f"{folder}/{pattern}", maxcount=maxcount, **options) as sink:
        for number in range(count):
            sink.write(sample(number))
    return sorted(str(path) for path in folder.glob("*.tar*"))


@pytest.mark.parametrize("options", [{}, {"format": "pax"}, {"format": "gnu"}, {"keep_meta": True}])
def test_the_index_is_the_one_that_reading_gives(tmp_path, options):
    shards = written(tmp_path, index=True, **options)
    assert len(shards) == 3
    for shard in shards:
        assert Path(index_url(shard)).read_bytes() == write_dali(build_index(shard))


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rows=st.lists(st.tuples(NAMES, st.dictionaries(NAMES, st.binary(max_size=600), max_size=3)), max_size=6))
def test_the_index_is_the_one_that_reading_gives_whatever_the_names(tmp_path, rows):
    shard = str(tmp_path / "a.tar")
    sink = TarWriter(shard, index=True, strict=False, encoder=False)
    for key, fields in rows:
        try:
            sink.write({"__key__": key, **fields})
        except ValueError:
            continue  # what cannot be written at all
    try:
        sink.close()
    except EncodingError:
        with pytest.raises(EncodingError):  # an extension with blanks
            write_dali(build_index(shard))
    else:
        assert (tmp_path / "a.idx").read_bytes() == write_dali(build_index(shard))


def test_a_compressed_shard(tmp_path):
    (shard,) = written(tmp_path, pattern="a-%03d.tar.gz", maxcount=99, index=True)
    assert (tmp_path / "a-000.idx").read_bytes() == write_dali(build_index(shard))


def test_in_a_place_of_its_own(tmp_path):
    shards = written(tmp_path, index=tmp_path / "indexes")
    assert not list(tmp_path.glob("*.idx")) and len(list((tmp_path / "indexes").iterdir())) == 3
    with IndexedShards(shards, index=str(tmp_path / "indexes")) as dataset:
        assert dataset[6]["cls"] == b"6"


def test_the_description_says_what_is_there(tmp_path):
    shards = written(tmp_path, description=tmp_path / "dataset.json")
    content = json.loads((tmp_path / "dataset.json").read_text())
    assert [entry["url"] for entry in content["shardlist"]] == ["a-000.tar", "a-001.tar", "a-002.tar"]
    description = read_description(tmp_path / "dataset.json")
    assert description.urls == shards and description.counts == [3, 3, 1]
    for entry, shard in zip(description.shards, shards, strict=True):
        data = Path(shard).read_bytes()
        assert (entry.filesize, entry.md5sum) == (len(data), hashlib.md5(data).hexdigest())


def test_the_description_of_compressed_shards_counts_stored_bytes(tmp_path):
    (shard,) = written(tmp_path, pattern="a-%03d.tar.gz", maxcount=99, description=tmp_path / "dataset.json")
    (entry,) = read_description(tmp_path / "dataset.json").shards
    data = Path(shard).read_bytes()
    assert (entry.filesize, entry.md5sum) == (len(data), hashlib.md5(data).hexdigest())


def test_the_description_elsewhere_names_shards_absolutely(tmp_path, monkeypatch):
    (tmp_path / "data").mkdir()
    (tmp_path / "meta").mkdir()
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SpecError, match="readers would refuse it"):
        ShardWriter("data/a-%d.tar", description="meta/dataset.json")
    monkeypatch.setenv("WDS_TRUSTED_FOLDERS", str(tmp_path / "data"))
    with ShardWriter("data/a-%d.tar", description="meta/dataset.json") as sink:
        sink.write(sample(1))
    assert read_description("meta/dataset.json").urls == [str(tmp_path / "data/a-0.tar")]
    with ShardWriter("data/b-%d.tar", description="dataset.json") as sink:
        sink.write(sample(1))
    assert read_description("dataset.json").urls == ["data/b-0.tar"]


def test_a_url_of_another_store(tmp_path):
    with ShardWriter("memory://record/a-%d.tar", description="memory://record/dataset.json", index=True) as sink:
        sink.write(sample(1))
    assert read_description("memory://record/dataset.json").urls == ["memory://record/a-0.tar"]
    assert stores.stat("memory://record/a-0.idx").size


def test_through_an_opener(tmp_path):
    """The index is stored when the opener's stream is closed, under the shard's name."""
    with ShardWriter(
        f"{tmp_path}/a-%d.tar", opener=stores.open_write, index=True, description=tmp_path / "d.json"
    ) as sink:
        sink.write(sample(1))
    assert (tmp_path / "a-0.idx").read_bytes() == write_dali(build_index(str(tmp_path / "a-0.tar")))
    assert read_description(tmp_path / "d.json").shards[0].filesize == (tmp_path / "a-0.tar").stat().st_size


def test_nothing_is_left_of_what_was_not_published(tmp_path):
    with pytest.raises(ZeroDivisionError):
        with ShardWriter(f"{tmp_path}/a-%d.tar", maxcount=1, index=True, description=tmp_path / "d.json") as sink:
            sink.write(sample(0))
            sink.write(sample(1))
            1 / 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a-0.idx", "a-0.tar"]


def test_each_index_is_there_when_post_is_called(tmp_path):
    seen = []
    written(tmp_path, index=True, post=lambda name: seen.append(stores.stat(index_url(name)).size > 0))
    assert seen == [True] * 3


def test_closing_twice_writes_one_description(tmp_path):
    sink = ShardWriter(f"{tmp_path}/a-%d.tar", description=tmp_path / "d.json")
    sink.write(sample(1))
    sink.close()
    (tmp_path / "d.json").unlink()
    sink.close()
    assert not (tmp_path / "d.json").exists()


def test_what_cannot_be_is_refused_at_once(tmp_path):
    with pytest.raises(SpecError, match="no name for an index"):
        TarWriter(io.BytesIO(), index=True)
    with pytest.raises(SpecError, match="expected True"):
        TarWriter(str(tmp_path / "a.tar"), index=3)
    with pytest.raises(SpecError, match="cannot be stored next to"):
        ShardWriter("pipe:cat > %d.tar", index=True)
    with pytest.raises(SpecError, match="output of a command"):
        ShardWriter("pipe:cat > %d.tar", description="d.json")
    assert not list(tmp_path.iterdir())


def test_a_shard_without_samples_has_an_index_too(tmp_path):
    with TarWriter(tmp_path / "a.tar", index=True):
        pass
    assert (tmp_path / "a.idx").read_text() == "v1.2 0\n"
    with tarfile.open(tmp_path / "a.tar") as archive:
        assert archive.getnames() == []
