"""`WebDataset(store_index=…)`: streamed the first time, read by plan the next."""

import pytest

import webdataset as wds
from webdataset.errors import SpecError
from webdataset.testing import FaultServer, make_shard


@pytest.fixture
def data(tmp_path):
    folder = tmp_path / "data"
    folder.mkdir()
    for shard in range(3):
        make_shard(folder / f"{shard}.tar", ({"__key__": f"{shard}{n}", "cls": n} for n in range(5)))
    return folder


def keys(dataset):
    return [sample["__key__"] for sample in dataset]


@pytest.mark.parametrize("place", ["beside", "elsewhere", "bucket"])
def test_the_first_time_streamed_the_next_time_planned(data, tmp_path, place):
    learn = {"beside": True, "elsewhere": tmp_path / "indexes", "bucket": "memory://learning/indexes"}[place]
    spec = f"{data}/{{0..2}}.tar"
    first = wds.WebDataset(spec, store_index=learn, shardshuffle=False)
    assert first.plan is None
    streamed = keys(first)
    second = wds.WebDataset(spec, store_index=learn, shardshuffle=False)
    assert second.plan is not None and len(second) == 15 and keys(second) == streamed
    second.plan.dataset.close()


def test_half_an_epoch_teaches_the_shards_that_were_read(data):
    dataset = wds.WebDataset(f"{data}/{{0..2}}.tar", store_index=True, shardshuffle=False)
    assert len(keys(dataset.slice(6))) == 6
    dataset.close()
    assert sorted(path.name for path in data.glob("*.idx")) == ["0.idx"]
    again = wds.WebDataset(f"{data}/{{0..2}}.tar", store_index=True, shardshuffle=False)
    assert again.plan is None and len(keys(again)) == 15
    assert len(list(data.glob("*.idx"))) == 3


def test_remote_shards_are_read_once(data, tmp_path):
    with FaultServer() as server:
        urls = [server.add(path.name, path.read_bytes()) for path in sorted(data.glob("*.tar"))]
        dataset = wds.WebDataset(urls, store_index=tmp_path / "indexes", shardshuffle=False)
        assert len(keys(dataset)) == 15
        assert [server.requests(path.name) for path in sorted(data.glob("*.tar"))] == [1, 1, 1]
        assert wds.WebDataset(urls, store_index=tmp_path / "indexes").plan is not None
    from webdataset import stores

    stores.close_connections()


def test_through_workers(data):
    loader = wds.WebLoader(wds.WebDataset(f"{data}/{{0..2}}.tar", store_index=True, shardshuffle=False), num_workers=2)
    assert len(list(loader)) == 15
    assert len(list(data.glob("*.idx"))) == 3


def test_nothing_is_kept_unasked(data):
    keys(wds.WebDataset(f"{data}/{{0..2}}.tar", shardshuffle=False))
    assert not list(data.glob("*.idx"))


def test_indexes_that_were_insisted_on_are_kept(data, tmp_path):
    dataset = wds.WebDataset(f"{data}/{{0..2}}.tar", index=tmp_path / "indexes")
    assert len(dataset) == 15 and len(list((tmp_path / "indexes").iterdir())) == 3


def test_what_is_no_place(data):
    with pytest.raises(SpecError, match="store_index=3"):
        wds.WebDataset(f"{data}/0.tar", store_index=3)
