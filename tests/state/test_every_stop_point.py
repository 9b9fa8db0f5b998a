"""A run that is stopped anywhere, saved as JSON and resumed in a fresh object sees what an uninterrupted run sees.

Every composition is stopped before its first item, after every item of its first three epochs, and between epochs. The
rest of the epoch and the whole epoch after it are compared with a run that was never stopped.
"""

import functools
import itertools
import json
from contextlib import closing

import pytest

import webdataset as wds
from tests.golden.pipelines import STREAMED_B, keys_of, streamed
from tests.state import compositions as c
from tests.state.reference import Reference, epoch_of
from tests.state.stopping import Recording, a_few
from webdataset.loader import _item_state

WHERE = {
    "epoch-1": lambda epoch, taken: epoch == 0 and taken is not None,
    "epoch-2": lambda epoch, taken: epoch == 1 and taken is not None,
    "epoch-3": lambda epoch, taken: epoch == 2 and taken is not None,
    "between": lambda epoch, taken: taken is None,
}
SHUFFLED = (c.stream_shuffled, c.plan_random)


def _selection():
    """Every word of the grammar with the usual others; many more combinations are the long test."""
    for source in c.SOURCES:
        yield c.compose(source)
        yield c.compose(source, workers="processes-0-batch-2" if "plan" in source.__name__ else "threads-2")
    for nesting in c.NESTINGS:
        yield c.compose(c.stream_shuffled, nesting)
        yield c.compose(c.stream_shuffled, nesting, workers="processes-0")
        yield c.compose(c.plan_random, nesting, workers="threads-2")
    for source, cut in itertools.product((*SHUFFLED, c.resampled), c.CUTS):
        yield c.compose(source, cut=cut)
        yield c.compose(source, workers="threads-2", loader_cut=cut)
    for cut in c.CUTS:
        yield c.compose(c.stream_shuffled, cut=cut, workers="threads-2")
        yield c.compose(c.stream_shuffled, workers="processes-0", loader_cut=cut)
    for nesting, cut in itertools.product((c.in_stages, c.in_turns), (c.with_epoch, c.with_epoch_restart, c.repeated)):
        yield c.compose(c.stream_shuffled, nesting, cut)
        yield c.compose(c.plan_random, nesting, workers="threads-0", loader_cut=cut)
    for source, workers in itertools.product(SHUFFLED, ("processes-0", "threads-2")):
        # Stages after the loader may hold the last items of a pass that the loader has read to its end.
        yield c.compose(source, c.parts_with_epochs, workers=workers, loader_cut=c.with_epoch_restart, rebatched=True)
    for source, cut, again in itertools.product((c.stream_shuffled, c.generator_stage), c.CUTS, (False, True)):
        # A loader has read more passes of a dataset that repeats them than epochs of its own.
        yield c.compose(source, cut=c.repeated, workers="processes-0", loader_cut=cut, rebatched=again)
    for source in (*SHUFFLED, c.plan_filtered):
        yield c.compose(source, workers="processes-0", rebatched=True)
        yield c.compose(source, workers="threads-2", loader_cut=c.with_epoch, rebatched=True)


def _sometimes_empty():
    """A worker whose pass yields nothing ends its epoch there."""
    dataset = streamed(STREAMED_B, shardshuffle=True).rsample(0.5).with_epoch(9)
    return c.LOADERS["processes-2-persistent"](dataset)


def _mix_with_a_part_not_drawn():
    """The next epoch begins where the parts are, in all workers alike."""
    mixed = wds.RandomMix([streamed(shardshuffle=True), streamed(STREAMED_B).slice(0)], [1, 3], seed=6)
    return c.LOADERS["processes-2"](wds.DataPipeline(mixed.repeat(1, nbatches=2)))


def _processes():
    yield c.compose(c.stream_shuffled, workers="processes-1")
    yield c.compose(c.stream_shuffled, workers="processes-2-batch-2")
    yield c.compose(c.plan_filtered, workers="processes-2-batch-2")
    yield c.compose(c.stream_shuffled, c.in_stages, workers="processes-2")
    yield c.compose(c.plan_random, c.in_turns, workers="processes-2")
    yield c.compose(c.stream_shuffled, cut=c.with_epoch, workers="processes-2")
    yield c.compose(c.plan_random, workers="processes-2", loader_cut=c.with_epoch_restart)
    yield c.compose(c.resampled, workers="processes-2", loader_cut=c.with_epoch)
    yield c.compose(c.stream_shuffled, workers="processes-2", rebatched=True)
    # Workers that live on have read more passes than epochs, or go on where only counting says how far they are.
    yield c.compose(c.stream_shuffled, cut=c.repeated_and_cut, workers="processes-2-persistent")
    yield c.compose(c.generator_stage, cut=c.with_epoch, workers="processes-2-persistent")
    yield c.Composition(
        "mix_with_a_part_not_drawn+processes-2", _mix_with_a_part_not_drawn, c.Promise(c.A, epoch="some")
    )
    yield c.Composition("sometimes_empty+processes-2-persistent", _sometimes_empty, c.Promise(c.B, epoch="some"))


def _everything():
    yield from _selection()
    yield from _processes()
    yield from (c.compose(s, n, workers=w) for s, n, w in itertools.product(c.SOURCES, c.NESTINGS, c.LOADERS))
    kinds = ("", "processes-0", "processes-2", "threads-2")
    for source, nesting, cut, workers in itertools.product(SHUFFLED, c.NESTINGS, c.CUTS, kinds):
        yield c.compose(source, nesting, cut, workers)
        yield c.compose(source, nesting, workers=workers, loader_cut=cut)
        yield c.compose(source, nesting, workers=workers, loader_cut=cut, rebatched=True)


def _by_name(found):
    return {each.name: each for each in found if each is not None}


IN_ONE_PROCESS, WITH_PROCESSES, ALL = _by_name(_selection()), _by_name(_processes()), _by_name(_everything())


@functools.lru_cache(maxsize=2)
def _recorded(name):
    return Recording(ALL[name])


@functools.lru_cache(maxsize=2)
def _recorded_at_a_few(name):
    return Recording(ALL[name], only=a_few, stopped=2)


def _assert_exact(recording, chosen):
    assert recording.epochs == recording.reference.epochs, "saving a run changed it"
    failures = [f"epoch {epoch}, after {taken}: {why:.300}" for (epoch, taken), why in recording.failures(chosen)]
    if failures:
        pytest.fail("\n".join([f"{len(failures)} stop points", *failures[:5]]), pytrace=False)


@pytest.mark.parametrize("where", WHERE)
@pytest.mark.parametrize("name", IN_ONE_PROCESS)
def test_resumes_exactly(name, where):
    _assert_exact(_recorded(name), WHERE[where])


@pytest.mark.parametrize("name", WITH_PROCESSES)
def test_resumes_exactly_with_worker_processes(name):
    _assert_exact(_recorded_at_a_few(name), lambda epoch, taken: True)


@pytest.mark.parametrize("workers", ["processes-0", "threads-0", "threads-2"])
@pytest.mark.parametrize("nesting", c.NESTINGS, ids=lambda nesting: nesting.__name__)
@pytest.mark.parametrize("source", SHUFFLED, ids=lambda source: source.__name__)
def test_a_loader_does_not_change_the_order(source, nesting, workers):
    without, within = c.compose(source, nesting), c.compose(source, nesting, workers=workers)
    assert Reference(within.build, 3).epochs == Reference(without.build, 3).epochs


def _closed():
    yield from (c.compose(source) for source in c.SOURCES)
    yield from (c.compose(c.stream_shuffled, cut=cut) for cut in c.CUTS)
    yield from (c.compose(c.stream_shuffled, nesting, workers="threads-2") for nesting in c.NESTINGS)
    yield c.compose(c.stream_shuffled, workers="processes-2", loader_cut=c.with_epoch, rebatched=True)


@pytest.mark.parametrize("composition", [*filter(None, _closed())], ids=lambda composition: composition.name)
def test_a_state_that_is_saved_after_close_is_that_of_the_iteration(composition):
    """Mutation: forget the iteration when it is closed."""
    reference = Reference(composition.build, 3)
    for taken in (2, None):
        with closing(composition.build()) as dataset, closing(composition.build()) as resumed:
            items = iter(dataset)
            assert [keys_of(item) for item in itertools.islice(items, taken)] == reference.epochs[0][:taken]
            dataset.close()
            resumed.load_state_dict(json.loads(json.dumps(dataset.state_dict())))
            assert [epoch_of(resumed), epoch_of(resumed)] == reference.after(0, taken)


def _of_several_passes():
    for source, cut in itertools.product((c.stream_shuffled, c.generator_stage), c.CUTS):
        yield c.compose(source, cut=c.repeated, workers="threads-0", loader_cut=cut)
        yield c.compose(source, cut=c.repeated, workers="processes-0", loader_cut=cut, rebatched=True)


@pytest.mark.parametrize("composition", [*filter(None, _of_several_passes())], ids=lambda composition: composition.name)
def test_resumes_exactly_where_a_loader_asks_once_a_pass(composition, monkeypatch):
    """How often a loader asks for a cursor depends on how long that takes. Mutation: do not ask in a later pass."""
    monkeypatch.setattr(_item_state, "_PAUSE", float("inf"))
    _assert_exact(Recording(composition), lambda epoch, taken: True)


REST = sorted(ALL.keys() - IN_ONE_PROCESS.keys())


@pytest.mark.long
@pytest.mark.parametrize("name", REST)
def test_resumes_exactly_in_every_composition(name):
    often = not ALL[name].has_processes or name in WITH_PROCESSES
    _assert_exact((_recorded if often else _recorded_at_a_few)(name), lambda epoch, taken: True)
