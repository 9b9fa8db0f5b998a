import json
from itertools import product
from pathlib import Path

import pytest

import webdataset as wds
from webdataset import world
from webdataset.errors import SpecError
from webdataset.shards import ShuffleShards
from webdataset.testing import assert_resumes_everywhere, make_shard
from webdataset.world import World


@pytest.fixture(scope="module")
def shards(tmp_path_factory):
    """Five uneven shards, 31 samples."""
    folder, urls, key = tmp_path_factory.mktemp("shards"), [], 0
    for number, count in enumerate([7, 1, 12, 6, 5]):
        samples = [{"__key__": f"{key + i:03d}", "cls": key + i, "txt": f"text {key + i}"} for i in range(count)]
        urls.append(make_shard(folder / f"a-{number}.tar", samples))
        key += count
    return urls


def keys(dataset):
    return [sample["__key__"] for sample in dataset]


def test_a_brace_spec_a_list_a_path_and_a_source_name_the_same_shards(shards):
    folder = Path(shards[0]).parent
    everything = [f"{n:03d}" for n in range(31)]
    assert keys(wds.WebDataset(str(folder / "a-{0..4}.tar"))) == everything
    assert keys(wds.WebDataset(shards)) == everything
    assert keys(wds.WebDataset([Path(url) for url in shards])) == everything
    assert keys(wds.WebDataset(str(folder / "a-*.tar"))) == everything
    assert keys(wds.WebDataset(f"{folder}/")) == everything
    assert keys(wds.WebDataset(wds.SimpleShardList(shards))) == everything
    assert keys(wds.WebDataset(Path(shards[1]))) == ["007"]


@pytest.mark.parametrize("urls", [[], 3, None, 2.5])
def test_what_does_not_name_shards_is_refused_at_once(urls):
    with pytest.raises(SpecError):
        wds.WebDataset(urls)


def test_a_sample_has_key_url_path_and_fields_in_the_order_of_the_shard(shards):
    sample = next(iter(wds.WebDataset(shards[0])))
    assert list(sample) == ["__key__", "__url__", "cls", "__local_path__", "txt"] or set(sample) == {
        "__key__",
        "__url__",
        "__local_path__",
        "cls",
        "txt",
    }
    assert type(sample) is dict and sample["cls"] == b"0" and sample["__url__"] == shards[0]


def test_D11_shards_come_in_a_new_order_each_epoch_and_the_same_for_the_same_seed(shards):
    dataset = wds.WebDataset(shards, shardshuffle=True, seed=3)
    epochs = [keys(dataset) for _ in range(4)]
    assert len({tuple(epoch) for epoch in epochs}) > 1
    assert all(sorted(epoch) == [f"{n:03d}" for n in range(31)] for epoch in epochs)
    again = wds.WebDataset(shards, shardshuffle=100, seed=3)
    assert [keys(again) for _ in range(4)] == epochs
    assert [keys(wds.WebDataset(shards, shardshuffle=True, seed=4))] != epochs[:1]


@pytest.mark.parametrize(("ranks", "workers"), list(product([1, 2, 3, 7], [1, 2, 4])))
def test_every_sample_exactly_once_on_any_topology(shards, ranks, workers):
    """Also with more readers than shards, and when one rank has started an epoch more than the others."""
    seen = []
    for rank, worker in product(range(ranks), range(workers)):
        with world.pretend(World(rank, ranks, worker, workers)):
            dataset = wds.WebDataset(shards, shardshuffle=True, empty_check=False)
            if rank == 0:
                list(dataset)
            seen += keys(dataset)
    assert sorted(seen) == [f"{n:03d}" for n in range(31)]


def test_D21_a_worker_without_samples_only_warns(shards):
    with world.pretend(World(worker=1, workers=2)):
        with pytest.warns(UserWarning, match="no samples"):
            assert list(wds.WebDataset(shards[1])) == []


def test_a_pass_without_samples_is_an_error_unless_allowed(tmp_path):
    empty = make_shard(tmp_path / "empty.tar", [])
    with pytest.raises(ValueError, match="^No samples found in dataset"):
        list(wds.WebDataset(empty))
    assert list(wds.WebDataset(empty, empty_check=False)) == []


def test_D28_repeat_goes_on_for_ever(shards):
    dataset = wds.WebDataset(shards[1], repeat=True)
    stream = iter(dataset)
    assert [next(stream)["__key__"] for _ in range(5)] == ["007"] * 5
    stream.close()


def test_D45_resampling_needs_no_splitter_and_warns_about_nothing(shards):
    with world.pretend(World(rank=1, ranks=4)):
        dataset = wds.WebDataset(shards, resampled=True, shardshuffle=True).with_epoch(50)
        assert len(keys(dataset)) == 50
        dataset.close()


def test_D11_resampling_follows_the_seed(shards):
    draw = lambda seed: keys(wds.WebDataset(shards, resampled=True, seed=seed).with_epoch(60))
    assert draw(1) == draw(1) != draw(2)


def test_D29_the_seed_of_the_environment_is_a_number(shards, monkeypatch):
    monkeypatch.setenv("WDS_SEED", "5")
    dataset = wds.WebDataset(shards, shardshuffle=True, detshuffle=True)
    assert dataset.seed == 5 and len(keys(dataset)) == 31


def test_D52_constructing_and_reading_leave_the_global_generator_alone(shards):
    import random

    state = random.getstate()
    list(wds.WebDataset(shards, shardshuffle=True).shuffle(10).rsample(0.5))
    assert random.getstate() == state


def test_older_parameters_still_work_and_unknown_ones_do_not(shards):
    with pytest.warns(DeprecationWarning, match="workersplitter"):
        dataset = wds.WebDataset(shards, splitter=None, length=31)
    assert len(dataset) == 31 and len(keys(dataset)) == 31
    with pytest.raises(TypeError, match="no parameter shardshufle"):
        wds.WebDataset(shards, shardshufle=True)


@pytest.mark.parametrize("wrong", [{"seed": "x"}, {"seed": 1.5}, {"shardshuffle": "yes"}, {"shardshuffle": -1}])
def test_wrong_arguments_fail_at_construction(shards, wrong):
    with pytest.raises(SpecError):
        wds.WebDataset(shards, **wrong)


def test_D28_a_cache_directory_must_exist(shards, tmp_path):
    with pytest.raises(SpecError, match="does not exist"):
        wds.WebDataset(shards, cache_dir=tmp_path / "missing")


@pytest.mark.parametrize("options", [{}, {"shardshuffle": True}, {"shardshuffle": True, "seed": 9}])
def test_a_dataset_resumes_everywhere(shards, options):
    assert_resumes_everywhere(
        lambda: wds.WebDataset(shards, **options).shuffle(8, initial=4).decode().to_tuple("cls", "txt")
    )


def test_a_dataset_resumes_everywhere_on_a_part_of_a_shared_shard(shards):
    with world.pretend(World(1, 3, 1, 4)):
        items = assert_resumes_everywhere(lambda: wds.WebDataset(shards, shardshuffle=True).shuffle(3).decode())
    assert items


def test_a_resampled_dataset_resumes(shards):
    make = lambda: wds.WebDataset(shards, resampled=True).shuffle(5).decode().with_epoch(30)
    assert_resumes_everywhere(make, limit=30)


def with_chance(sample):
    return sample["__key__"], wds.rng(sample).random()


RESAMPLED = {
    "dataset": lambda shards: wds.WebDataset(shards, resampled=True).shuffle(5),
    "shards shuffled": lambda shards: wds.DataPipeline(
        wds.ResampledShards(shards, deterministic=True), wds.shuffle(7), wds.tarfile_to_samples(), wds.shuffle(5)
    ),
    "shards of a list": lambda shards: wds.DataPipeline(
        wds.SimpleShardList(shards), wds.resampled(), wds.shuffle(7), wds.tarfile_to_samples(), wds.shuffle(5)
    ),
    "samples": lambda shards: wds.DataPipeline(
        wds.SimpleShardList(shards), wds.tarfile_to_samples(), wds.resampled(), wds.shuffle(5)
    ),
}


@pytest.mark.parametrize("name", RESAMPLED)
def test_a_sample_that_is_drawn_again_has_other_chances(shards, name):
    make = lambda: RESAMPLED[name](shards).compose(wds.map(with_chance)).with_epoch(200)
    drawn = list(make())
    assert len({key for key, _ in drawn}) < 32 and len({chance for _, chance in drawn}) == 200
    assert_resumes_everywhere(make, limit=60)


@pytest.mark.parametrize("shardshuffle", [True, False])
def test_shards_that_cannot_be_drawn_again_resume_in_a_dataset(shards, shardshuffle):
    make = lambda: wds.WebDataset(wds.ResampledShards(shards, nshards=9), shardshuffle=shardshuffle).map(with_chance)
    dataset, drawn, states = make(), [], []
    for item in dataset:
        drawn.append(item)
        states.append(dataset.state_dict())
    for number, state in enumerate(states[:-1], 1):
        again = make()
        again.load_state_dict(state)
        assert list(again) == drawn[number:]


def test_shards_drawn_for_ever_are_not_collected_to_be_shuffled(shards):
    dataset = wds.WebDataset(wds.ResampledShards(shards), shardshuffle=True)
    assert next(iter(dataset))["__url__"].draw >= 0


def test_shards_drawn_and_shuffled_twice_resume_with_their_draws(shards, monkeypatch):
    monkeypatch.setenv("ALLOW_OBSOLETE", "1")
    spec = {"datasets": [{"name": "a", "buckets": [""], "shards": shards, "resample": 9}]}
    make = lambda: wds.DataPipeline(
        wds.MultiShardSample(spec), ShuffleShards(), wds.shuffle(4), wds.tarfile_to_samples(), wds.map(with_chance)
    )
    assert_resumes_everywhere(make)


@pytest.mark.parametrize("workers", ["processes", "threads"])
def test_samples_that_were_drawn_and_others_make_a_batch(shards, workers):
    mixed = wds.RandomMix([wds.WebDataset(shards, resampled=True), wds.WebDataset(shards)])
    batch = next(iter(wds.WebLoader(mixed, batch_size=16, workers=workers)))
    assert len(batch["__key__"]) == 16


@pytest.mark.parametrize("record", [wds.DBCache, wds.LMDBCached, lambda _: wds.Cached()], ids=["db", "lmdb", "memory"])
def test_draws_can_be_recorded(shards, tmp_path, record):
    source = wds.ResampledShards(shards, nshards=5)
    dataset = wds.DataPipeline(
        source, wds.tarfile_to_samples(), record(str(tmp_path / "recorded")), wds.map(url_and_draw)
    )
    assert list(dataset) == list(dataset)  # the second time, as it was recorded


def url_and_draw(sample):
    return sample["__url__"], sample["__url__"].draw


def test_draws_are_the_same_for_any_number_of_threads(shards):
    make = lambda: wds.WebDataset(shards, resampled=True).map(with_chance).with_epoch(200)
    loader = wds.WebLoader(make(), batch_size=None, num_workers=3, workers="threads")
    assert [tuple(item) for item in loader] == list(make())


def test_a_checkpoint_is_small_and_json(shards):
    dataset = wds.WebDataset(shards).shuffle(100, initial=20).decode()
    next(iter(dataset))
    assert len(json.dumps(dataset.state_dict())) < 4000
    dataset.close()


def test_it_is_a_context_manager(shards):
    with wds.WebDataset(shards) as dataset:
        assert dataset.__enter__() is dataset
        items = iter(dataset)
        first = next(items)
    assert first["__key__"] == next(iter(dataset))["__key__"]  # closed, so the next iteration starts again
    dataset.close()


def test_D54_a_dataset_is_torchs_iterable_dataset_without_importing_torch():
    import subprocess
    import sys

    code = (
        "import webdataset as wds, sys; d = wds.WebDataset('a.tar'); assert 'torch' not in sys.modules;"
        "from torch.utils.data import IterableDataset; assert isinstance(d, IterableDataset)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_D12_D28_shards_are_kept_under_the_hash_of_their_address(tmp_path, monkeypatch):
    urls = [make_shard(f"memory://d28-{part}/000.tar", [{"__key__": part, "txt": part}]) for part in ("train", "val")]
    dataset = wds.WebDataset(urls, cache_dir=str(tmp_path)).decode()
    for _ in range(2):
        samples = list(dataset)
        assert [sample["txt"] for sample in samples] == ["train", "val"]
        assert all(Path(sample["__local_path__"]).parent == tmp_path for sample in samples)
    assert len(list(tmp_path.glob("*000.tar"))) == 2
    monkeypatch.setenv("WDS_CACHE", str(tmp_path))
    monkeypatch.setenv("WDS_CACHE_SIZE", "1e9")
    assert "local_path" in str(list(wds.WebDataset(urls))[0])
    dataset.close()


def test_a_cached_dataset_resumes_everywhere(tmp_path):
    shard = make_shard("memory://cached-resume/a.tar", [{"__key__": f"{n}", "cls": n} for n in range(20)])
    assert_resumes_everywhere(lambda: wds.WebDataset(shard, cache_dir=tmp_path).shuffle(5).decode().to_tuple("cls"))


def test_an_unknown_parameter_suggests_the_near_one():
    with pytest.raises(TypeError, match="has no parameter shardshufle; did you mean shardshuffle"):
        wds.WebDataset("a.tar", shardshufle=True)
    with pytest.raises(TypeError, match="has no parameter xyzzy$"):
        wds.WebDataset("a.tar", xyzzy=True)


@pytest.mark.parametrize("index", [True, False])
def test_the_error_about_no_samples_names_the_first_shards(tmp_path, index):
    urls = [make_shard(tmp_path / f"{n}.tar", []) for n in range(5)]
    named = ", ".join(map(str, urls[:3]))
    with pytest.raises(ValueError, match="^No samples found in dataset: ") as caught:
        list(wds.WebDataset(urls, index=index))
    assert f"{named} and 2 more" in str(caught.value)
