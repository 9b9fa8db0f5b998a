import json
import json
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils.data import DataLoader

import webdataset as wds
from webdataset import stages
from webdataset.errors import SpecError, StateError
from webdataset.pipeline import DataPipeline, RandomMix, RoundRobin, mix
from webdataset.testing import assert_resumes_everywhere

from .numbers import Numbers


def numbers(n, base=0):
    return DataPipeline(Numbers(n), stages.map(_Plus(base)), stages.shuffle(4))


class _Plus:
    def __init__(self, base):
        self.base = base

    def __call__(self, n):
        return n + self.base


MIXES = {
    "turns": lambda: RoundRobin([numbers(5), numbers(9, 100)]),
    "turns, longest": lambda: RoundRobin([numbers(5), numbers(9, 100), numbers(2, 200)], longest=True),
    "random": lambda: RandomMix([numbers(15), numbers(9, 100)], [2, 1]),
    "random, longest": lambda: RandomMix([numbers(5), numbers(9, 100)], longest=True),
    "shares": lambda: mix([(numbers(5), 1), (numbers(9, 100), 3)]),
    "shares, drop": lambda: mix([(numbers(5), 1), (numbers(9, 100), 3)], exhausted="drop"),
    "shares, batches of one source": lambda: mix(
        [(numbers(8), 1), (numbers(8, 100), 1)], per_batch=3, exhausted="drop"
    ),
    "shares that change": lambda: mix([(numbers(9), 1), (numbers(9, 100), 1)], schedule=[(5, [0, 1]), (9, [1, 0])]),
    "a mix of mixes": lambda: mix(
        [(RoundRobin([numbers(4), numbers(4, 50)]), 1), (numbers(9, 100), 2)], exhausted="drop"
    ),
    "a mix, then a buffer": lambda: (
        mix([(numbers(9), 1), (numbers(9, 100), 1)]).shuffle(6).batched(4, collation_fn=None)
    ),
    "a mix of mixes, then buffers": lambda: (
        RandomMix([RoundRobin([numbers(4), numbers(4, 50)]).shuffle(3), numbers(9, 100)], longest=True)
        .shuffle(6)
        .map(_Plus(1))
    ),
    "a mix, then stages": lambda: mix([(numbers(9), 1), (numbers(9, 100), 1)]).shuffle(1).batched(4, collation_fn=None),
}


@pytest.mark.parametrize("make", MIXES.values(), ids=MIXES)
def test_a_mix_resumes_everywhere(make):
    assert len(assert_resumes_everywhere(make)) > 3


def test_a_buffer_holds_items_of_several_passes_of_a_part():
    make = lambda: mix([(numbers(3), 1), (numbers(40, 100), 1)], exhausted="repeat").shuffle(8)
    assert_resumes_everywhere(make, limit=40)


def test_a_mix_that_repeats_resumes_everywhere():
    make = lambda: mix([(numbers(3), 1), (numbers(4, 100), 1)], exhausted="repeat")
    items = assert_resumes_everywhere(make, limit=40)
    assert sum(n < 100 for n in items) == 20


@settings(max_examples=30, deadline=None)
@given(st.lists(st.integers(0, 7), min_size=1, max_size=4), st.booleans())
def test_D53_a_mix_loses_nothing_and_repeats_nothing(sizes, random):
    datasets = [[(source, n) for n in range(size)] for source, size in enumerate(sizes)]
    mixed = RandomMix(datasets, longest=True) if random else RoundRobin(datasets, longest=True)
    assert sorted(mixed) == sorted(pair for dataset in datasets for pair in dataset)


def test_D53_a_dataset_of_probability_zero_is_never_asked_and_nothing_mixes_to_nothing():
    assert 2 not in list(RandomMix([[1] * 9, [2] * 9], [1, 0], longest=True))
    assert list(RoundRobin([])) == [] and list(RandomMix([])) == []


def test_D52_mixing_leaves_the_global_generator_alone_and_repeats_itself():
    import random

    state = random.getstate()
    make = lambda: RandomMix([["a"] * 50, ["b"] * 50])
    first = list(make())
    assert first == list(make()) and random.getstate() == state
    mixed = make()
    assert list(mixed) != list(mixed)


def test_datasets_may_come_from_any_iterable():
    pairs = [([1, 2], 1), ([10, 20], 1)]
    datasets = [dataset for dataset, _ in pairs]
    assert list(mix(zip(datasets, [1, 1], strict=True))) == list(mix(map(list, pairs))) == list(mix(pairs))
    assert list(RoundRobin(iter(datasets))) == list(RoundRobin(datasets)) == [1, 10, 2, 20]
    assert sorted(RandomMix((each for each in datasets), longest=True)) == [1, 2, 10, 20]
    for wrong in (3, "a.tar", None):
        for verb in (mix, RoundRobin, RandomMix):
            with pytest.raises(SpecError, match="expected a list of datasets"):
                verb(wrong)


def test_shares_are_kept_within_one_item_over_any_thousand():
    mixed = mix([(["a"] * 9000, 5), (["b"] * 9000, 3), (["c"] * 9000, 0.7)])
    drawn = np.array(list(mixed.slice(6000)))
    for letter, weight in zip("abc", (5, 3, 0.7)):
        sums = np.concatenate(([0], np.cumsum(drawn == letter)))
        assert np.abs(sums[1000:] - sums[:-1000] - 1000 * weight / 8.7).max() <= 1


def test_weights_set_in_the_middle_are_part_of_the_state():
    make = lambda: mix([(numbers(50), 1), (numbers(50, 100), 1)])
    mixed = make()
    items = iter(mixed)
    [next(items) for _ in range(6)]
    mixed.set_weights([0, 1])
    assert all(next(items) >= 100 for _ in range(6))
    state, rest = mixed.state_dict(), list(items)
    again = make()
    again.load_state_dict(state)
    assert list(again) == rest and all(n >= 100 for n in rest)


@pytest.mark.parametrize("later", [0, 1, 7, None])
@pytest.mark.parametrize("around", [lambda mixed: mixed, lambda mixed: wds.DataPipeline(mixed, wds.listed(2))])
def test_weights_that_were_set_hold_in_all_later_epochs_of_a_resumed_run(around, later):
    """Whenever the state is saved: before the next draw, after it, at the end (None), before the next epoch."""
    make = lambda: mix([(numbers(5), 1), (numbers(50, 100), 1)], exhausted="drop")

    def run(saved_after_epoch):
        mixed = make()
        dataset = around(mixed)
        items = iter(dataset)
        seen = [next(items), next(items)]
        mixed.set_weights([1, 5])
        seen += [next(items) for _ in range(later)] if later is not None else items
        if saved_after_epoch:
            seen += items
        return dataset, seen, items

    for after_epoch in (False, True):
        dataset, seen, items = run(after_epoch)
        state = json.loads(json.dumps(dataset.state_dict()))
        expected = [list(items), list(dataset), list(dataset)]
        again = around(make())
        again.load_state_dict(state)
        found = [list(again), list(again), list(again)]
        assert found == (expected[1:] + found[-1:] if after_epoch or later is None else expected)


def test_batches_of_one_source_each():
    mixed = mix([(["a"] * 8, 1), (["b"] * 8, 1)], per_batch=4).batched(4, collation_fn=None)
    assert all(len(set(batch)) == 1 for batch in mixed)


def test_a_mix_goes_through_worker_processes():
    mixed = RandomMix([wds.MockDataset(1, 6), [2] * 6], longest=True)
    again = pickle.loads(pickle.dumps(mixed))
    assert sorted(int(n) for n in DataLoader(mixed, batch_size=None, num_workers=2)) == [1] * 12 + [2] * 12
    assert list(again) == list(RandomMix([[1] * 6, [2] * 6], longest=True))


@pytest.mark.parametrize(
    "wrong",
    [
        dict(sources=[]),
        dict(sources=[[1, 2]]),
        dict(sources=[([1], 0)]),
        dict(sources=[([1], -1)]),
        dict(sources=[([1], 1)], exhausted="never"),
        dict(sources=[([1], 1)], per_batch=0),
        dict(sources=[([1], 1)], schedule=[(3, [1, 2])]),
        dict(sources=[([1], float("nan"))]),
    ],
)
def test_wrong_mixes_are_refused_where_they_are_written(wrong):
    with pytest.raises(SpecError):
        mix(**wrong)
    with pytest.raises(SpecError):
        RandomMix([[1], [2]], [1])


def test_a_checkpoint_of_another_mix_is_refused():
    mixed = RoundRobin([numbers(3), numbers(3)])
    next(iter(mixed))
    with pytest.raises(StateError):
        other = RoundRobin([numbers(3)])
        other.load_state_dict(mixed.state_dict())
        list(other)
    mixed.close()


@pytest.mark.parametrize("leave_early", [False, True])
def test_epochs_of_a_mixed_dataset_go_on_in_the_next_pass(leave_early):
    mixed = RoundRobin([DataPipeline(Numbers(5)).with_epoch(2), ["a", "b", "c"]])
    if leave_early:
        items = iter(mixed)
        assert [next(items) for _ in range(2)] == [0, "a"]
        items.close()
        assert list(mixed) == [1, "a", 2, "b"]
    else:
        assert [list(mixed) for _ in range(3)] == [[0, "a", 1, "b"], [2, "a", 3, "b"], [4, "a", 0, "b"]]
    mixed.close()
    assert list(mixed) == [0, "a", 1, "b"]


OVER_EPOCHS = {
    "turns with epochs": lambda: RoundRobin([numbers(7).with_epoch(3), numbers(5, 100)]),
    "one begins late": lambda: RoundRobin([numbers(5), numbers(7, 100).with_epoch(4), numbers(4, 200)], longest=True),
    "random": lambda: RandomMix([numbers(5), numbers(6, 100).with_epoch(4)], longest=True),
    "a mix in a mix": lambda: mix([(RoundRobin([numbers(5).with_epoch(2), numbers(3, 50)]), 1), (numbers(6, 100), 1)]),
    "batches": lambda: mix([(numbers(9).with_epoch(4), 1), (numbers(9, 100), 1)]).batched(3, collation_fn=None),
}


@pytest.mark.parametrize("make", OVER_EPOCHS.values(), ids=OVER_EPOCHS)
def test_a_mix_resumes_in_and_between_epochs(make):
    """Mutation: without the places of the parts, a part starts again from its beginning after each stop."""
    epochs = 4
    mixed = make()
    whole, states = [], [(0, 0, mixed.state_dict())]
    for epoch in range(epochs):
        whole.append([])
        for item in mixed:
            whole[-1].append(item)
            states.append((epoch, len(whole[-1]), json.loads(json.dumps(mixed.state_dict()))))
        states.append((epoch + 1, 0, json.loads(json.dumps(mixed.state_dict()))))
    mixed.close()
    for epoch, position, state in states:
        again = make()
        again.load_state_dict(state)
        first = [whole[epoch][position:]] if epoch < epochs else []
        expected = first + whole[epoch + 1 :]
        assert [list(again) for _ in expected] == expected, (epoch, position)
        again.close()


def test_a_part_that_was_left_early_has_a_whole_epoch_after_a_resume():
    """An epoch of a part that the mix did not finish is over; a state between two passes must not go on inside it."""

    def make():
        return mix([(numbers(12).with_epoch(9), 2), (numbers(13, 100).with_epoch(9), 1)])

    straight = make()
    passes = [list(straight) for _ in range(3)]
    stopped = make()
    list(stopped)
    resumed = make()
    resumed.load_state_dict(json.loads(json.dumps(stopped.state_dict())))
    assert [list(resumed) for _ in range(2)] == passes[1:]


def test_a_mix_inside_a_mix_whose_epochs_go_on_resumes_between_passes():
    def make():
        parts = [(numbers(12).with_epoch(9), 3), (numbers(13, 100).with_epoch(9), 2)]
        return mix([(mix(parts, exhausted="drop").with_epoch(8), 2), (numbers(11, 200).with_epoch(9), 1)], per_batch=3)

    straight = make()
    passes = [list(straight) for _ in range(5)]
    dataset, got = make(), []
    for _ in passes:
        got.append(list(dataset))
        state = json.loads(json.dumps(dataset.state_dict()))
        dataset = make()
        dataset.load_state_dict(state)
    assert got == passes


def test_a_part_that_resumes_by_replay_may_be_saved_again_before_it_is_asked():
    def make():
        return mix([(list(range(9)), 1), (numbers(9, 100), 1)])

    whole = list(make())
    for stop in range(len(whole)):
        dataset, got = make(), []
        for steps in (stop, 0, 1, 0):
            items = iter(dataset)
            got += [next(items) for _ in range(min(steps, len(whole) - len(got)))]
            state = json.loads(json.dumps(dataset.state_dict()))
            dataset = make()
            dataset.load_state_dict(state)
        assert got + list(dataset) == whole


def test_a_mix_ends_when_only_datasets_that_ended_have_weight():
    mixed = mix([([1] * 9, 1), ([2] * 2, 1)], exhausted="drop", schedule=[(6, [0, 1])])
    assert list(mixed) == [1, 2, 1, 2, 1]  # draw 5 found the second one at its end


def test_a_part_that_was_not_begun_begins_as_saved_though_it_is_read_alone_meanwhile():
    """A mix tells its parts their epochs; what else is done with them does not matter."""

    def make():
        parts = [numbers(9), numbers(9, 100)]
        return parts, mix(list(zip(parts, [3, 1], strict=True)))

    whole = list(make()[1])
    _, stopped = make()
    assert next(iter(stopped)) == whole[0] < 100  # the second dataset was not begun
    parts, resumed = make()
    resumed.load_state_dict(stopped.state_dict())
    items = iter(resumed)
    list(parts[1])  # a pass of its own
    assert resumed.state_dict() == stopped.state_dict()
    assert list(items) == whole[1:]
