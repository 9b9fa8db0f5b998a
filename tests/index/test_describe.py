import hashlib
import json

import pytest
from tests.index.archives import make, many
from tests.stores.fakes import send_object

from webdataset import stores
from webdataset.errors import ShardNotFound, StoreError
from webdataset.index import build_index, index_shards, index_url, load_index, read_description, write_description
from webdataset.testing import LoopbackServer


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


@pytest.mark.parametrize("place", ["local", "http"])
def test_a_shard_that_is_replaced_meanwhile_is_described_as_one_version_or_an_error(tmp_path, monkeypatch, place):
    """After each request, or between the index and the checksum of a local file."""
    old, new = make(many(2)), make(many(9))
    (tmp_path / "a.tar").write_bytes(old)
    left = [0]

    def replace(*_):
        left[0] -= 1
        if not left[0]:
            (tmp_path / "b.tar").write_bytes(new)
            (tmp_path / "b.tar").replace(tmp_path / "a.tar")

    def respond(handler):
        send_object(handler, (tmp_path / "a.tar").read_bytes())
        replace()

    def built(url, **options):
        found = build_index(url, **options)
        if place == "local":
            replace()
        return found

    monkeypatch.setattr("webdataset.index._index_dataset.build_index", built)
    with LoopbackServer(respond) as server:
        url = server.url("a.tar") if place == "http" else str(tmp_path / "a.tar")
        for after in range(1, 4):
            (tmp_path / "a.tar").write_bytes(old)
            left[0] = after
            try:
                (entry,) = index_shards([url], store_index=False).shards
            except StoreError:
                continue
            data = old if entry.nsamples == 2 else new
            assert (entry.filesize, entry.md5sum) == (len(data), hashlib.md5(data).hexdigest())
        stores.close_connections()
