import itertools
import json
import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import webdataset as wds
from tests.pipeline.indexed import N
from tests.pipeline.planned import BATCH, RANKS, TOPOLOGIES, WORKERS, batches, columns, keys, sequence_of
from tests.pipeline.topologies import play, samples_of
from webdataset import world
from webdataset.errors import StateError
from webdataset.order import Reader, Remaining, numbers_of
from webdataset.plan import PlanState, join_workers
from webdataset.testing import assert_resumes_everywhere
from webdataset.world import World


def test_a_checkpoint_is_a_few_integers_and_the_same_everywhere(shards):
    texts = set()
    for ranks, workers in ((1, 1), (2, 1), (2, 3), (6, 2), (4, 3)):
        done = 2 * 12 // ranks  # after so many steps all of these have done the same
        for _, state in play(lambda: batches(shards), ranks, workers, steps=done)[-1]:
            texts.add(json.dumps(state["at"]))
    assert len(texts) == 1 and len(texts.pop()) < 200


def test_what_is_left_after_any_step_on_any_topology_is_the_rest_of_the_order():
    """All stop points of all topologies: the state is one position, however it was reached."""
    for ranks, workers in TOPOLOGIES:
        for step in range(-(-N // (BATCH * ranks)) + 1):
            states = [
                PlanState(Remaining(N), (Reader(0, ranks, worker, workers, BATCH, _share(step, worker, workers)),))
                for worker in range(workers)
            ]
            assert join_workers(states, 0, exact=False) == PlanState(Remaining(N, min(N, step * BATCH * ranks)))


def _share(step, worker, workers):
    return len(range(worker, step, workers)) * BATCH


def test_any_topology_goes_on_from_any_stop_point_with_the_same_sequence():
    """All positions where any topology can stop, taken up by all topologies: the arithmetic itself, exhaustively."""
    for position in range(0, N, BATCH):
        rest = Remaining(N, position)
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
            assert np.array_equal(rest.positions(flat), (position + flat) % N), "padding begins the epoch again"


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
        assert states[0]["at"]["plan"] == {"remaining": {"samples": N, "position": position, "also": []}}


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


@pytest.mark.parametrize("topology", [(6, 1), (8, 2), (8, 3)], ids=str)
def test_on_the_same_topology_padding_is_the_same_too(shards, topology):
    whole = play(lambda: batches(shards), *topology)
    assert any(pads != [False] * BATCH for (_, pads), _ in whole[-1]), "this topology needs no padding"
    for stop in (1, len(whole) // 2, len(whole) - 1):
        rest = play(lambda: batches(shards), *topology, state=whole[stop - 1][0][1])
        assert [[batch for batch, _ in step] for step in rest] == [
            [batch for batch, _ in step] for step in whole[stop:]
        ]


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
    assert dataset.state_dict()["at"]["beginning"] == []
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
        lambda urls: wds.WebDataset(urls, order=2).select(_keep).batched(3, collation_fn=None),
        lambda urls: wds.WebDataset(urls, order=2).select(_keep).repeat(2),
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
        dataset = wds.WebDataset(few, order="random", uneven="pad")
        if explicit:
            dataset = dataset.select(lambda sample: int(sample["__key__"]) in kept)
        else:  # a function that drops cannot be told from one that does not, but by what it did
            dataset = dataset.map(lambda sample: sample if int(sample["__key__"]) in kept else None)
        return dataset.to_tuple("__key__", "__pad__").batched(batch, collation_fn=columns)

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
        dataset = wds.WebDataset(few, order="random", uneven="pad").map(
            lambda s: None if s["__key__"] in dropped else s
        )
        return dataset.to_tuple("__key__", "__pad__").batched(2, collation_fn=columns)

    played = play(make, 2, 1, steps=4)
    states = [state for _, state in played[-1]]
    assert ["readers" in state["at"]["plan"] for state in states] == [False, True]
    merged = wds.merge_states(states)
    seen = samples_of(played) + samples_of(play(make, 3, 2, state=merged))
    assert sorted(seen) == sorted(set(order) - dropped)
    resumed = play(make, 2, 1, state=[states[0], states[1]], steps=2)  # and on their own: still not in step
    assert "readers" in resumed[-1][1][1]["at"]["plan"]


def test_a_filtered_rank_resumes_its_own_checkpoint_and_no_other(few):
    def make():
        dataset = wds.WebDataset(few, order="random", uneven="pad").select(_keep).to_tuple("__key__", "__pad__")
        return dataset.batched(2, collation_fn=columns)

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
    rest = Remaining(1_000_000).after(readers)
    assert len(rest.also) > 1000 and len(json.dumps(rest.to_json())) < 200
    again = Remaining.from_json(json.loads(json.dumps(rest.to_json())))
    assert again == rest
    further = again.after([Reader(0, 1, 0, 1, 4, 100)])
    assert len(json.dumps(further.to_json())) < 400 and Remaining.from_json(further.to_json()) == further


def test_a_place_in_a_huge_epoch_costs_nothing():
    readers = [Reader(rank, 8, worker, 4, 64, 64 * 10**6) for rank in range(8) for worker in range(4)]
    assert Remaining(10**12).after(readers) == Remaining(10**12, position=64 * 10**6 * 32)
