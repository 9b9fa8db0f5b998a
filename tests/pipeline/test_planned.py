import itertools
import json
import random
from pathlib import Path

import numpy as np
import pytest

import webdataset as wds
from tests.pipeline.indexed import N, write_shards
from tests.pipeline.planned import BATCH, TOPOLOGIES, batches, keys, sequence_of
from tests.pipeline.topologies import play, samples_of
from webdataset import world
from webdataset.cache import MemoryOpener
from webdataset.errors import SpecError
from webdataset.flow import Pass
from webdataset.order import Reader, Remaining, numbers_of
from webdataset.testing import assert_resumes_everywhere
from webdataset.world import World

# Which datasets are planned


def test_shards_with_indexes_beside_them_are_read_by_plan_and_others_are_not(shards, tmp_path):
    dataset = wds.WebDataset(shards)
    assert dataset.plan is not None and len(dataset) == N
    assert wds.WebDataset(shards, index=False).plan is None
    bare = write_shards(tmp_path, [3, 2], index=False)
    assert wds.WebDataset(bare).plan is None
    assert wds.WebDataset([*shards, *bare]).plan is None
    assert len(wds.WebDataset(bare, index=True)) == 5


def test_both_ways_of_reading_give_the_same_samples(few):
    streamed = list(wds.WebDataset(few, index=False))
    assert list(wds.WebDataset(few)) == streamed
    with world.pretend(World(worker=0, workers=1)):
        looked_up = list(wds.WebDataset(few, fields=("cls", "bin")))
    assert looked_up == streamed


def test_a_description_is_a_dataset(few, tmp_path, monkeypatch):
    from webdataset.index import index_shards, write_description

    monkeypatch.setenv("WDS_TRUSTED_FOLDERS", str(Path(few[0]).parent))  # the description is in another folder

    (tmp_path / "all.json").write_bytes(write_description(index_shards(few, store_index=False)))
    dataset = wds.WebDataset(str(tmp_path / "all.json"))
    assert len(dataset) == 31 and keys(dataset) == [f"{n:05d}" for n in range(31)]
    assert keys(wds.WebDataset(tmp_path / "all.json", order="random")) == keys(wds.WebDataset(few, order="random"))
    assert wds.WebDataset(tmp_path / "all.json", index=False).plan is None


def test_indexes_may_lie_elsewhere(tmp_path):
    from webdataset.index import build_index, save_index

    bare = write_shards(tmp_path, [3, 2], index=False)
    for url in bare:
        save_index(build_index(url), url, str(tmp_path / "indexes"))
    dataset = wds.WebDataset(bare, index=tmp_path / "indexes")
    assert len(dataset) == 5 and len(keys(dataset)) == 5


@pytest.mark.parametrize(
    "options",
    [
        {"resampled": True},
        {"select_files": "*.cls"},
        {"rename_files": str},
        {"nodesplitter": None},
        {"workersplitter": None},
        *([] if hasattr(MemoryOpener, "fetch") else [{"in_memory": True}]),
        {"index": False},
    ],
)
def test_what_excludes_an_index_says_so_when_one_is_insisted_on(few, options):
    assert wds.WebDataset(few, **options).plan is None
    with pytest.raises(SpecError, match=rf"fields=.* needs an index, and {next(iter(options))}=.* was given"):
        wds.WebDataset(few, fields=("cls",), **options)


@pytest.mark.parametrize(
    "wrong",
    [
        {"index": 3},
        {"uneven": "keep"},
        {"order": -1},
        {"order": True},
        {"order": "any"},
        {"fields": "cls"},
        {"fields": [1]},
    ],
)
def test_wrong_wishes_fail_at_construction(few, wrong):
    with pytest.raises(SpecError):
        wds.WebDataset(few, **wrong)


def test_a_file_that_is_no_index_is_left_alone_with_a_warning(tmp_path):
    urls = write_shards(tmp_path, [3])
    (tmp_path / "part-000.idx").write_text("something else\n")
    with pytest.warns(UserWarning, match="reading without index"):
        dataset = wds.WebDataset(urls)
    assert dataset.plan is None and len(keys(dataset)) == 3
    with pytest.raises(wds.FormatError):
        wds.WebDataset(urls, index=True)


# Order


def test_the_order_is_that_of_storage_unless_shuffled(shards):
    assert keys(wds.WebDataset(shards)) == [f"{n:05d}" for n in range(N)]
    assert keys(wds.WebDataset(shards, order="sequential")) == [f"{n:05d}" for n in range(N)]


@pytest.mark.parametrize(
    ("make", "window"),
    [
        (lambda urls: wds.WebDataset(urls, shardshuffle=True), 1),
        (lambda urls: wds.WebDataset(urls, order=3), 3),
        (lambda urls: wds.WebDataset(urls, order="random"), None),
        (lambda urls: wds.WebDataset(urls).shuffle(10_000), None),
        (lambda urls: wds.WebDataset(urls, shardshuffle=100).shuffle(10_000, initial=10), None),
        (lambda urls: wds.WebDataset(urls, order=12).shuffle(3), 12),
    ],
)
def test_shuffling_chooses_the_window(shards, make, window):
    dataset = make(shards)
    assert dataset.plan.window == window and len(dataset.pipeline) == 1
    assert [keys(dataset) for _ in range(2)] == [sequence_of(shards, window, epoch=epoch) for epoch in range(2)]


def test_a_window_holds_as_many_samples_as_the_buffer_would(shards):
    for size in (1, 10, 100, 500, 1002):
        plan = wds.WebDataset(shards).shuffle(size).plan
        order = plan.order(Pass())
        windows, _, counts = order.contents()
        assert np.bincount(windows, weights=counts).min() >= size


def test_a_buffer_is_used_on_request_and_behind_other_stages(shards):
    assert len(wds.WebDataset(shards).shuffle(10, buffer=True).pipeline) == 2
    stage = wds.WebDataset(shards).shuffle(10, rng=random.Random(1)).pipeline[1]
    assert stage == wds.shuffle(10, rng=random.Random(1))
    assert len(wds.WebDataset(shards).decode().shuffle(10).pipeline) == 3
    assert wds.WebDataset(shards).shuffle(0).plan.window == 0


def test_quasi_random_order_has_every_sample_once(shards):
    dataset = wds.WebDataset(shards, order="quasi-random").batched(8)
    assert dataset.plan.order(Pass()).window == 16
    seen = keys(wds.WebDataset(shards, order="quasi-random"))
    assert seen != sorted(seen) and sorted(seen) == [f"{n:05d}" for n in range(N)]


def test_golden_order(shards):
    """The order of (seed, epoch) is part of the format: whoever changes it breaks everybody's checkpoints."""
    golden = json.loads((Path(__file__).parent / "golden_planned.json").read_text())
    for name, first in golden.items():
        window, seed, epoch = json.loads(name)
        dataset = wds.WebDataset(shards, seed=seed, order="random" if window is None else window)
        dataset.set_epoch(epoch)
        assert keys(dataset)[:1000] == first


# Length and equal steps


def test_length_is_exact(shards):
    dataset = wds.WebDataset(shards)
    for pipeline in (
        dataset,
        dataset.batched(10),
        dataset.batched(10, partial=False),
        dataset.decode().listed(7),
        dataset.batched(10).batched(3),
        dataset.shuffle(10, buffer=True).decode().batched(9),
        dataset.repeat(2),
        dataset.with_epoch(17),
        dataset.slice(3),
    ):
        assert len(pipeline) == len(list(pipeline))
    assert len(dataset.with_length(5)) == 5
    for unknown in (dataset.select(bool), dataset.map(dict), dataset.repeat(), dataset.batched(3).unbatched()):
        with pytest.raises(TypeError, match="with_length"):
            len(unknown)


@pytest.mark.parametrize("last", ["pad", "drop"])
@pytest.mark.parametrize(("ranks", "workers"), TOPOLOGIES)
def test_every_rank_has_the_same_number_of_full_batches(few, ranks, workers, last):
    make = lambda: batches(few, uneven=last)
    played = play(make, ranks, workers)
    assert all(each is not None for step in played for each in step)
    with world.pretend(World(0, ranks)):
        assert len(make()) == len(played)
    seen = samples_of(played)
    assert len(seen) == len(set(seen)) == (31 if last == "pad" or ranks == 1 else 31 // (BATCH * ranks) * BATCH * ranks)
    if ranks > 1:
        assert all(len(each[0][0]) == BATCH for step in played for each in step)


def test_weights_sum_to_the_number_of_samples():
    for samples, ranks in itertools.product(range(1, 501), range(1, 17)):
        steps = len(Remaining(samples).steps(3, ranks, "pad"))
        turns = np.arange(steps * 3)
        readers = [Reader(rank, ranks, 0, 1, 3, 0) for rank in range(ranks)]
        numbers = np.concatenate([numbers_of(reader, turns) for reader in readers])
        assert int((numbers < samples).sum()) == samples == len(np.unique(numbers[numbers < samples]))


def test_samples_are_marked_where_it_matters(few):
    assert all("__pad__" not in sample for sample in wds.WebDataset(few))
    assert all(sample["__pad__"] is False for sample in wds.WebDataset(few, uneven="pad"))
    assert all(sample["__pad__"] is False for sample in wds.WebDataset(few, uneven="pad", order="random"))
    with world.pretend(World(1, 2)):
        marks = [sample["__pad__"] for sample in wds.WebDataset(few)]
    assert marks == [False] * 15 + [True]


# Steps


@pytest.mark.parametrize("ranks", [1, 3])
def test_seek_skip_and_where(shards, ranks):
    expected = sequence_of(shards)
    per_step = BATCH * ranks
    with world.pretend(World(0, ranks)):
        dataset = batches(shards)
        assert [place.key for place in dataset.samples_of_step(2)] == expected[2 * per_step : 3 * per_step]
        place = dataset.samples_of_step(0)[0]
        with open(place.url, "rb") as file:
            file.seek(place.extents[1].offset)
            assert file.read(place.extents[1].size).decode() == str(int(place.key))
        dataset.seek(5)
        assert next(iter(dataset))[0] == expected[5 * per_step :][:BATCH]
        dataset = batches(shards)
        dataset.seek(2)
        dataset.skip(range(4, 5))
        dataset.skip(5)
        taken = [number for number in range(2, 7) if number not in (4, 5)]
        firsts = [batch[0] for batch, _ in zip(dataset, range(3), strict=False)]
        assert firsts == [expected[number * per_step :][:BATCH] for number in taken]
        for wrong in (range(0, 4, 2), range(-1, 3), range(3, 10_000), -1, 10_000):
            with pytest.raises(SpecError, match="steps"):
                dataset.skip(wrong)
        with pytest.raises(IndexError):
            dataset.samples_of_step(10_000)
        dataset.close()
    with pytest.raises(SpecError, match="index the shards"):
        wds.WebDataset(shards, index=False).seek(1)


def test_shuffle_report(shards, tmp_path):
    report = wds.WebDataset(shards, order="random").shuffle_report(plot=str(tmp_path / "plot.svg"))
    assert "1,003 samples in 17 shards" in str(report) and (tmp_path / "plot.svg").read_text().startswith("<svg")


def test_a_mix_of_planned_datasets_resumes_everywhere(few):
    def make():
        parts = [wds.WebDataset(few, order="random", seed=seed).to_tuple("__key__") for seed in (1, 2)]
        return wds.DataPipeline(wds.RandomMix(parts, probs=[0.7, 0.3], longest=True))

    for here in (World(), World(1, 2)):
        with world.pretend(here):
            assert len(assert_resumes_everywhere(make)) in (62, 32)
