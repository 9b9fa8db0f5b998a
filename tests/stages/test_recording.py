"""Caches of samples: in memory, in LMDB, in SQLite. What all of them promise is tested for all."""

import functools
import multiprocessing
import os
import pickle
import signal
from itertools import islice

import numpy as np
import pytest

from tests.stages.contract import (
    FakeSource,
    Run,
    assert_resumes_everywhere,
    same,
    samples,
)
from webdataset.errors import SpecError, StateError, StoreError, UnsafeContent
from webdataset.flow import Pass
from webdataset.pipeline import DataPipeline
from webdataset.pipeline._nested import Nested
from webdataset.stages import Cached, DBCache, LMDBCached, map_dict, shuffle
from webdataset.world import World

KINDS = {
    "memory": lambda folder: Cached(),
    "lmdb": lambda folder: LMDBCached(str(folder / "lmdb"), map_size=1e8, chunksize=3),
    "sqlite": lambda folder: DBCache(str(folder / "cache.db")),
}
ON_DISK = ["lmdb", "sqlite"]


@pytest.fixture(params=KINDS)
def make(request, tmp_path):
    return functools.partial(KINDS[request.param], tmp_path)


@pytest.fixture(params=ON_DISK)
def make_on_disk(request, tmp_path):
    return functools.partial(KINDS[request.param], tmp_path)


def test_later_passes_do_not_read_the_source(make):
    stage = make()
    assert list(stage(samples(10))) == samples(10)
    assert list(stage(iter(()))) == samples(10)
    assert list(stage(samples(3))) == samples(10)


def test_an_interrupted_first_pass_does_not_count(make):
    stage = make()
    assert list(islice(stage(samples(10)), 4)) == samples(4)
    assert list(stage(samples(7))) == samples(7)
    assert list(stage(())) == samples(7)


def test_D13_equal_keys_and_order_are_kept(make):
    items = [{"__key__": key, "n": n} for n, key in enumerate("zyxzyx")]
    stage = make()
    list(stage(items))
    assert list(stage(())) == items


def test_D13_each_worker_plays_back_what_it_recorded(make):
    stage = make()
    worlds = [World(worker=n, workers=2) for n in range(2)]
    parts = [samples(10)[n::2] for n in range(2)]
    for _ in range(2):
        for world, part in zip(worlds, parts):
            assert list(Run([FakeSource(part), stage], Pass(world=world)).items) == part
    # another number of workers is another recording, never a mixture
    assert list(Run([FakeSource(samples(10)), stage], Pass(world=World())).items) == samples(10)


def test_two_workers_may_record_at_the_same_time(make):
    stage = make()
    runs = [Run([FakeSource(samples(9)[n::2]), stage], Pass(world=World(worker=n, workers=2))) for n in range(2)]
    for _ in range(5):
        for run in runs:
            next(run.items, None)
    for run in runs:
        list(run.items)
    for n in range(2):
        run = Run([FakeSource(()), stage], Pass(world=World(worker=n, workers=2)))
        assert list(run.items) == samples(9)[n::2]


def test_two_passes_at_once_over_one_part_do_not_disturb_each_other(make):
    stage = make()
    one, two = stage(samples(8)), stage(samples(8))
    assert [next(one), next(two), next(one)] == [samples(8)[0], samples(8)[0], samples(8)[1]]
    assert list(two) == samples(8)[1:] and list(one) == samples(8)[2:]
    assert list(stage(())) == samples(8)
    one, two = stage(()), stage(())
    assert list(zip(one, two)) == list(zip(samples(8), samples(8)))


def test_D57_changes_downstream_do_not_reach_the_cache(make):
    stage = make()
    change = map_dict(n=lambda n: n + 100)
    for _ in range(3):
        assert [sample["n"] for sample in change(stage(samples(3)))] == [100, 101, 102]


def test_arrays_come_back(make):
    items = [{"__key__": str(n), "x": np.arange(n)} for n in range(3)]
    stage = make()
    list(stage(items))
    assert same(list(stage(())), items)


def test_an_empty_stream_is_a_recording_too(make):
    stage = make()
    assert list(stage(())) == [] and list(stage(samples(2))) == []


def test_playing_back_resumes_everywhere(make):
    stage = make()
    list(stage(samples(8)))
    assert assert_resumes_everywhere([FakeSource(()), stage]) == samples(8)
    assert_resumes_everywhere([FakeSource(()), stage, shuffle(4, 2)])


SOURCES = {
    "source": FakeSource(samples(8)),
    "dataset inside": Nested(DataPipeline(FakeSource(samples(8)))),
}


@pytest.mark.parametrize("source", SOURCES.values(), ids=SOURCES)
def test_recording_resumes_everywhere(make, source):
    """Mutation: take the origins of datasets inside for numbers of the recording."""
    whole = list(Run([source, make(), shuffle(3, 2)]).items)
    for stop in range(9):
        for keep in (True, False):  # with and without what was recorded before
            stages = [source, fresh(make()), shuffle(3, 2)]
            run = Run(stages)
            head = list(islice(run.items, stop))
            state = run.state()
            run.items.close()
            stages[1] = stages[1] if keep else fresh(stages[1])
            assert head + list(Run(stages, state=state).items) == whole, (stop, keep)


def fresh(stage):
    """The same stage with nothing recorded."""
    import shutil
    from pathlib import Path

    path = getattr(stage, "fname", None) or getattr(stage, "dbname", None)
    if path:
        shutil.rmtree(path, ignore_errors=True)
        Path(path).unlink(missing_ok=True)
    return pickle.loads(pickle.dumps(stage))


def test_a_pass_that_goes_on_from_a_checkpoint_completes_the_recording(make_on_disk):
    stage = make_on_disk()
    run = Run([FakeSource(samples(8)), stage])
    list(islice(run.items, 5))
    state = run.state()
    run.items.close()
    assert list(Run([FakeSource(samples(8)), stage], state=state).items) == samples(8)[5:]
    assert list(stage(())) == samples(8)


def test_a_pass_that_goes_on_is_a_recording_only_with_its_beginning(make):
    stage = make()
    run = Run([FakeSource(samples(8)), stage])
    list(islice(run.items, 5))
    state = run.state()
    run.items.close()
    stage = fresh(stage)
    assert list(Run([FakeSource(samples(8)), stage], state=state).items) == samples(8)[5:]
    # In memory the whole pass is read, and recorded, again; a file has the samples before, or is recorded again.
    assert list(stage(samples(3))) == (samples(8) if isinstance(stage, Cached) else samples(3))


def test_a_checkpoint_of_a_cache_that_is_gone_is_refused(make):
    stage = make()
    list(stage(samples(8)))
    run = Run([FakeSource(()), stage, shuffle(2, 2)])
    next(run.items)
    state = run.state()
    run.items.close()
    with pytest.raises(StateError, match="cache"):
        list(Run([FakeSource(()), fresh(stage), shuffle(2, 2)], state=state).items)


def test_playing_on_from_a_cache_that_is_gone_is_refused(make):
    stage = make()
    list(stage(samples(8)))
    run = Run([FakeSource(()), stage])
    next(run.items)
    state = run.state()
    run.items.close()
    with pytest.raises(StateError, match="a cache that is gone"):
        list(Run([FakeSource(samples(8)), fresh(stage)], state=state).items)


def record_and_die(stage, ready):
    for number, _ in enumerate(stage(samples(500))):
        if number == 300:
            ready.send(True)
            signal.pause()


def test_a_killed_recorder_leaves_no_half_cache_and_no_lock(make_on_disk):
    stage = make_on_disk()
    context = multiprocessing.get_context("fork")
    receiving, sending = context.Pipe(duplex=False)
    process = context.Process(target=record_and_die, args=(stage, sending))
    process.start()
    assert receiving.poll(60) and receiving.recv()
    # While the other process records, a pass here goes through unrecorded.
    assert list(stage(samples(4))) == samples(4)
    os.kill(process.pid, signal.SIGKILL)
    process.join()
    process.close()
    receiving.close()
    sending.close()
    assert list(stage(samples(4))) == samples(4)
    assert list(stage(())) == samples(4)


def close_what_was_inherited(passes, stage):
    for one in passes:
        one.close()
    assert list(stage(())) == samples(9)


def test_a_fork_leaves_passes_under_way_alone(make_on_disk, tmp_path):
    stage = make_on_disk()
    list(stage(samples(9)))
    replaying, recording = stage(()), DBCache(tmp_path / "other.db")(samples(3))
    assert next(replaying) == next(recording) == samples(1)[0]
    context = multiprocessing.get_context("fork")
    process = context.Process(target=close_what_was_inherited, args=([replaying, recording], stage))
    process.start()
    process.join()
    assert process.exitcode == 0
    process.close()
    assert list(replaying) == samples(9)[1:]
    assert list(recording) == samples(3)[1:]
    assert list(DBCache(tmp_path / "other.db")(())) == samples(3)


def record_part(stage, worker, workers):
    during = Pass(world=World(worker=worker, workers=workers))
    for _ in range(2):
        part = samples(500)[worker::workers]
        assert list(Run([FakeSource(part), stage], during).items) == part


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_workers_share_a_cache(make_on_disk, method):
    stage = make_on_disk()
    context = multiprocessing.get_context(method)
    processes = [context.Process(target=record_part, args=(stage, n, 2)) for n in range(2)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
        assert process.exitcode == 0
        process.close()
    for n in range(2):
        run = Run([FakeSource(()), stage], Pass(world=World(worker=n, workers=2)))
        assert list(run.items) == samples(500)[n::2]


def test_stages_pickle_without_their_contents(make):
    stage = make()
    list(stage(samples(3)))
    copy = pickle.loads(pickle.dumps(stage))
    assert repr(copy) == repr(stage) and "0x" not in repr(stage)


class Custom:
    def __init__(self):
        self.x = 1


def test_what_cannot_be_read_back_safely_fails_in_the_first_pass(make_on_disk):
    with pytest.raises(UnsafeContent):
        list(make_on_disk()([{"__key__": "a", "x": Custom()}]))


def test_a_pickler_of_ones_own(tmp_path):
    for stage in (
        LMDBCached(tmp_path / "lmdb", 1e8, pickle),
        DBCache(tmp_path / "db", pickler=pickle),
    ):
        copy = pickle.loads(pickle.dumps(stage))
        assert copy.pickler is pickle
        list(copy([Custom()]))
        assert next(copy(())).x == 1


def test_a_place_that_does_not_exist_says_so(tmp_path):
    for stage in (DBCache(tmp_path / "no" / "db"), LMDBCached(tmp_path / "no" / "such" / "lmdb")):
        with pytest.raises(StoreError, match="cannot be opened"):
            list(stage(samples(2)))


@pytest.mark.parametrize("stage", [LMDBCached, DBCache])
def test_bad_arguments_fail_at_once(stage):
    with pytest.raises(SpecError):
        stage(3)
    with pytest.raises(SpecError):
        stage("name", "many")
