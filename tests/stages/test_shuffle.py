import random
from itertools import islice

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.stages.contract import (
    FakeSource,
    Run,
    assert_contract,
    assert_resumes_everywhere,
    samples,
)
from webdataset.errors import SpecError, StateError
from webdataset.flow import Pass
from webdataset.stages import batched, map, shuffle, to_tuple
from webdataset.world import World


def in_pipeline(stage, during, count=200):
    return list(Run([FakeSource(range(count)), stage], during).items)


def consumption(**arguments):
    taken, seen = 0, []

    def source():
        nonlocal taken
        for number in range(60):
            taken += 1
            yield number

    for _ in shuffle(**arguments)(source()):
        seen.append(taken)
    return seen


# Taken from upstream before each output, as the public library does it.
PUBLIC = [
    (dict(bufsize=10, initial=4), [4, 6, 8, 10, 12, 14, 16, *range(17, 61)] + [60] * 9),
    (dict(bufsize=10, initial=5), [6, 8, 10, 12, 14, *range(15, 61)] + [60] * 9),
    (dict(bufsize=3, initial=10), [*range(3, 61), 60, 60]),
    (dict(bufsize=1, initial=1), [*range(1, 61)]),
    (dict(bufsize=0, initial=0), [*range(1, 61)]),
    (dict(bufsize=-1), [*range(1, 61)]),
    (dict(bufsize=2, initial=2), [*range(2, 61), 60]),
    (dict(bufsize=10, initial=0), [2, 4, 6, 8, 10, 12, 14, 16, *range(18, 61)] + [60] * 9),
]


@pytest.mark.parametrize(("arguments", "expected"), PUBLIC)
def test_buffer_fills_as_the_public_one_does(arguments, expected):
    assert consumption(**arguments) == expected


@given(
    count=st.integers(0, 60),
    bufsize=st.integers(-1, 70),
    initial=st.integers(0, 70),
    seed=st.none() | st.integers(0, 99),
)
@settings(max_examples=40, deadline=None)
def test_is_a_permutation_and_resumes_everywhere(count, bufsize, initial, seed):
    out = assert_resumes_everywhere([FakeSource(range(count)), shuffle(bufsize, initial, seed=seed)])
    assert sorted(out) == list(range(count))


def test_contract_before_and_after_other_stages():
    assert_contract(samples(30), shuffle(8, 4))
    assert_contract(samples(30), shuffle(8, 4, seed=3), to_tuple("__key__", "n"), batched(4), shuffle(3, 1))


def test_resume_repeats_few_draws_and_reads_only_what_was_held():
    source = FakeSource(range(5000))
    stages = [source, shuffle(50, 10)]
    run = Run(stages)
    head = list(islice(run.items, 3000))
    state, tail = run.state(), list(run.items)
    assert len(state[1]["held"]) <= 50 and state[1]["draws"] == 3000
    assert list(Run(stages, state=state).items) == tail
    assert source.recalled == len(state[1]["held"])
    assert sorted(head + tail) == list(range(5000))


def test_unseeded_alone_is_fresh_every_time():
    assert list(shuffle(100)(range(200))) != list(shuffle(100)(range(200)))


def test_seeded_alone_is_the_same_every_time():
    assert list(shuffle(100, seed=1)(range(200))) == list(shuffle(100, seed=1)(range(200)))
    assert list(shuffle(100, seed=1)(range(200))) != list(shuffle(100, seed=2)(range(200)))


@pytest.mark.parametrize("seed", [None, 7])
def test_D11_each_epoch_has_its_own_order_and_keeps_it(seed):
    stage = shuffle(100, seed=seed)
    first, second = in_pipeline(stage, Pass(seed=1, epoch=0)), in_pipeline(stage, Pass(seed=1, epoch=1))
    assert first != second
    assert first == in_pipeline(stage, Pass(seed=1, epoch=0))


def test_an_explicit_seed_counts_more_than_the_pipelines_and_the_process():
    stage = shuffle(100, seed=7)
    assert in_pipeline(stage, Pass(seed=1)) == in_pipeline(stage, Pass(seed=2, world=World(worker=1, workers=2)))


def test_without_a_seed_workers_draw_differently():
    stage = shuffle(100)
    parts = [in_pipeline(stage, Pass(seed=1, world=World(worker=n, workers=2))) for n in range(2)]
    assert parts[0] != parts[1]
    assert parts[0] != in_pipeline(stage, Pass(seed=2, world=World(worker=0, workers=2)))


def test_two_shuffles_of_one_pipeline_draw_differently():
    run = Run([FakeSource(range(50)), shuffle(100), map(int), shuffle(100)])
    assert sorted(run.items) == list(range(50))
    assert run.at[1].draws._seed != run.at[2].draws._seed


@pytest.mark.parametrize("make", [random.Random, np.random.default_rng, np.random.RandomState])
def test_one_number_of_a_generator_is_the_seed(make):
    generator = make(4)
    stage, other = shuffle(20, rng=generator), shuffle(20, rng=generator)
    assert stage == shuffle(20, rng=make(4)) != other
    assert in_pipeline(stage, Pass()) == in_pipeline(stage, Pass()) != in_pipeline(other, Pass())
    assert in_pipeline(stage, Pass(epoch=1)) != in_pipeline(stage, Pass())


def test_D52_leaves_the_global_generator_alone():
    random.seed(3)
    state = random.getstate()
    list(shuffle(10)(range(50)))
    assert random.getstate() == state


def test_items_of_unknown_origin_cannot_be_saved():
    stage = shuffle(10)
    at = stage.start(Pass())
    items = stage.run(iter(range(50)), at)
    next(items)
    with pytest.raises(StateError, match="unknown origin"):
        at.save()


def test_takes_a_list():
    assert sorted(shuffle(3)([3, 1, 2])) == [1, 2, 3]


def test_repr_names_the_verb():
    assert repr(shuffle(10, seed=3)) == "shuffle(bufsize=10, seed=3)"
    assert "shuffle" in str(shuffle())


@pytest.mark.parametrize(
    "arguments",
    [dict(bufsize="10"), dict(bufsize=None), dict(initial=1.5), dict(seed="x"), dict(rng=3), dict(seed=1, rng=random)],
)
def test_bad_arguments_fail_at_once(arguments):
    with pytest.raises(SpecError):
        shuffle(**arguments)


def test_a_size_may_be_written_as_a_float():
    assert shuffle(1e4).bufsize == 10000
