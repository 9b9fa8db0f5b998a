"""Ctrl-C comes when a call ends. Whatever call that is, in whatever stage, a checkpoint taken then is exact.

Python runs the handler of a signal when a function is entered and when a call of C code ends. A profile function is
called at the same points, so it can raise `KeyboardInterrupt` at the n-th of them, for all n.
"""

import itertools
import json
import os
import sys
import traceback
from pathlib import Path

import pytest

import webdataset as wds
from tests.golden.pipelines import (
    LIMITS,
    PIPELINES,
    STREAMED_B,
    columns,
    drop_every_fourth,
    indexed,
    keys,
    keys_of,
    not_every_third,
    number_of,
    streamed,
)
from tests.golden.shards import write_shards
from webdataset.loader._processes import Processes
from webdataset.loader._threads import Threads

PACKAGE = str(Path(wds.__file__).parent)
EPOCHS = 2  # with interrupts; one more is read after that
STEP, SELDOM = 397, 311  # of points that are tried in `make test`; SELDOM where processes are started every time

# A file that was just opened when the interrupt came is closed by the garbage collector, with a warning.
pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")


def fails(sample):
    if number_of(sample) == 5:
        raise ValueError(sample["__key__"])
    return sample


def on_threads(dataset):
    """Functions of one item go to threads at once: tests/conftest.py says so."""
    return wds.WebLoader(dataset, batch_size=None, num_workers=2, workers="threads")


def with_functions(dataset):
    return dataset.map(fails, handler=wds.ignore_and_continue).select(not_every_third).map(drop_every_fourth)


# Functions of one item before and after batches, and batches by column; in place and on threads.
MADE = {
    "plan": lambda: with_functions(indexed(order="random")).batched(2, collation_fn=keys).map(list),
    "plan_in_order": lambda: with_functions(indexed()).listed(2).map(list),
    "plan_by_column": lambda: indexed(order="random").decode().batched(3),
    "plan_by_column_and_not": lambda: (
        indexed(order="random").map(fails, handler=wds.ignore_and_stop).decode().batched(2)
    ),
    "plan_replaced": lambda: with_functions(indexed(order="random", failed="replace")).batched(3, collation_fn=keys),
    "stream": lambda: with_functions(streamed(shardshuffle=True)).shuffle(4).map(dict).batched(2, collation_fn=keys),
    "stream_by_column": lambda: streamed(shardshuffle=True).shuffle(3).decode().batched(3),
    "mix": lambda: wds.RoundRobin([streamed().decode().batched(2), streamed(STREAMED_B).map(dict)], longest=True),
}
MORE = {**MADE, **{f"{name}_on_threads": lambda make=make: on_threads(make()) for name, make in MADE.items()}}

LOADERS = {
    "threads_2": {"workers": "threads", "num_workers": 2},
    "threads_0": {"workers": "threads"},
    "processes_0": {"workers": "processes"},
    "processes_2": {"workers": "processes", "num_workers": 2},
}


def rebatched(dataset, options):
    loader = wds.WebLoader(dataset.batched(2, collation_fn=columns), batch_size=None, **options)
    return loader.unbatched().shuffle(4).batched(3, collation_fn=list)


# Stages after a loader.
AFTER = {
    "rebatched": lambda options: rebatched(streamed(shardshuffle=True), options),
    "rebatched_plan": lambda options: rebatched(with_functions(indexed(order="random")), options).map(list),
    "rebatched_epochs": lambda options: rebatched(streamed(shardshuffle=True).shuffle(3), options).with_epoch(3),
    "in_stages": lambda options: wds.DataPipeline(wds.WebLoader(streamed(), batch_size=None, **options), wds.listed(3)),
}
LOADED = {
    f"{name}_{workers}": lambda make=make, options=options: make(options)
    for name, make in AFTER.items()
    for workers, options in LOADERS.items()
}
ALL = {**PIPELINES, **MORE, **LOADED}


@pytest.fixture(autouse=True)
def shards(tmp_path, monkeypatch):
    write_shards(tmp_path)
    monkeypatch.chdir(tmp_path)


class Interrupt:
    """Raises KeyboardInterrupt at the `point`-th moment in our code in which Python could."""

    def __init__(self, point):
        self.point, self.seen, self.where, self.codes = point, 0, None, ()
        self._process = os.getpid()  # forked workers have the profile function, too

    def __call__(self, frame, event, arg):
        if event in ("call", "c_return") and frame.f_code.co_filename.startswith(PACKAGE) and self._is_mine():
            self.seen += 1
            if self.seen == self.point:
                sys.setprofile(None)
                self.where = f"{frame.f_code.co_filename}:{frame.f_lineno} {frame.f_code.co_name}"
                self.codes = {inner.f_code for inner, _ in traceback.walk_stack(frame)}
                raise KeyboardInterrupt

    def _is_mine(self):
        return os.getpid() == self._process


def read(dataset, epochs, limit, interrupt=None):
    """The keys of some epochs, as far as they come, and whether the interrupt did."""
    found = []
    sys.setprofile(interrupt)
    try:
        for _ in range(epochs):
            found.append([])
            for item in itertools.islice(dataset, limit):
                found[-1].append(keys_of(item))
    except KeyboardInterrupt:
        return found, True
    finally:
        sys.setprofile(None)
    return found, False


def wrong(name, expected, point):
    """What is not as it would have been without the interrupt; None if all is."""
    limit = LIMITS.get(name)
    dataset, interrupt = ALL[name](), Interrupt(point)
    (*complete, partial), came = read(dataset, len(expected) - 1, limit, interrupt)
    if not came:  # Python ignores an interrupt that comes while it frees an object
        dataset.close()
        return None
    state = json.dumps(dataset.state_dict())
    dataset.close()
    resumed = ALL[name]()
    if name == "stream_mcached" and complete:
        return None if _is_refused(resumed, state) else "a cache in memory is gone, and the checkpoint did not say so"
    resumed.load_state_dict(json.loads(state))
    # An endless pipeline is cut by the test, not by itself.
    (rest,), _ = read(resumed, 1, limit and limit - len(partial))
    following, _ = read(resumed, 0 if limit else 1, None)
    resumed.close()
    found = [*complete, partial + rest, *following]
    return None if found == expected[: len(found)] else f"{interrupt.where}: {complete} {partial} | {rest} {following}"


def _is_refused(resumed, state):
    """Whether the rest of a pass out of a cache is refused, or a pass begins, which needs no cache."""
    resumed.load_state_dict(json.loads(state))
    try:
        list(resumed)
    except wds.errors.StateError:
        return True
    return not json.loads(state)["at"].get("skip")


def points(name, expected):
    """How many moments there are."""
    dataset, count = ALL[name](), Interrupt(None)
    read(dataset, len(expected) - 1, LIMITS.get(name), count)
    dataset.close()
    return count.seen


def check(name, step):
    dataset = ALL[name]()
    expected, _ = read(dataset, 1 + (1 if name in LIMITS else EPOCHS), LIMITS.get(name))
    dataset.close()
    chosen = range(1, points(name, expected), step)
    assert len(chosen) > 1
    assert [found for point in chosen if (found := wrong(name, expected, point)) is not None] == []


IN_PROCESSES = [name for name in ALL if "processes_1" in name or "processes_2" in name]


@pytest.mark.parametrize("name", [name for name in ALL if name not in IN_PROCESSES])
def test_a_checkpoint_after_ctrl_c_is_exact(name):
    """Mutation: let an interrupted pass ask its stages where they are; advance the epoch before a run exists."""
    check(name, STEP)


@pytest.mark.parametrize("name", ["loader_processes_2_planned", "rebatched_processes_2"])
def test_a_checkpoint_after_ctrl_c_is_exact_with_processes(name):
    check(name, SELDOM)


@pytest.mark.long
@pytest.mark.parametrize("name", ALL)
def test_a_checkpoint_after_ctrl_c_is_exact_at_more_points(name):
    check(name, 29 if name in IN_PROCESSES else 3)


SOURCES = {Threads.run.__code__, Processes.run.__code__}
# Worker processes send no origins for stages of a dataset around their loader.
NO_ORIGINS = "in_stages_processes_0"


@pytest.mark.parametrize("name", [name for name in LOADED if name not in (*IN_PROCESSES, NO_ORIGINS)])
def test_ctrl_c_while_a_loader_is_waited_for_does_not_read_the_pass_again(name):
    """Mutation: let an interrupted pass with stages after a loader count its items from its beginning."""
    found = []
    for point in range(50, points(name, [[]] * 3), STEP // 5):
        dataset, interrupt = ALL[name](), Interrupt(point)
        _, came = read(dataset, 2, None, interrupt)
        if came and interrupt.codes & SOURCES:
            found.append((interrupt.where, dataset.state_dict()["at"].get("skip", 0)))
        dataset.close()
    assert len(found) > 10
    assert [where for where, skip in found if skip] == []


def planned_loader(workers, number):
    dataset = indexed(order="random").batched(2, collation_fn=keys)
    return wds.WebLoader(dataset, batch_size=None, workers=workers, num_workers=number)


@pytest.mark.parametrize("workers", [("threads", 2), ("threads", 0), ("processes", 0)], ids=str)
def test_a_loader_of_a_plan_goes_on_with_others_after_ctrl_c(workers):
    """Mutation: count the items since the beginning of the pass."""
    expected, _ = read(planned_loader("processes", 0), 2, None)
    for point in itertools.count(100, 211):
        loader = planned_loader(*workers)
        (*complete, partial), came = read(loader, 2, None, Interrupt(point))
        state = json.dumps(loader.state_dict())
        loader.close()
        if not came:
            break
        resumed = planned_loader("threads", 1)
        resumed.load_state_dict(json.loads(state))
        (rest,), _ = read(resumed, 1, None)
        assert [*complete, partial + rest] == expected[: len(complete) + 1], point
        with wds.world.pretend(wds.world.World(rank=0, ranks=2)):
            elsewhere = planned_loader("threads", 0)
            elsewhere.load_state_dict(json.loads(state))  # refused where a rank would have to count items
            elsewhere.close()
