"""`loader.stats().skipped`: what handlers left out, in this process and in the workers."""

import json
import pickle

import pytest

import webdataset as wds
from tests.pipeline.indexed import write_shards

COUNTS = (7, 1, 12, 6, 5)
BAD = (0, 7, 8, 9, 30)
LOADERS = [("threads", 0), ("threads", 2), ("processes", 0), ("processes", 1), ("processes", 2)]


@pytest.fixture(scope="module")
def shards(tmp_path_factory):
    return write_shards(tmp_path_factory.mktemp("skipped"), COUNTS)


def fails(sample):
    if int(sample["__key__"]) in BAD:
        raise ValueError(f"bad {sample['__key__']}")
    return sample["__key__"]


def check(skipped, shards):
    assert skipped.count == len(BAD) and skipped.reasons == {"ValueError": len(BAD)}
    assert skipped.shards == {shards[0]: 1, shards[1]: 1, shards[2]: 2, shards[4]: 1}
    assert sorted(skip.key for skip in skipped.first) == [f"{number:05d}" for number in BAD]
    assert {skip.reason for skip in skipped.first} == {f"ValueError: bad {number:05d}" for number in BAD}


@pytest.mark.parametrize(("workers", "number"), LOADERS)
@pytest.mark.parametrize(
    "options",
    [{"index": False}, {"index": True}, {"index": True, "failed": "replace"}],
    ids=["stream", "plan", "replace"],
)
def test_what_handlers_left_out_is_counted_and_listed_for_every_epoch(shards, workers, number, options):
    dataset = wds.WebDataset(shards, **options).map(fails, handler=wds.ignore_and_continue)
    loader = wds.WebLoader(dataset, batch_size=None, num_workers=number, workers=workers)
    expected = sum(COUNTS) if "failed" in options else sum(COUNTS) - len(BAD)
    for _ in range(2):
        assert len(list(loader)) == expected
        check(loader.stats().skipped, shards)
        assert "skipped: 5 (5 ValueError) in 4 shards" in str(loader.stats())
    loader.close()


def test_a_sample_that_cannot_be_read_is_listed(tmp_path):
    urls = write_shards(tmp_path, (6, 6))
    path = tmp_path / "part-001.tar"
    data = bytearray(path.read_bytes())
    data[5120:5632] = bytes([255]) * 512
    path.write_bytes(data)
    dataset = wds.WebDataset(urls, index=True, order="random", handler=wds.ignore_and_continue)
    loader = wds.WebLoader(dataset, batch_size=None, workers="threads")
    assert len(list(loader)) == 11
    skipped = loader.stats().skipped
    assert skipped.count == 1 and skipped.shards == {urls[1]: 1} and skipped.first[0].key == "00009"
    loader.close()


def test_what_filters_leave_out_is_not_skipped(shards):
    loader = wds.WebLoader(wds.WebDataset(shards).select(lambda sample: False), batch_size=None, workers="threads")
    assert list(loader) == [] and loader.stats().skipped.count == 0
    loader.close()


def test_the_list_is_short_however_many_were_skipped():
    def bad(number):
        raise ValueError(number)

    loader = wds.WebLoader(wds.DataPipeline(range(500)).compose(wds.map(bad, handler=wds.ignore_and_continue)))
    assert list(loader) == []
    skipped = loader.stats().skipped
    assert skipped.count == 500 and [skip.reason for skip in skipped.first] == [f"ValueError: {n}" for n in range(20)]
    assert pickle.loads(pickle.dumps(skipped)) == skipped and json.dumps(skipped.reasons)
    loader.close()
