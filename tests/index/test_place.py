import pytest
from tests.index.archives import make, many

from webdataset import index
from webdataset.errors import FormatError, SpecError
from webdataset.index import build, dali_name, index_url, load_count, load_index, save_index


def test_wds2idx_names():
    assert dali_name("a.b.tar") == "a.idx" and dali_name("s3://b/x.y/train-0.tar") == "s3://b/x.y/train-0.idx"


def test_names_beside_shards_do_not_collide():
    assert index_url("dir/a.tar") == "dir/a.idx" == dali_name("dir/a.tar")
    assert index_url("dir/a.0.tar") != index_url("dir/a.1.tar")
    assert [index_url(f"x{suffix}") for suffix in (".tar", ".tgz", ".tar.gz", ".tar.zst", ".TAR")] == ["x.idx"] * 5


def test_names_in_a_place_of_their_own_do_not_collide():
    assert index_url("https://h/x/0.tar", "d") != index_url("https://h/y/0.tar", "d/")
    assert index_url("pipe:curl 'http://x/y' | cat", "d").startswith("d/")
    with pytest.raises(SpecError, match="cannot be stored next to"):
        index_url("pipe:cat x")


@pytest.mark.parametrize("place", [None, "own"])
def test_saved_whole_and_loaded_again(tmp_path, place):
    url = str(tmp_path / "a.tar")
    place = place and str(tmp_path / place)
    built = build([("a.jpg", 512, 600), ("b.jpg", 2048, 1)])
    assert load_index(url, place) is None and load_count(url, place) is None
    where = save_index(built, url, place)
    assert load_index(url, place) == built and load_count(url, place) == 2
    assert [path.name for path in tmp_path.rglob("*.idx")] == [where.rsplit("/", 1)[-1]]


def test_an_index_that_wds2idx_put_there_is_found(tmp_path):
    (tmp_path / "a.idx").write_bytes(b"v1.2 1\njpg 512 1 x.jpg\n")
    assert load_count(str(tmp_path / "a.b.tar")) == 1


def test_commands_have_no_index_beside_them():
    assert load_index("pipe:cat x.tar") is None


def test_a_damaged_index_is_an_error_that_names_it(tmp_path):
    (tmp_path / "a.idx").write_bytes(b"v1.2 9\njpg 512")
    with pytest.raises(FormatError, match=r"a\.idx"):
        load_index(str(tmp_path / "a.tar"))


def test_packed_shards_can_be_counted(tmp_path):
    import gzip

    url = str(tmp_path / "a.tar.gz")
    (tmp_path / "a.tar.gz").write_bytes(gzip.compress(make(many(5))))
    save_index(index.build_index(url), url)
    assert load_count(url) == 5


@pytest.mark.parametrize("name", ["s-002.idx", "s-002.v1.idx"])
def test_a_directory_of_plainly_named_indexes_is_used(name, tmp_path, monkeypatch):
    """As users of DALI keep them: without the digest that our own names have."""
    from webdataset import tar
    from webdataset.index import IndexedShards, _indexed_shards, build_index, write_dali

    shard = tmp_path / "data" / "s-002.v1.tar"
    indexes = tmp_path / "indexes"
    shard.parent.mkdir()
    indexes.mkdir()
    shard.write_bytes(tar.encode_header("a.txt", 3) + b"abc" + tar.padding(3) + tar.END_OF_ARCHIVE)
    (indexes / name).write_bytes(write_dali(build_index(str(shard))))
    monkeypatch.setattr(_indexed_shards, "build_index", lambda url: pytest.fail("the shard was read to build an index"))
    with IndexedShards([str(shard)], index=str(indexes)) as dataset:
        assert dataset[0]["txt"] == b"abc"
