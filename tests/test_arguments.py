"""Wrong arguments fail where they are written, with a `SpecError` that says what would be right."""

import numpy as np
import pytest

import webdataset as wds


@pytest.fixture(scope="module", params=["streamed", "indexed"])
def shard(request, tmp_path_factory):
    name = str(tmp_path_factory.mktemp("shards") / "a.tar")
    with wds.TarWriter(name, index=request.param == "indexed") as sink:
        sink.write({"__key__": "a", "cls": 1})
    return name


METHODS = {
    "shuffle": ["x", None, 1.5],
    "decode": [{"only": 3}],
    "batched": ["16", 0, None],
    "map": [None, 3],
    "select": ["x"],
    "rename": [{"image": 3}],
    "to_tuple": [3],
    "slice": ["7", -1],
    "compose": [3],
    "with_epoch": ["3", -3],
    "repeat": ["3"],
    "with_length": ["a", -1],
}


@pytest.mark.parametrize(("name", "wrong"), [(name, wrong) for name in METHODS for wrong in METHODS[name]])
def test_methods(shard, name, wrong):
    options = wrong if isinstance(wrong, dict) else {}
    with pytest.raises(wds.SpecError):
        getattr(wds.WebDataset(shard), name)(*([] if options else [wrong]), **options)


@pytest.mark.parametrize(
    "wrong",
    [
        {"handler": "warn_and_continue"},
        {"shardshuffle": "yes"},
        {"seed": "a"},
        {"cache_dir": 3},
        {"cache_size": "10G"},
        {"url_to_name": 3},
        {"nodesplitter": 3},
        {"workersplitter": "x"},
        {"select_files": 3},
        {"rename_files": 3},
        {"index": 3},
        {"store_index": 3},
        {"fields": 3},
        {"fields": "cls"},
        {"order": "a"},
        {"order": "x"},
        {"uneven": "x"},
    ],
    ids=lambda wrong: "{}={!r}".format(*next(iter(wrong.items()))),
)
def test_datasets(shard, wrong):
    with pytest.raises(wds.SpecError):
        wds.WebDataset(shard, **wrong)


@pytest.mark.parametrize(
    "make",
    [
        lambda name: wds.WebDataset(name).shuffle(10, initial="a"),
        lambda name: wds.WebDataset(None),
        lambda name: wds.WebDataset([]),
        lambda name: wds.DataPipeline(name, wds.tarfile_to_samples()),
        lambda name: wds.DataPipeline(wds.SimpleShardList(name), 3),
        lambda name: wds.DataPipeline(wds.SimpleShardList(name), wds.tarfile_to_samples(), wds.shuffle),
        lambda name: wds.WebDataset(name).compose(wds.unbatched),
        lambda name: wds.WebLoader(None),
        lambda name: wds.WebLoader(None, batch_size=None, workers="threads"),
        lambda name: wds.WebLoader(name),
        lambda name: wds.WebLoader(wds.WebDataset(name), num_workers="2"),
        lambda name: wds.SimpleShardList(3),
        lambda name: wds.ResampledShards(name, nshards="x"),
        lambda name: wds.IndexedDataset(name, fields=3),
        lambda name: wds.RandomMix(3),
        lambda name: wds.RandomMix([[1], [2]], probs=3),
        lambda name: wds.RandomMix([[1], [2]], probs=["a", "b"]),
        lambda name: wds.mix(3),
        lambda name: wds.mix([([1], 1)], schedule={20: [1]}),
        lambda name: wds.mix([([1], 1)], schedule=[20, [1]]),
        lambda name: wds.WebLoader(wds.WebDataset(name), workers="threads", num_worker=1),
        lambda name: wds.handle_extension(3, int),
        lambda name: wds.handle_extension("cls", 3),
        lambda name: wds.MockDataset({}, "x"),
        lambda name: wds.TarWriter(name + ".new", mtime="x"),
        lambda name: wds.TarWriter(3),
        lambda name: wds.ShardWriter("a-%d.tar", maxcount="3"),
    ],
)
def test_others(shard, make):
    with pytest.raises(wds.SpecError):
        make(shard)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda name: wds.WebDataset(name, shardshufle=True), "WebDataset has .* did you mean shardshuffle?"),
        (lambda name: wds.WebDataset(name, shuffle=9), r"no parameter shuffle; .* method: WebDataset\(...\).shuffle\("),
        (lambda name: wds.ShardWriter("a-%d.tar", max_count=3), "ShardWriter has .* did you mean maxcount?"),
        (lambda name: wds.WebLoader(wds.WebDataset(name), num_worker=1), "WebLoader.* did you mean num_workers?"),
        (lambda name: wds.WebLoader(wds.WebDataset(name), worker="threads"), "WebLoader.* did you mean workers?"),
    ],
)
def test_keywords_that_are_misspelt(shard, call, message):
    with pytest.raises(TypeError, match=message):
        call(shard)


def test_messages_show_what_was_written(shard):
    with pytest.raises(wds.SpecError, match=r"with_epoch\(-3\)"):
        wds.WebDataset(shard).with_epoch(-3)
    with pytest.raises(wds.SpecError, match=r"bufsize=.*: expected an integer$"):
        wds.WebDataset(shard).shuffle("x")


def test_what_is_right_is_taken(shard):
    assert list(wds.RandomMix([[1], [2]], probs=np.array([0.5, 0.5]), longest=True)) in ([1, 2], [2, 1])
    assert len(list(wds.WebDataset(shard).shuffle(1e3))) == 1
    assert len(list(wds.WebDataset(shard).shuffle(-1))) == 1


def test_samples_that_are_not_there(shard):
    dataset = wds.IndexedDataset(shard)
    with pytest.raises(IndexError, match="there is no sample 5: the dataset has 1"):
        dataset[5]
    with pytest.raises(TypeError, match=r"got 1\.5"):
        dataset[1.5]
