"""Names of the 0.1 and 0.2 series, called as their tutorials call them."""

import pickle

import cbor2
import pytest

import webdataset as wds
from webdataset import iterators
from webdataset.world import World, pretend


@pytest.fixture
def shards(tmp_path):
    for shard in range(4):
        with wds.TarWriter(str(tmp_path / f"a-{shard}.tar")) as sink:
            for number in range(3):
                sink.write({"__key__": f"{shard}{number}", "cls": number})
    return str(tmp_path / "a-{0..3}.tar")


KEYS = [f"{shard}{number}" for shard in range(4) for number in range(3)]


def keys(samples):
    return [sample["__key__"] for sample in samples]


def test_dataset_is_webdataset(shards):
    assert keys(wds.Dataset(shards, shardshuffle=False)) == KEYS
    assert keys(wds.Dataset(shards, shardshuffle=False, length=12).decode()) == KEYS
    assert len(wds.Dataset(shards, shardshuffle=False, length=12)) == 12


def test_processor_takes_a_stage_then_a_dataset(shards):
    dataset = wds.Dataset(shards, shardshuffle=False)
    labels = wds.Processor(wds.map, lambda sample: sample["cls"])(dataset)
    assert list(labels) == [b"0", b"1", b"2"] * 4
    assert list(wds.Processor(wds.unlisted)([[1], [2]])) == [1, 2]


def test_processor_takes_a_dataset_then_a_function(shards):
    dataset = wds.Dataset(shards, shardshuffle=False)
    labels = wds.Processor(dataset, iterators.map, lambda sample: sample["cls"])
    assert list(labels.slice(2)) == [b"0", b"1"]
    with pytest.raises(wds.SpecError):
        labels(dataset)


def test_then_and_pipe_pass_arguments_on(shards):
    dataset = wds.Dataset(shards, shardshuffle=False)
    assert list(dataset.then(iterators.to_tuple, "cls").then(iterators.slice, 1)) == [(b"0",)]
    assert keys(dataset.pipe(lambda samples: (s for s in samples if s["__key__"] > "30"))) == ["31", "32"]


def test_composable_takes_its_source_later(shards):
    dataset = wds.Composable(["nothing"], wds.tarfile_to_samples()).source_(wds.SimpleShardList(shards))
    assert keys(dataset) == KEYS


@pytest.mark.parametrize("cls", [wds.ResizedDataset, wds.ChoppedDataset])
def test_resized_datasets_go_on(cls, shards):
    dataset = cls(wds.Dataset(shards, shardshuffle=False), length=5, nominal=7)
    assert len(dataset) == 7
    assert keys(dataset) + keys(dataset) == KEYS[:10]
    assert len(cls(wds.Dataset(shards, shardshuffle=False).with_length(12))) == 12


def test_fake_length_changes_the_length_alone(shards):
    dataset = wds.FakeLength(wds.Dataset(shards, shardshuffle=False), 99)
    assert len(dataset) == 99
    assert keys(dataset) == KEYS


def test_sample_equally_takes_turns():
    assert list(wds.SampleEqually([[1, 2, 3], [10, 20]])) == [1, 10, 2, 20, 3]


def test_ddp_equalize_gives_every_rank_the_same_number(shards):
    for rank in range(3):
        with pretend(World(rank=rank, ranks=3)):
            dataset = wds.Dataset(shards, shardshuffle=False).ddp_equalize(10)
            assert len(dataset) == 3
            assert len(list(dataset)) == 3


def test_pytorch_shard_list_splits_and_shuffles(shards):
    everything = wds.PytorchShardList(shards, shuffle=False)
    assert len(list(everything)) == 4
    shuffled = wds.PytorchShardList(shards)
    orders = {tuple(shard["url"] for shard in shuffled) for _ in range(10)}
    assert len(orders) > 1
    parts = []
    for worker in range(2):
        with pretend(World(worker=worker, workers=2)):
            parts += [shard["url"] for shard in wds.PytorchShardList(shards)]
    assert len(parts) == len(set(parts)) == 4
    with pretend(World(rank=1, ranks=2, worker=1, workers=2)):
        assert len(list(wds.PytorchShardList(shards, split_by_worker=False, split_by_node=False))) == 4


def test_cached_readers_read_the_same(shards, tmp_path):
    cache = tmp_path / "cache"
    cache.mkdir()
    source = wds.SimpleShardList(shards)
    for stage in (
        wds.cached_tarfile_to_samples(cache_dir=str(cache), cache_size=10**9),
        wds.maybe_cached_tarfile_to_samples(cache_dir=str(cache)),
        wds.maybe_cached_tarfile_to_samples(),
        wds.cached_tarfile_samples,
    ):
        assert keys(wds.DataPipeline(source, stage)) == KEYS
    some = wds.DataPipeline(source, wds.cached_tarfile_to_samples(cache_dir=str(cache), select_files="*0.cls"))
    assert keys(some) == ["00", "10", "20", "30"]


def test_cached_url_opener_opens(shards, tmp_path):
    for shard in wds.cached_url_opener(iter(wds.SimpleShardList(shards)), cache_dir=str(tmp_path / "c")):
        with shard["stream"] as stream:
            assert stream.read(2) == shard["url"][-5].encode() + b"0"


def test_the_cache_module_still_has_them():
    from webdataset import cache

    for name in ("cached_tarfile_samples", "cached_tarfile_to_samples", "cached_url_opener", "lru_cleanup"):
        assert getattr(cache, name) is getattr(wds, name)
    with pytest.raises(AttributeError):
        cache.nothing  # noqa: B018


def write_cbors(path, count=3):
    path.write_bytes(b"".join(cbor2.dumps({"__key__": str(n), "cls": n}) for n in range(count)))


@pytest.mark.parametrize("stage", [wds.cbors_to_samples, wds.cbors2_to_samples])
def test_cbor_shards_are_read(stage, tmp_path):
    write_cbors(tmp_path / "a.cbors")
    dataset = wds.DataPipeline(wds.SimpleShardList(str(tmp_path / "a.cbors")), stage())
    assert [sample["cls"] for sample in dataset] == [0, 1, 2]
    assert pickle.loads(pickle.dumps(stage()))


def test_a_cut_cbor_shard_is_an_error(tmp_path):
    write_cbors(tmp_path / "a.cbors")
    data = (tmp_path / "a.cbors").read_bytes()
    (tmp_path / "a.cbors").write_bytes(data[:-3])
    source = wds.SimpleShardList(str(tmp_path / "a.cbors"))
    with pytest.raises(wds.TruncatedShard, match=r"a\.cbors"):
        list(wds.DataPipeline(source, wds.cbors_to_samples()))
    whole = list(wds.DataPipeline(source, wds.cbors_to_samples(handler=wds.ignore_and_continue)))
    assert [sample["cls"] for sample in whole] == [0, 1]


def test_every_iterator_is_a_function_of_a_stream():
    assert list(iterators.batched(iter([(1,), (2,)]), 2, collation_fn=None)) == [[(1,), (2,)]]
    assert sorted(iterators.shuffle(iter(range(10)), 5)) == list(range(10))
    assert list(iterators.select(iter(range(4)), lambda n: n % 2)) == [1, 3]
    assert list(iterators.pipeline(iter("ab"), wds.map(str.upper))) == ["A", "B"]
