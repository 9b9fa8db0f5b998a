import hashlib
import json

import pytest
from tests.index.archives import make, many

from webdataset.errors import ShardNotFound
from webdataset.index import index_shards, index_url, load_index, read_description, write_description


@pytest.fixture
def urls(tmp_path):
    for number in range(5):
        (tmp_path / f"{number}.tar").write_bytes(make(many(number + 1)))
    return [str(tmp_path / f"{number}.tar") for number in range(5)]


@pytest.mark.parametrize("place", [None, "own"])
def test_everything_is_indexed_and_described(urls, tmp_path, place):
    place = place and str(tmp_path / place)
    description = index_shards(urls, index=place, workers=3, name="train")
    assert description.counts == [1, 2, 3, 4, 5] and description.urls == urls and description.name == "train"
    for url, shard in zip(urls, description.shards):
        data = (tmp_path / url).read_bytes()
        assert shard.filesize == len(data) and shard.md5sum == hashlib.md5(data).hexdigest()
        assert len(load_index(url, place)) == shard.nsamples
        shard.check(len(data))
    assert read_description(json.loads(write_description(description))) == description


def test_only_counting_leaves_nothing_behind(urls, tmp_path):
    index_shards(urls, store_index=False)
    assert not list(tmp_path.glob("*.idx"))


def test_a_missing_shard_is_named(urls, tmp_path):
    with pytest.raises(ShardNotFound, match="gone.tar"):
        index_shards([*urls, str(tmp_path / "gone.tar")])
    assert not (tmp_path / index_url("gone.tar")).exists()
