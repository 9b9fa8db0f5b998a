import itertools
import json
import random
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import webdataset as wds
from tests.pipeline.indexed import N, uneven_counts, write_shards
from tests.pipeline.topologies import play, samples_of
from webdataset import world
from webdataset.errors import ShardNotFound, SpecError, StaleIndex, StateError
from webdataset.flow import Pass
from webdataset.pipeline import settled
from webdataset.shards import Order, Reader, Rest, numbers_of
from webdataset.testing import assert_resumes_everywhere
from webdataset.world import World

RANKS, WORKERS = (1, 2, 3, 4, 6, 8), (1, 2, 3)  # no worker reads as one does: in the process itself
TOPOLOGIES = list(itertools.product(RANKS, WORKERS))
BATCH = 4


@pytest.fixture(scope="module")
def shards(tmp_path_factory):
    return write_shards(tmp_path_factory.mktemp("planned"), uneven_counts())


@pytest.fixture(scope="module")
def few(tmp_path_factory):
    """Five shards, 31 samples."""
    return write_shards(tmp_path_factory.mktemp("few"), [7, 1, 12, 6, 5])


def keys(dataset):
    return [sample["__key__"] for sample in dataset]


def sequence_of(shards, window=None, seed=0, epoch=0):
    """The keys of an epoch, by the arithmetic alone."""
    counts = uneven_counts()
    starts = np.concatenate(([0], np.cumsum(counts)))
    which, numbers = Order(counts, seed, epoch, window).locate(np.arange(N))
    return [f"{number:05d}" for number in starts[which] + numbers]


def batches(shards, batch=BATCH, **options):
    options = {"order": "random", "last": "pad", **options}
    return wds.WebDataset(shards, **options).to_tuple("__key__", "__pad__").batched(batch, collation_fn=_columns)


def _columns(samples):
    return [key for key, _ in samples], [pad for _, pad in samples]


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


def test_a_description_is_a_dataset(few, tmp_path):
    from webdataset.index import index_shards, write_description

    (tmp_path / "all.json").write_bytes(write_description(index_shards(few, store=False)))
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
        {"in_memory": True},
        {"cache_dir": "."},
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
        {"last": "keep"},
        {"window": -1},
        {"window": True},
        {"order": "any"},
        {"fields": "cls"},
        {"fields": [1]},
        {"window": 2, "order": "random"},
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
        (lambda urls: wds.WebDataset(urls, window=3), 3),
        (lambda urls: wds.WebDataset(urls, order="random"), None),
        (lambda urls: wds.WebDataset(urls).shuffle(10_000), None),
        (lambda urls: wds.WebDataset(urls, shardshuffle=100).shuffle(10_000, initial=10), None),
        (lambda urls: wds.WebDataset(urls, window=12).shuffle(3), 12),
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
    assert len(wds.WebDataset(shards).shuffle(10, rng=random.Random(1)).pipeline) == 2
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
        dataset = wds.WebDataset(shards, seed=seed, **({"order": "random"} if window is None else {"window": window}))
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
        dataset.shuffle(10, buffer=True).map(dict).batched(9),
        dataset.repeat(2),
        dataset.with_epoch(17),
    ):
        assert len(pipeline) == len(list(pipeline))
    assert len(dataset.with_length(5)) == 5
    for unknown in (dataset.select(bool), dataset.slice(3), dataset.repeat(), dataset.batched(3).unbatched()):
        with pytest.raises(TypeError, match="with_length"):
            len(unknown)


@pytest.mark.parametrize("last", ["pad", "drop"])
@pytest.mark.parametrize(("ranks", "workers"), TOPOLOGIES)
def test_every_rank_has_the_same_number_of_full_batches(few, ranks, workers, last):
    make = lambda: batches(few, last=last)
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
        steps = len(Rest(samples).steps(3, ranks, "pad"))
        turns = np.arange(steps * 3)
        readers = [Reader(rank, ranks, 0, 1, 3, 0) for rank in range(ranks)]
        numbers = np.concatenate([numbers_of(reader, turns) for reader in readers])
        assert int((numbers < samples).sum()) == samples == len(np.unique(numbers[numbers < samples]))


def test_samples_are_marked_where_it_matters(few):
    assert all("__pad__" not in sample for sample in wds.WebDataset(few))
    assert all(sample["__pad__"] is False for sample in wds.WebDataset(few, last="pad"))
    assert all(sample["__pad__"] is False for sample in wds.WebDataset(few, last="pad", order="random"))
    with world.pretend(World(1, 2)):
        marks = [sample["__pad__"] for sample in wds.WebDataset(few)]
    assert marks == [False] * 15 + [True]


# Resuming


def test_a_checkpoint_is_a_few_integers_and_the_same_everywhere(shards):
    texts = set()
    for ranks, workers in ((1, 1), (2, 1), (2, 3), (6, 2), (4, 3)):
        done = 2 * 12 // ranks  # after so many steps all of these have done the same
        for _, state in play(lambda: batches(shards), ranks, workers, steps=done)[-1]:
            texts.add(json.dumps(state["at"]))
    assert len(texts) == 1 and len(texts.pop()) < 200


def test_what_is_left_after_any_step_on_any_topology_is_the_rest_of_the_order():
    """All stop points of all topologies: the state is one position, however it was reached."""
    plan = {"rest": Rest(N).save(), "even": True}
    for ranks, workers in TOPOLOGIES:
        for step in range(-(-N // (BATCH * ranks)) + 1):
            places = [
                {
                    "pass": {
                        "plan": {**plan, "readers": [[0, ranks, worker, workers, BATCH, _share(step, worker, workers)]]}
                    }
                }
                for worker in range(workers)
            ]
            rest = settled(places)["pass"]["plan"]["rest"]
            assert rest == {"samples": N, "position": min(N, step * BATCH * ranks), "also": []}


def _share(step, worker, workers):
    return len(range(worker, step, workers)) * BATCH


def test_any_topology_goes_on_from_any_stop_point_with_the_same_sequence():
    """All positions where any topology can stop, taken up by all topologies: the arithmetic itself, exhaustively."""
    for position in range(0, N, BATCH):
        rest = Rest(N, position)
        expected = np.arange(position, N)
        for ranks, workers in TOPOLOGIES:
            steps = len(rest.steps(BATCH, ranks, "pad"))
            sequence = np.empty((steps, ranks, BATCH), np.int64)
            for rank, worker in itertools.product(range(ranks), range(workers)):
                mine = range(worker, steps, workers)
                numbers = numbers_of(Reader(rank, ranks, worker, workers, BATCH, 0), np.arange(len(mine) * BATCH))
                sequence[worker::workers, rank] = numbers.reshape(-1, BATCH)
            flat = sequence.ravel()
            assert np.array_equal(rest.positions(flat[flat < len(rest)]), expected)


def check_resume(shards, before, stop, after, **options):
    expected = sequence_of(shards)
    played = play(lambda: batches(shards, **options), *before, steps=stop)
    assert samples_of(played) == expected[: stop * BATCH * before[0]]
    states = [state for _, state in played[-1]]
    assert all(state == states[0] for state in states) and len(json.dumps(states[0])) < 4096
    rest = samples_of(play(lambda: batches(shards, **options), *after, state=states[0]))
    assert rest == expected[stop * BATCH * before[0] :]


@pytest.mark.parametrize("case", range(24))
def test_resuming_on_another_topology_goes_on_with_the_very_same_sequence(shards, case):
    rng = random.Random(case)
    before, after = TOPOLOGIES[case % len(TOPOLOGIES)], rng.choice(TOPOLOGIES)
    check_resume(shards, before, rng.randrange(1, -(-N // (BATCH * before[0])) + 1), after)


@pytest.mark.long
@pytest.mark.parametrize("before", TOPOLOGIES, ids=str)
def test_every_step_of_every_topology_saves_its_position(shards, before):
    """One half of the whole matrix with the real pipeline: what is saved is the position, the same on every rank."""
    for number, step in enumerate(play(batches(shards).compose, *before), 1):
        states = [state for _, state in step]
        assert all(state == states[0] for state in states)
        position = min(N, number * BATCH * before[0])
        assert states[0]["at"]["pass"]["plan"] == {"rest": {"samples": N, "position": position, "also": []}}


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.parametrize("after", TOPOLOGIES, ids=str)
def test_every_topology_goes_on_from_every_position(shards, after):
    """The other half: every position that is saved anywhere is taken up everywhere, with the very same sequence."""
    expected, dataset = sequence_of(shards), batches(shards)
    states = [state for ((_, state),) in play(dataset.compose, 1, 1)]
    for number, state in enumerate(states, 1):
        assert samples_of(play(dataset.compose, *after, state=state)) == expected[number * BATCH :]
    dataset.close()


def test_resuming_twice_on_three_topologies(shards):
    expected = sequence_of(shards)
    first = play(lambda: batches(shards), 4, 2, steps=9)
    second = play(lambda: batches(shards), 3, 3, state=first[-1][2][1], steps=11)
    third = play(lambda: batches(shards), 8, 1, state=second[-1][0][1])
    assert samples_of(first) + samples_of(second) + samples_of(third) == expected


def test_the_beginning_and_the_end_resume_too(shards):
    state = play(lambda: batches(shards), 4, 3)[-1][3][1]
    assert samples_of(play(lambda: batches(shards), 3, 2, state=state)) == []
    dataset = batches(shards)
    assert dataset.state_dict()["at"] is None
    everything = list(dataset)
    again = batches(shards)
    again.load_state_dict(dataset.state_dict())
    with world.pretend(World(0, 1)):
        following = list(again)
    assert sorted(sum((b[0] for b in following), [])) == sorted(sum((b[0] for b in everything), []))
    assert following != everything


@pytest.mark.parametrize(
    "make",
    [
        lambda urls: wds.WebDataset(urls),
        lambda urls: wds.WebDataset(urls, order="random").decode().to_tuple("cls").batched(4),
        lambda urls: wds.WebDataset(urls, window=2).select(_keep).batched(3, collation_fn=None),
        lambda urls: wds.WebDataset(urls, window=2).select(_keep).repeat(2),
        lambda urls: wds.WebDataset(urls).shuffle(5, buffer=True, initial=2).decode().listed(3),
        lambda urls: wds.WebDataset(urls, order="random").listed(4).unlisted().shuffle(6).to_tuple("__key__"),
        lambda urls: wds.WebDataset(urls, order="random").compose(list).map(_key),
        lambda urls: wds.WebDataset(urls, fields=("cls",)).decode().with_epoch(40),
    ],
)
@pytest.mark.parametrize("here", [World(), World(1, 3, 1, 2)], ids=["alone", "one of six"])
def test_a_planned_dataset_resumes_everywhere(few, make, here):
    with world.pretend(here):
        assert assert_resumes_everywhere(lambda: make(few), limit=60)


def _keep(sample):
    return int(sample["__key__"]) % 3 != 1


def _key(sample):
    return sample["__key__"]


@settings(max_examples=80, deadline=None)
@given(st.data())
def test_with_filters_nothing_is_repeated_or_lost(few, data):
    """Random drops, topologies and stop points, several stops in a row; the states of all ranks are merged."""
    kept = data.draw(st.sets(st.integers(0, 30), min_size=5))
    batch = data.draw(st.integers(1, 4))

    explicit = data.draw(st.booleans())

    def make():
        dataset = wds.WebDataset(few, order="random", last="pad")
        if explicit:
            dataset = dataset.select(lambda sample: int(sample["__key__"]) in kept)
        else:  # a function that drops cannot be told from one that does not, but by what it did
            dataset = dataset.map(lambda sample: sample if int(sample["__key__"]) in kept else None)
        return dataset.to_tuple("__key__", "__pad__").batched(batch, collation_fn=_columns)

    state, seen = None, []
    for stop in (*data.draw(st.lists(st.integers(1, 4), max_size=3)), None):
        ranks, workers = data.draw(st.sampled_from(RANKS[:4])), data.draw(st.sampled_from(WORKERS))
        played = play(make, ranks, workers, state=state, steps=stop)
        seen += samples_of(played)
        if not played or stop is None or any(each is None for each in played[-1]):
            break
        states = [saved for _, saved in played[-1]]
        state = wds.merge_states(json.loads(json.dumps(states)))
        assert len(json.dumps(state)) < 4096
    else:
        stop = None
    assert len(seen) == len(set(seen)) and set(map(int, seen)) <= kept
    if stop is None:
        assert set(map(int, seen)) == kept


def test_ranks_that_dropped_nothing_are_merged_with_those_that_did(few):
    """Rank 0 keeps all and speaks for all; rank 1 drops, and says so."""
    order = [key for key in keys(wds.WebDataset(few, order="random"))]
    dropped = {order[2], order[7]}  # of rank 1: positions 2, 3, 6, 7, …

    def make():
        dataset = wds.WebDataset(few, order="random", last="pad").map(lambda s: None if s["__key__"] in dropped else s)
        return dataset.to_tuple("__key__", "__pad__").batched(2, collation_fn=_columns)

    played = play(make, 2, 1, steps=4)
    states = [state for _, state in played[-1]]
    assert ["readers" in state["at"]["pass"]["plan"] for state in states] == [False, True]
    merged = wds.merge_states(states)
    seen = samples_of(played) + samples_of(play(make, 3, 2, state=merged))
    assert sorted(seen) == sorted(set(order) - dropped)
    resumed = play(make, 2, 1, state=[states[0], states[1]], steps=2)  # and on their own: still not in step
    assert "readers" in resumed[-1][1][1]["at"]["pass"]["plan"]


def test_a_filtered_rank_resumes_its_own_checkpoint_and_no_other(few):
    def make():
        dataset = wds.WebDataset(few, order="random", last="pad").select(_keep).to_tuple("__key__", "__pad__")
        return dataset.batched(2, collation_fn=_columns)

    played = play(make, 2, 2)
    states = [state for _, state in played[2]]
    rest = samples_of(play(make, 2, 2, state=states))
    assert samples_of(played[:3]) + rest != [] and sorted(samples_of(played[:3]) + rest) == sorted(samples_of(played))
    for topology in ((2, 1), (3, 2), (1, 1)):
        with pytest.raises(StateError, match=r"rank 0 of 2 with 2 workers.*merge_states"):
            play(make, *topology, state=states[0])
    merged = wds.merge_states(states)
    assert sorted(samples_of(play(make, 3, 1, state=merged)) + samples_of(played[:3])) == sorted(samples_of(played))
    for wrong in (states[:1], [], [states[0], {**states[1], "seed": 9}]):
        with pytest.raises(StateError):
            wds.merge_states(wrong)


def test_counts_are_saved_where_ranges_would_be_many():
    readers = [Reader(rank, 2, 0, 1, 4, taken) for rank, taken in ((0, 40_000), (1, 800))]
    rest = Rest(1_000_000).after(readers)
    assert len(rest.also) > 1000 and len(json.dumps(rest.save())) < 200
    again = Rest.load(json.loads(json.dumps(rest.save())), 1_000_000)
    assert again == rest
    further = again.after([Reader(0, 1, 0, 1, 4, 100)])
    assert len(json.dumps(further.save())) < 400 and Rest.load(further.save(), 1_000_000) == further


def test_a_place_in_a_huge_epoch_costs_nothing():
    readers = [Reader(rank, 8, worker, 4, 64, 64 * 10**6) for rank in range(8) for worker in range(4)]
    assert Rest(10**12).after(readers) == Rest(10**12, position=64 * 10**6 * 32)


# Bad input


def test_a_checkpoint_of_another_dataset_or_pipeline_is_refused_with_what_differs(shards, few):
    dataset = batches(shards)
    items = iter(dataset)
    next(items)
    state = dataset.state_dict()
    items.close()
    for other, words in (
        (batches(few), "1003 samples in 17 shards .*31 samples in 5 shards"),
        (batches(shards[::-1]), "stage 0 .*#"),
        (batches(shards, order="sequential"), "window=None.*ReadPlanned"),
        (batches(shards, batch=5), "batch=4.*batch=5"),
        (batches(shards, seed=3), "seed 0.*3"),
        (wds.WebDataset(shards, index=False), "ReadPlanned.*SimpleShardList"),
    ):
        with pytest.raises(StateError, match=words):
            other.load_state_dict(state)


@pytest.mark.parametrize(
    "rest", [{"samples": N, "position": N + 1, "also": []}, {"samples": 7, "position": 1, "also": []}]
)
def test_a_place_that_is_not_in_the_dataset_is_refused(shards, rest):
    dataset = batches(shards)
    state = dataset.state_dict()
    state["at"] = {"epoch": 0, "passes": 0, "pass": {"plan": {"rest": rest}}, "in_epoch": 0}
    dataset.load_state_dict(state)
    with pytest.raises(StateError, match="resume with the dataset"):
        list(dataset)


def test_a_shard_that_vanished_between_checkpoint_and_resume_is_named(tmp_path):
    urls = write_shards(tmp_path, [4, 4, 4])
    for options in ({}, {"order": "random"}):
        dataset = wds.WebDataset(urls, **options).batched(2)
        items = iter(dataset)
        next(items)
        state = dataset.state_dict()
        dataset.close()
        Path(urls[2]).rename(tmp_path / "away")
        again = wds.WebDataset(urls, **options).batched(2)
        again.load_state_dict(state)
        with pytest.raises(ShardNotFound, match=r"part-002\.tar"):
            list(again)
        again.close()
        (tmp_path / "away").rename(urls[2])


@pytest.mark.parametrize("options", [{}, {"order": "random"}])
def test_an_index_of_another_shard_is_refused(tmp_path, options):
    urls = write_shards(tmp_path, [4, 6])
    (tmp_path / "part-000.idx").write_bytes((tmp_path / "part-001.idx").read_bytes())
    dataset = wds.WebDataset(urls, **options)
    with pytest.raises(StaleIndex, match=r"part-000\.tar"):
        list(dataset)
    dataset.close()


@pytest.mark.parametrize("options", [{}, {"order": "random"}])
def test_counts_that_do_not_match_are_refused(tmp_path, options):
    from webdataset.index import Description, ShardEntry, write_description

    urls = write_shards(tmp_path, [4, 6])
    for wrong in (5, 7):
        entries = [ShardEntry(urls[0], 4), ShardEntry(urls[1], wrong)]
        (tmp_path / "all.json").write_bytes(write_description(Description(entries)))
        dataset, seen = wds.WebDataset(tmp_path / "all.json", **options), []
        with pytest.raises(StaleIndex, match=r"part-001\.tar"):
            seen.extend(sample["__key__"] for sample in dataset)
        assert len(set(seen)) == len(seen) and "00009" not in seen or wrong == 7
        dataset.close()


def test_a_world_of_nobody_is_refused(few, monkeypatch):
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setenv("WORLD_SIZE", "0")
    with pytest.raises(SpecError, match="WORLD_SIZE"):
        list(wds.WebDataset(few))


@pytest.mark.parametrize(
    "options", [{"handler": wds.warn_and_continue, "order": "random"}, {"handler": wds.warn_and_continue}]
)
@pytest.mark.filterwarnings("ignore")
def test_a_handler_lets_a_damaged_shard_go_by(tmp_path, options):
    urls = write_shards(tmp_path, [4, 6, 3], size=100)
    damaged = bytearray(Path(urls[1]).read_bytes())
    damaged[5 * 512 * 2 : 5 * 512 * 2 + 512] = b"?" * 512
    Path(urls[1]).write_bytes(damaged)
    dataset = wds.WebDataset(urls, **options)
    seen = keys(dataset)
    assert {f"{n:05d}" for n in (0, 1, 2, 3, 10, 11, 12)} <= set(seen) < {f"{n:05d}" for n in range(13)}
    dataset.close()


def test_an_empty_dataset_is_an_error_unless_allowed(tmp_path):
    urls = write_shards(tmp_path, [0])
    with pytest.raises(SpecError, match="No samples found"):
        list(wds.WebDataset(urls))
    assert list(wds.WebDataset(urls, empty_check=False)) == []


# Steps


@pytest.mark.parametrize("ranks", [1, 3])
def test_seek_skip_and_where(shards, ranks):
    expected = sequence_of(shards)
    per_step = BATCH * ranks
    with world.pretend(World(0, ranks)):
        dataset = batches(shards)
        assert [place.key for place in dataset.where(2)] == expected[2 * per_step : 3 * per_step]
        place = dataset.where(0)[0]
        with open(place.url, "rb") as file:
            file.seek(place.extents[1].offset)
            assert file.read(place.extents[1].size).decode() == str(int(place.key))
        dataset.seek(5)
        assert next(iter(dataset))[0] == expected[5 * per_step :][:BATCH]
        dataset = batches(shards)
        dataset.seek(2)
        dataset.skip(range(4, 6))
        taken = [number for number in range(2, 7) if number not in (4, 5)]
        firsts = [batch[0] for batch, _ in zip(dataset, range(3), strict=False)]
        assert firsts == [expected[number * per_step :][:BATCH] for number in taken]
        for wrong in (range(0, 4, 2), range(-1, 3), range(3, 10_000)):
            with pytest.raises(SpecError, match="steps"):
                dataset.skip(wrong)
        with pytest.raises(IndexError):
            dataset.where(10_000)
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
