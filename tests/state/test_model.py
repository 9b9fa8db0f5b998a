"""Random compositions, driven at random: iterate, save, load into a fresh object, end an epoch, go on to the next.

The model is a list of keys per epoch, from an object that is never saved; the dataset under test must follow it.
"""

import json
from itertools import islice

import hypothesis.strategies as st
import pytest
from hypothesis import HealthCheck, Phase, example, given, seed, settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule, run_state_machine_as_test

import webdataset as wds
from tests.golden.pipelines import columns, keys_of, not_every_third, skip_every_fifth
from tests.state import compositions as c
from tests.state.reference import LONGEST, epoch_of
from webdataset.loader import _item_state

STAGES = {
    "shuffle": lambda: wds.shuffle(3),
    "detshuffle": lambda: wds.detshuffle(3, 2),
    "slice": lambda: wds.slice(1, 5),
    "select": lambda: wds.select(not_every_third),
    "own": lambda: skip_every_fifth,
}
MIXES = {
    "turns": lambda parts: wds.RoundRobin(parts, longest=True),
    "shortest": wds.RoundRobin,
    "random": lambda parts: wds.RandomMix(parts, longest=True, seed=6),
    "shares": lambda parts: wds.mix([(part, 1 + number) for number, part in enumerate(parts)], exhausted="drop"),
    "repeat": lambda parts: wds.mix([(part, 1) for part in parts], exhausted="repeat").with_epoch(8),
}
SOURCES = {
    source.__name__: source
    for source in (c.stream, c.stream_shuffled, c.plan, c.plan_random, c.plan_filtered, c.plan_buffered, c.generator)
}
SOURCES["resampled"] = lambda: c.resampled().with_epoch(5)
CUTS = {cut.__name__: cut for cut in c.CUTS if cut is not c.one_pass}
WORKERS = ("processes-0", "threads-0", "threads-2")


def build(tree):
    """The dataset that a tree of words describes."""
    kind, word, *parts = tree
    if kind == "source":
        return SOURCES[word]()
    if kind == "stage":
        return wds.DataPipeline(build(parts[0]), STAGES[word]())
    if kind == "cut":
        return CUTS[word](build(parts[0]))
    if kind == "mix":
        return MIXES[word]([build(part) for part in parts])
    if kind == "loader":
        return c.LOADERS[word](build(parts[0]))
    if kind == "rebatched":
        loader = c.LOADERS[word](build(parts[0]).compose(wds.batched(2, collation_fn=columns)))
        return loader.unbatched().shuffle(4).batched(3, collation_fn=list)
    raise ValueError(kind)


def datasets():
    """Sources, stages after them, epochs that are cut, and mixes of all of these, nested up to three times or so."""

    def around(inner):
        return st.one_of(
            st.tuples(st.just("stage"), st.sampled_from(sorted(STAGES)), inner),
            st.tuples(st.just("cut"), st.sampled_from(sorted(CUTS)), inner),
            st.tuples(st.just("mix"), st.sampled_from(sorted(MIXES)), inner, inner),
        )

    return st.recursive(st.tuples(st.just("source"), st.sampled_from(sorted(SOURCES))), around, max_leaves=3)


def loaders():
    loaders = st.tuples(st.sampled_from(["loader", "rebatched"]), st.sampled_from(WORKERS), datasets())
    return st.one_of(loaders, st.tuples(st.just("cut"), st.sampled_from(sorted(CUTS)), loaders))


def trees():
    return st.one_of(datasets(), loaders()).filter(lambda tree: not _never_ends(tree))


def _never_ends(tree):
    """Whether an epoch has no end: `repeat(2)` takes the place of the `with_epoch` of a dataset that needs one."""
    kind, word, *parts = tree
    if kind == "cut" and word == "repeated" and _is_endless(parts[0]):
        return True
    return any(_never_ends(part) for part in parts)


def _is_endless(tree):
    kind, word, *parts = tree
    return (kind, word) in {("mix", "repeat"), ("source", "resampled")} or (kind == "cut" and _is_endless(parts[0]))


class Resuming(RuleBasedStateMachine):
    """A dataset that is saved and loaded at any time, beside the list of what it must yield."""

    dataset = model = items = None

    @initialize(tree=trees())
    def begin(self, tree):
        self.tree = tree
        self.dataset, self.model = build(tree), build(tree)
        self.expected = epoch_of(self.model)
        self.taken = 0

    @rule(count=st.integers(1, 6))
    def take(self, count):
        """Items of this epoch, maybe its first; beyond the last the loop ends."""
        if self.items is None:
            self.items = iter(self.dataset)
        for _ in range(count):
            item = next(self.items, None)
            if item is None:
                self._end()
                return
            assert keys_of(item) == self._next_key(), f"item {self.taken} of {self.expected}"
            self.taken += 1

    @rule()
    def end_epoch(self):
        items = iter(self.dataset) if self.items is None else self.items
        assert [keys_of(item) for item in items] == self.expected[self.taken :]
        self.taken = len(self.expected)
        self._end()

    @rule()
    def save(self):
        """Saving changes nothing."""
        self._saved()

    @rule()
    def resume_elsewhere(self):
        state = self._saved()
        if state is None:
            return
        self._close(self.dataset)
        self.dataset, self.items = build(self.tree), None
        self.dataset.load_state_dict(json.loads(state))

    def _saved(self):
        """The state as text; None if what a generator yielded cannot be made again, and the error says so."""
        try:
            return json.dumps(self.dataset.state_dict())
        except wds.StateError:
            assert _has_generator(self.tree)

    def _next_key(self):
        return self.expected[self.taken] if self.taken < len(self.expected) else "nothing more"

    def _end(self):
        assert self.taken == len(self.expected), f"ended before {self.expected[self.taken :]}"
        self.items, self.taken, self.expected = None, 0, epoch_of(self.model)

    def _close(self, dataset):
        if self.items is not None and hasattr(self.items, "close"):
            self.items.close()
        dataset.close()

    def teardown(self):
        if self.dataset is not None:
            self._close(self.dataset)
            self.model.close()


def _has_generator(tree):
    kind, word, *parts = tree
    return word in {"generator", "own"} or any(_has_generator(part) for part in parts)


USUAL = settings(
    deadline=None,
    stateful_step_count=12,
    suppress_health_check=list(HealthCheck),
    database=None,
    print_blob=False,
)


def test_random_compositions_follow_the_model():
    # The same examples every time; the first one that fails is reported as it is found: it is short already.
    some = settings(USUAL, max_examples=120, derandomize=True, phases=(Phase.explicit, Phase.generate))
    run_state_machine_as_test(Resuming, settings=some)


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("part", range(20))
def test_ten_thousand_random_compositions_follow_the_model(part):
    """In parts, so that they can share the machine, and one that is cut off says how far it came."""
    machine = seed(part)(type("Resuming", (Resuming,), {}))
    run_state_machine_as_test(machine, settings=settings(USUAL, max_examples=500))


def _epochs(tree, stops, pause):
    """What a loader yields if it asks for a cursor always (0) or almost never."""
    before, _item_state._PAUSE = _item_state._PAUSE, pause
    dataset = build(tree)
    try:
        return [[keys_of(item) for item in islice(iter(dataset), stop)] for stop in stops]
    finally:
        _item_state._PAUSE = before
        dataset.close()


@settings(USUAL, max_examples=40, derandomize=True)
@given(loaders(), st.lists(st.sampled_from([LONGEST, LONGEST, 1, 2, 4]), min_size=3, max_size=3))
@example(("rebatched", "threads-0", ("cut", "repeated", ("source", "generator"))), [LONGEST, 1, LONGEST])
@example(("loader", "processes-0", ("cut", "repeated", ("source", "stream_shuffled"))), [LONGEST, 9, LONGEST])
def test_when_a_loader_asks_for_a_cursor_does_not_matter(tree, stops):
    """Mutation: number the epoch after one that was left early by the cursor that was asked for last."""
    assert _epochs(tree, stops, pause=0) == _epochs(tree, stops, pause=float("inf"))
