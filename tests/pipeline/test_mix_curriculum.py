"""The schedule of a mix counts the draws of all workers of all ranks: one curriculum for any number of them."""

import itertools

import pytest

import webdataset as wds
from webdataset import world
from webdataset.pipeline import DataPipeline, mix
from webdataset.pipeline._source_choice import ByShares, Shares

CHANGES = [(0, [3, 1]), (120, [1, 1]), (240, [1, 5]), (361, [0, 1])]  # the last is no multiple of the readers
DRAWS = 480
WINDOW = 60
TOPOLOGIES = [(1, 1), (2, 1), (3, 1), (1, 2), (2, 2), (3, 2), (2, 3)]  # ranks and workers


def endless(letter):
    return DataPipeline([letter] * 2 * DRAWS)


def curriculum():
    return mix([(endless("a"), 3), (endless("b"), 1)], schedule=CHANGES[1:])


def shares_of(parts):
    """How many of each window of global draws were of the second source; `parts` draw in turn."""
    row = [letter for turn in zip(*parts, strict=True) for letter in turn][:DRAWS]
    return [row[first : first + WINDOW].count("b") for first in range(0, DRAWS, WINDOW)]


def read_by(ranks, workers):
    parts = []
    for rank, worker in itertools.product(range(ranks), range(workers)):
        with world.pretend(world.World(rank, ranks, worker, workers)):
            parts.append(list(itertools.islice(curriculum(), DRAWS // (ranks * workers))))
    return parts


@pytest.mark.parametrize(("ranks", "workers"), TOPOLOGIES)
def test_every_window_of_draws_has_its_shares(ranks, workers):
    expected = [15, 15, 30, 30, 50, 50, 60, 60]
    found = shares_of(read_by(ranks, workers))
    # Each reader keeps its shares within one item over its part of a window.
    assert all(abs(one - other) <= ranks * workers for one, other in zip(found, expected, strict=True)), found
    assert found[-1] == WINDOW


@pytest.mark.parametrize("workers", [1, 2, 3])
def test_worker_processes_follow_the_same_curriculum(workers):
    loader = wds.WebLoader(curriculum(), batch_size=None, num_workers=workers)
    row = list(itertools.islice(loader, DRAWS))
    assert shares_of([row[worker::workers] for worker in range(workers)]) == shares_of(read_by(1, workers))


@pytest.mark.parametrize("readers", [1, 2, 3, 5])
@pytest.mark.parametrize("step", [1, 2, 7, 10, 11])
def test_a_change_comes_with_the_first_draw_that_reaches_it(readers, step):
    shares = Shares([(0, [1, 0]), (step, [0, 1])])
    for reader in range(readers):
        drawing = ByShares(shares, (reader, readers))
        for turn in range(20):
            assert drawing.draw() == (turn * readers + reader >= step), (reader, turn)


def test_of_changes_between_two_draws_of_a_reader_the_last_holds():
    drawing = ByShares(Shares([(0, [1, 0, 0]), (4, [0, 1, 0]), (5, [0, 0, 1])]), (0, 4))
    assert [drawing.draw() for _ in range(3)] == [0, 1, 2]
    drawing = ByShares(Shares([(0, [1, 0, 0]), (4, [0, 1, 0]), (5, [0, 0, 1])]), (3, 4))
    assert [drawing.draw() for _ in range(3)] == [0, 2, 2]


@pytest.mark.parametrize("stop", [0, 19, 20, 21, 60, 61])
def test_a_reader_that_resumes_keeps_the_curriculum(stop):
    with world.pretend(world.World(rank=1, ranks=2, worker=2, workers=3)):
        expected = list(itertools.islice(curriculum(), 80))
        dataset = curriculum()
        items = iter(dataset)
        seen = list(itertools.islice(items, stop))
        again = curriculum()
        again.load_state_dict(dataset.state_dict())
        assert seen + list(itertools.islice(again, 80 - stop)) == expected
