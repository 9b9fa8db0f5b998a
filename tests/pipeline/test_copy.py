"""WebDataset(copy=False): read-only views wherever the shards are and however they are read, and whatever takes them."""

import gzip
import io
import pickle
import tarfile
import zlib

import numpy as np
import pytest
import torch

import webdataset as wds
from webdataset import stores
from webdataset.testing import FaultServer
from webdataset.tools import join


def packed(samples):
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        for key, fields in samples.items():
            for field, content in fields.items():
                member = tarfile.TarInfo(f"{key}.{field}")
                member.size = len(content)
                tar.addfile(member, io.BytesIO(content))
    return stream.getvalue()


def shard_of(number, size=2000, count=40):
    rng = np.random.default_rng(number)
    return packed(
        {f"{number}-{n:03}": {"bin": rng.bytes(size + n), "cls": str(n).encode(), "txt": b""} for n in range(count)}
    )


@pytest.fixture
def shards(tmp_path):
    (tmp_path / "local").mkdir()
    for number in range(3):
        (tmp_path / "local" / f"{number}.tar").write_bytes(shard_of(number))
    return [str(tmp_path / "local" / f"{number}.tar") for number in range(3)]


def fields(sample):
    return {name: value for name, value in sample.items() if not name.startswith("__")}


def check(spec, **options):
    """Views, and the samples of copies."""
    copies = list(wds.WebDataset(spec, **{"shardshuffle": False} | options))
    views = list(wds.WebDataset(spec, copy=False, **{"shardshuffle": False} | options))
    assert views == copies != []
    assert {(type(value), value.readonly) for sample in views for value in fields(sample).values()} == {
        (memoryview, True)
    }
    return views


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"shardshuffle": True, "seed": 1},
        {"select_files": "*.cls"},
        {"rename_files": str.upper},
        {"in_memory": True},
        {"read_ahead": 3},
        {"resampled": False, "strict": False},
    ],
    ids=str,
)
def test_streams(shards, options):
    check(shards, **options)


@pytest.mark.parametrize(
    "options",
    [
        {"order": "sequential"},
        {"order": "random"},
        {"order": "quasi-random"},
        {"order": 2},
        {"fields": ["cls"]},
        {"uneven": "pad"},
        {"failed": "replace"},
    ],
    ids=str,
)
@pytest.mark.parametrize("workers", [1, 2])
def test_indexed_shards(shards, options, workers):
    wds.index_shards(shards)
    for worker in range(workers):
        with wds.world.pretend(wds.world.World(worker=worker, workers=workers)):
            check(shards, index=True, **options)


@pytest.mark.parametrize("indexed", [False, True])
@pytest.mark.parametrize("cached", [False, True])
def test_remote_shards(tmp_path, indexed, cached):
    with FaultServer() as server:
        spec = [server.add(f"{number}.tar", shard_of(number)) for number in range(2)]
        check(spec, index=indexed and tmp_path, **({"cache_dir": tmp_path} if cached else {}))
        stores.close_connections()


def test_compressed_shards(tmp_path):
    (tmp_path / "a.tar.gz").write_bytes(gzip.compress(shard_of(0)))
    check(str(tmp_path / "a.tar.gz"))


def test_large_samples(tmp_path):
    (tmp_path / "a.tar").write_bytes(shard_of(0, size=400_000, count=12))
    check(str(tmp_path / "a.tar"))


def test_joined_fields(tmp_path, shards):
    labels = tmp_path / "labels.tar"
    labels.write_bytes(packed({f"{s}-{n:03}": {"label.txt": b"%d" % n} for s in range(3) for n in range(40)}))
    join(shards, [str(labels)], str(tmp_path / "joined.json"))
    assert all("label.txt" in sample for sample in check(str(tmp_path / "joined.json")))


def test_errors_are_those_of_copies(shards, tmp_path):
    whole = shard_of(0)
    for damaged in (whole[:40_000], whole.replace(b"0-010", b"0-0x0", 1), whole[:40_960], b"<html>" * 1000):
        path = tmp_path / "damaged.tar"
        path.write_bytes(damaged)
        found = []
        for copy in (True, False):
            samples = []
            with pytest.raises(wds.WebDatasetError) as caught:
                samples.extend(wds.WebDataset(str(path), shardshuffle=False, copy=copy))
            found.append((str(caught.value), type(caught.value), samples))
        assert found[0] == found[1]


def test_a_resumed_buffer_reads_its_samples_again_as_views(shards):
    dataset = wds.WebDataset(shards, shardshuffle=False, copy=False, seed=3).shuffle(20)
    expected = list(dataset)
    dataset = wds.WebDataset(shards, shardshuffle=False, copy=False, seed=3).shuffle(20)
    items = iter(dataset)
    for _ in range(50):
        next(items)
    state = dataset.state_dict()
    resumed = wds.WebDataset(shards, shardshuffle=False, copy=False, seed=3).shuffle(20)
    resumed.load_state_dict(state)
    rest = list(resumed)
    assert rest == expected[50:]
    assert {type(value) for sample in rest for value in fields(sample).values()} == {memoryview}


def test_what_is_written_is_what_was_read(shards, tmp_path):
    with wds.TarWriter(str(tmp_path / "copy.tar")) as sink:
        for sample in wds.WebDataset(shards, shardshuffle=False, copy=False):
            sink.write(fields(sample) | {"__key__": sample["__key__"]})
    again = wds.WebDataset(str(tmp_path / "copy.tar"), shardshuffle=False)
    assert list(map(fields, again)) == list(map(fields, wds.WebDataset(shards, shardshuffle=False)))


@pytest.mark.parametrize("cache", ["mcached", "dbcache", "lmdb_cached"])
def test_caches_of_samples(shards, tmp_path, cache):
    dataset = wds.WebDataset(shards, shardshuffle=False, copy=False)
    cached = {
        "mcached": lambda: dataset.mcached(),
        "dbcache": lambda: dataset.compose(wds.DBCache(str(tmp_path / "a.db"), 10**6)),
        "lmdb_cached": lambda: dataset.lmdb_cached(str(tmp_path / "lmdb")),
    }[cache]()
    expected = list(map(fields, wds.WebDataset(shards, shardshuffle=False)))
    for _ in range(2):
        assert list(map(fields, cached)) == expected


@pytest.mark.parametrize("loader", [{"num_workers": 0}, {"num_workers": 1}, {"num_workers": 2, "workers": "threads"}])
@pytest.mark.parametrize("batch_size", [None, 8])
def test_loaders(shards, loader, batch_size):
    dataset = wds.WebDataset(shards, shardshuffle=False, copy=False)
    expected = {zlib.crc32(sample["bin"]) for sample in dataset}
    items = list(wds.WebLoader(dataset, batch_size=batch_size, **loader))
    views = [view for item in items for view in ([item["bin"]] if batch_size is None else item["bin"])]
    assert {(type(view), view.readonly) for view in views} == {(memoryview, True)}
    assert {zlib.crc32(view) for view in views} == expected


def test_batches_of_decoded_fields(shards):
    copies, views = (
        list(wds.WebDataset(shards, shardshuffle=False, copy=copy).decode().to_tuple("bin", "cls").batched(16))
        for copy in (True, False)
    )
    for (copied, labels), (shown, others) in zip(copies, views, strict=True):
        assert copied == shown
        assert (labels == others).all()


def test_a_view_becomes_an_array_or_a_tensor_without_a_copy(shards):
    sample = next(iter(wds.WebDataset(shards, shardshuffle=False, copy=False)))
    array = np.frombuffer(sample["bin"], np.uint8)
    assert np.shares_memory(array, np.frombuffer(sample["bin"], np.uint8))
    assert torch.from_numpy(array.copy()).sum() == array.sum()


def test_memory_streams():
    with stores.open_write("memory://copy/a.tar") as stream:
        stream.write(shard_of(1))
    check("memory://copy/a.tar")


def test_a_dataset_without_copies_pickles(shards):
    dataset = pickle.loads(pickle.dumps(wds.WebDataset(shards, shardshuffle=False, copy=False)))
    assert type(next(iter(dataset))["bin"]) is memoryview
