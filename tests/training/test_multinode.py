"""Several ranks for real: torchrun, gloo, DDP, and what users report to go wrong there."""

import itertools
import json

import pytest

from .data import COUNTS, N, write_shards
from .torchrun import launch

pytestmark = pytest.mark.timeout(600)

CASES = [
    "epochs:0",
    "epochs:2",
    "resume:1",
    "few_shards:1",
    "tiny:1",
    "resampled:1",
    "broken_here",
    "broken_strict",
    "node_splitter",
    "other_seed",
    "other_shards",
    "other_shards_streamed",
    "other_epoch",
    "other_position",
    "other_world",
    "larger_world",
    "one_rank_reads",
    "one_rank_looks",
    "own_lists",
]


@pytest.fixture(scope="module")
def shards(tmp_path_factory):
    folder = tmp_path_factory.mktemp("shards")
    write_shards(folder)
    write_shards(folder, (1,), prefix="tiny")
    return folder


@pytest.fixture(scope="module")
def two_ranks(shards, tmp_path_factory):
    """What both ranks saw in every case: one launch, because starting torch is what takes time."""
    outcome = launch("ddp.py", shards, *CASES, folder=tmp_path_factory.mktemp("two"))
    outcome.check()
    return outcome


def flat(nested):
    return [number for batch in nested for number in batch]


def check_epochs(seen):
    """The epochs of all ranks: equal steps, every sample once."""
    for of_all_ranks in zip(*(rank["epochs"] for rank in seen), strict=True):
        assert len({len(of_one) for of_one in of_all_ranks}) == 1, "ranks with more steps wait for the others for ever"
        assert sorted(itertools.chain(*map(flat, of_all_ranks))) == list(range(N))


@pytest.mark.parametrize("case", ["epochs:0", "epochs:2"])
def test_every_sample_once_in_equal_steps_and_a_new_order_each_epoch(two_ranks, case):
    seen = [rank[case] for rank in two_ranks.ranks]
    check_epochs(seen)
    assert all(len(epoch) == rank["length"] for rank in seen for epoch in rank["epochs"])
    orders = [flat(epoch) for epoch in seen[0]["epochs"]]
    assert len(set(map(tuple, orders))) == 3, "set_epoch is not needed"


def test_the_order_does_not_depend_on_workers(two_ranks):
    for rank in two_ranks.ranks:
        assert rank["epochs:0"] == rank["epochs:2"]


def test_training_goes_on_in_the_middle_of_an_epoch(two_ranks):
    seen = [rank["resume:1"] for rank in two_ranks.ranks]
    check_epochs(seen)
    assert seen[0]["state"] == seen[1]["state"], "one checkpoint for all ranks"
    assert [rank["epochs"][0] for rank in seen] == [rank["epochs:0"]["epochs"][0] for rank in two_ranks.ranks]


def test_one_shard_is_enough_for_all_ranks(two_ranks):
    assert sorted(itertools.chain(*(rank["few_shards:1"] for rank in two_ranks.ranks))) == list(range(COUNTS[0]))


def test_resampling_with_a_seed_is_reproducible(two_ranks):
    for first, second in (rank["resampled:1"] for rank in two_ranks.ranks):
        assert first == second and [len(epoch) for epoch in first] == [6, 6]
    assert two_ranks.ranks[0]["resampled:1"] != two_ranks.ranks[1]["resampled:1"], "ranks draw for themselves"


def test_broken_samples_on_one_rank(two_ranks):
    """Counted and reported for each epoch where they are left out; `with_epoch` keeps the number of steps equal."""
    zero, one = (rank["broken_here"] for rank in two_ranks.ranks)
    assert zero == [{"steps": 12, "lost": 0, "reported": 0}] * 2
    assert all(epoch["steps"] == 12 and epoch["reported"] == epoch["lost"] > 0 for epoch in one), one
    assert [rank["broken_strict"] for rank in two_ranks.ranks][0] is None
    assert "an unreadable image" in two_ranks.ranks[1]["broken_strict"]


def test_single_node_only_names_the_remedy(two_ranks):
    for number, rank in enumerate(two_ranks.ranks):
        assert f"this is rank {number} of 2 – nodesplitter=wds.split_by_node" in rank["node_splitter"]


@pytest.mark.parametrize(
    ("case", "message"),
    [
        ("other_seed", "disagree on the seed: rank 0 has 0; rank 1 has 1"),
        ("other_shards", "disagree on the shards: rank 0 has ReadPlanned(52 samples in 3 shards"),
        ("other_shards_streamed", "disagree on the shards: rank 0 has SimpleShardList("),
        ("other_epoch", "disagree on the epoch: rank 0 has 0; rank 1 has 1"),
        ("other_position", "disagree on the position: rank 0 has {'samples': 103, 'position': 16, 'also': []}; rank 1"),
        ("other_world", "the ranks differ in their numbers of processes: rank 0 has 2, rank 1 has 0"),
        ("larger_world", "numbers of processes: rank 0 has 1, rank 1 has 1, rank 2 has 0, rank 3 has 0"),
    ],
)
def test_ranks_that_disagree_are_told_so_on_every_rank(two_ranks, case, message):
    errors = [rank[case] for rank in two_ranks.ranks]
    assert errors[0] == errors[1] and message in errors[0], errors


def test_a_rank_that_reads_alone_goes_on_and_is_warned(two_ranks):
    assert [rank["one_rank_reads"] for rank in two_ranks.ranks] == [52, 0]
    assert "only ranks [0] have begun epoch 0 of this dataset" in two_ranks.printed


def test_a_rank_that_is_an_epoch_ahead_is_warned(two_ranks):
    assert "only ranks [0] have begun epoch 1 of this dataset" in two_ranks.printed


def test_lists_of_ones_own_are_read_whole(two_ranks):
    assert sorted(itertools.chain(*(rank["own_lists"] for rank in two_ranks.ranks))) == list(range(N))


def test_a_rank_that_dies_ends_the_others(shards, tmp_path):
    outcome = launch("ddp.py", shards, "dies:1", folder=tmp_path)
    assert outcome.code != 0 and "Signal 9 (SIGKILL)" in outcome.printed


def test_a_dataset_smaller_than_the_world(two_ranks):
    for of_all_ranks in zip(*(rank["tiny:1"] for rank in two_ranks.ranks), strict=True):
        assert [len(steps) for steps in of_all_ranks] == [1, 1]
        assert list(itertools.chain(*map(flat, of_all_ranks))) == [0]


@pytest.mark.long
@pytest.mark.parametrize(("ranks", "workers"), [(2, 1), (3, 0), (3, 2), (4, 0), (4, 2)])
def test_other_worlds(shards, tmp_path, ranks, workers):
    cases = [f"epochs:{workers}", f"resume:{workers}", f"few_shards:{workers}"]
    seen = launch("ddp.py", shards, *cases, folder=tmp_path, nproc=ranks).check()
    check_epochs([rank[cases[0]] for rank in seen])
    check_epochs([rank[cases[1]] for rank in seen])
    assert len({json.dumps(rank[cases[1]]["state"]) for rank in seen}) == 1
    assert sorted(itertools.chain(*(rank[cases[2]] for rank in seen))) == list(range(COUNTS[0]))


@pytest.mark.long
def test_spawned_workers_know_the_rank_of_their_parent(shards, tmp_path):
    seen = launch("ddp.py", shards, "spawned:2", "epochs:0", folder=tmp_path).check()
    check_epochs([rank["spawned:2"] for rank in seen])
    for rank in seen:
        assert rank["spawned:2"]["epochs"][0] == rank["epochs:0"]["epochs"][0]


@pytest.mark.long
def test_a_rank_that_dies_leaves_no_spawned_workers(shards, tmp_path):
    outcome = launch("ddp.py", shards, "dies_spawned:2", folder=tmp_path)
    assert outcome.code != 0 and "Signal 9 (SIGKILL)" in outcome.printed
