"""Samples that follow each other are the same whether they are read together or looked up one by one."""

import tarfile

import pytest
from tests.index.archives import make, many

import webdataset as wds
from webdataset import stores, world
from webdataset.errors import StaleIndex
from webdataset.index import IndexedShards
from webdataset.plan._read_adjacent import read_adjacent

# What may be stored between plain samples, in place of the samples 30 to 32.
ODD = {
    "nothing": [],
    "a long name": [(f"{'d' * 60}/{'n' * 80}.jpg", b"long"), (f"{'d' * 60}/{'n' * 80}.json", b"{}")],
    "a name that is not ASCII": [("dir/000031é.jpg", b"1")],
    "a directory": [("dir/000031", None), ("dir/000031.jpg", b"1")],
    "upper case": [("dir/000031.JPG", b"1")],
    "one field": [("dir/000031.txt", b"1")],
    "an empty field": [("dir/000031.jpg", b"")],
    "a field of the reader": [("dir/000031.__url__", b"1"), ("dir/000031.jpg", b"1")],
    "a name without a field": [("dir/000031", b"1"), ("dir/000031.jpg", b"1")],
    "a smaller key": [("dir/0.jpg", b"1")],
    "a tar": [("dir/000031.tar", make(many(3)))],
    "a key that begins another": [("dir/00003.jpg", b"1"), ("dir/000031.jpg", b"1")],
}


def stored(tmp_path, data, name="a.tar"):
    (tmp_path / name).write_bytes(data)
    return str(tmp_path / name)


@pytest.mark.parametrize("format", [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
@pytest.mark.parametrize("odd", ODD)
def test_the_samples_are_those_of_the_lookup(tmp_path, odd, format):
    shard = stored(tmp_path, make([*many(30), *ODD[odd], *many(30, start=33)], format))
    with IndexedShards([shard]) as dataset:
        together = 0
        for first in range(len(dataset) - 16):
            numbers = list(range(first, first + 16))
            samples = read_adjacent(dataset, numbers)
            assert samples is None or samples == dataset.__getitems__(numbers)
            together += samples is not None
        assert together >= 20  # those that nothing odd is stored in between


def test_a_run_is_one_read(tmp_path, monkeypatch):
    with IndexedShards([stored(tmp_path, make(many(300)))]) as dataset:
        dataset[0]
        reads = []
        reader = dataset._shards.reader(0)
        read = reader._bytes.read
        monkeypatch.setattr(reader._bytes, "read", lambda *span: reads.append(span) or read(*span))
        assert len(read_adjacent(dataset, list(range(20, 276)))) == 256
        assert len(reads) == 1


@pytest.mark.parametrize("numbers", [[*range(8)], [*range(16, 0, -1)], [*range(0, 40, 2)], [*range(40, 60)], [5] * 20])
def test_what_is_no_run_of_one_shard_is_looked_up(tmp_path, numbers):
    shards = [stored(tmp_path, make(many(50, start)), f"{start}.tar") for start in (0, 50)]
    with IndexedShards(shards) as dataset:
        assert read_adjacent(dataset, numbers) is None


def test_large_samples_are_not_held_twice(tmp_path):
    with IndexedShards([stored(tmp_path, make([(f"{n:03}.bin", bytes(1 << 18)) for n in range(20)]))]) as dataset:
        assert read_adjacent(dataset, list(range(20))) is None


@pytest.mark.parametrize("options", [{"fields": ["jpg"]}, {"lazy": True}, {"functions": [dict]}])
def test_what_a_lookup_would_change_is_looked_up(tmp_path, options):
    with IndexedShards([stored(tmp_path, make(many(30)))], **options) as dataset:
        assert read_adjacent(dataset, list(range(20))) is None


def test_of_a_view_only_samples_that_follow_each_other(tmp_path):
    with IndexedShards([stored(tmp_path, make(many(60)))]) as dataset:
        assert read_adjacent(dataset[::2], list(range(20))) is None
        assert read_adjacent(dataset[10:], list(range(20))) == list(dataset[10:30])


OTHER = {
    "the same sizes under other names": make([(name.replace("dir/0000", "dir/9990"), data) for name, data in many(64)]),
    "a damaged checksum": make(many(64)).replace(b"dir/000040", b"dir/0000x0"),
}


@pytest.mark.parametrize("other", OTHER.values(), ids=OTHER)
def test_a_shard_that_does_not_fit_its_index_is_an_error_of_the_lookup(tmp_path, other):
    data = make(many(64))
    shard = stored(tmp_path, data)
    wds.index_shards([shard])
    assert len(other) == len(data)
    stored(tmp_path, other)
    with IndexedShards([shard]) as dataset:
        assert read_adjacent(dataset, list(range(32, 64))) is None
    dataset = wds.WebDataset([shard], shardshuffle=False).batched(32, collation_fn=None)
    with world.pretend(world.World(worker=1, workers=2)), pytest.raises(StaleIndex, match="a.tar"):
        list(dataset)


def test_steps_of_workers_are_those_of_one_reader(tmp_path):
    members = [*many(70), *ODD["a long name"], *many(75, start=100)]
    shards = [stored(tmp_path, make(members), "a.tar"), stored(tmp_path, make(many(99, start=300)), "b.tar")]
    wds.index_shards(shards)
    dataset = wds.WebDataset(shards, shardshuffle=False).batched(20, collation_fn=None)
    alone = list(dataset)
    parts = []
    for worker in range(3):
        with world.pretend(world.World(worker=worker, workers=3)):
            parts.append(list(dataset))
    assert [parts[step % 3][step // 3] for step in range(len(alone))] == alone


def test_remote_shards(tmp_path):
    with stores.open_write("memory://runs/a.tar") as stream:
        stream.write(make(many(40)))
    with IndexedShards(["memory://runs/a.tar"]) as dataset:
        assert read_adjacent(dataset, list(range(32))) == dataset.__getitems__(list(range(32)))
