"""Indexed datasets behind real loaders: torch's worker processes, threads, torchdata, and a training loop that is killed."""

import json
import os
import signal
import subprocess
import sys

import pytest
from torch.utils.data import DataLoader

import webdataset as wds
from tests.pipeline.indexed import N, uneven_counts, write_shards
from webdataset import world
from webdataset.errors import SpecError, StateError
from webdataset.world import World

BATCH = 16


@pytest.fixture(scope="module")
def shards(tmp_path_factory):
    return write_shards(tmp_path_factory.mktemp("planned"), uneven_counts())


def dataset_of(shards, **options):
    return wds.WebDataset(shards, order="random", seed=5, **options).to_tuple("__key__")


def expected_of(shards, epoch=0):
    dataset = dataset_of(shards)
    dataset.set_epoch(epoch)
    return [key for (key,) in dataset]


def loader_of(shards, workers, kind="processes", batch_size=BATCH, **settings):
    return wds.WebLoader(dataset_of(shards), batch_size=batch_size, num_workers=workers, workers=kind, **settings)


def keys_of(batches):
    return [key for (keys,) in batches for key in keys]


LOADERS = [
    (0, "processes"),
    (1, "processes"),
    (2, "processes"),
    (3, "processes"),
    (0, "threads"),
    (1, "threads"),
    (3, "threads"),
]


def stopped(loader, steps):
    items = iter(loader)
    seen = [next(items) for _ in range(steps)]
    state = json.loads(json.dumps(loader.state_dict()))
    items.close()
    return keys_of(seen), state


@pytest.mark.parametrize("workers", LOADERS, ids=str)
def test_the_sequence_does_not_depend_on_the_loader(shards, workers):
    loader = loader_of(shards, *workers)
    assert len(loader) == -(-N // BATCH)
    assert keys_of(loader) == expected_of(shards)
    assert keys_of(loader) == expected_of(shards, epoch=1)


@pytest.mark.parametrize(("before", "after"), list(zip(LOADERS, LOADERS[3:] + LOADERS[:3], strict=True)), ids=str)
def test_a_loader_goes_on_where_any_other_stopped(shards, before, after):
    seen, state = stopped(loader_of(shards, *before), 17)
    assert seen == expected_of(shards)[: 17 * BATCH] and len(json.dumps(state)) < 4096
    again = loader_of(shards, *after)
    again.load_state_dict(state)
    assert again.state_dict() == state
    assert seen + keys_of(again) == expected_of(shards)
    assert keys_of(again) == expected_of(shards, epoch=1)


def test_all_loaders_save_the_same(shards):
    states = [stopped(loader_of(shards, *workers), 5)[1] for workers in LOADERS]
    assert all(state == states[0] for state in states)


@pytest.mark.parametrize("steps", [0, 1, 62, 63])
def test_the_ends_of_an_epoch(shards, steps):
    loader = loader_of(shards, 2)
    items = iter(loader)
    seen = [next(items) for _ in range(steps)]
    state = loader.state_dict()
    items.close()
    again = loader_of(shards, 3)
    again.load_state_dict(state)
    assert keys_of(seen) + keys_of(again) == expected_of(shards)


def test_ranks_and_workers_at_once(shards):
    expected, seen, states = expected_of(shards), {}, []
    for rank in range(2):
        with world.pretend(World(rank, 2)):
            seen[rank], state = stopped(_ranked(shards, rank, 2, 2), 9)
            states.append(state)
    assert states[0] == states[1]
    done = _interleaved([seen[0], seen[1]])
    assert done == expected[: 2 * 9 * BATCH]
    rest = []
    for rank in range(3):
        with world.pretend(World(rank, 3)):
            loader = _ranked(shards, rank, 3, 3)
            loader.load_state_dict(states[0])
            rest.append(keys_of(loader))
    assert len({len(each) for each in rest}) == 1
    assert _interleaved(rest)[: N - len(done)] == expected[len(done) :]


def _ranked(shards, rank, ranks, workers):
    """Worker processes do not know what the test pretends, so they are told by their environment."""

    def init(worker):
        os.environ |= {"RANK": str(rank), "WORLD_SIZE": str(ranks)}
        world._pretended.set(None)

    return loader_of(shards, workers, worker_init_fn=init, multiprocessing_context="fork")


def _interleaved(ranks):
    steps = zip(*([each[i : i + BATCH] for i in range(0, len(each), BATCH)] for each in ranks), strict=True)
    return [key for step in steps for batch in step for key in batch]


@pytest.mark.parametrize("workers", [(2, "processes"), (2, "threads")], ids=str)
def test_filters_behind_loaders_lose_and_repeat_nothing(shards, workers):
    def make(number, kind):
        dataset = wds.WebDataset(shards, order="random").select(_keep).to_tuple("__key__")
        return wds.WebLoader(dataset, batch_size=8, num_workers=number, workers=kind)

    seen, state = stopped(make(*workers), 21)
    assert len(json.dumps(state)) < 4096
    again = make(3, "processes")
    again.load_state_dict(state)
    everything = seen + keys_of(again)
    assert sorted(everything) == [f"{n:05d}" for n in range(N) if n % 7 > 2]


def _keep(sample):
    return int(sample["__key__"]) % 7 > 2


def test_slow_functions_on_threads_are_read_again_not_lost(shards):
    make = lambda: wds.WebDataset(shards, order="random").map(_slow).batched(5, collation_fn=None).map(_slow_batch)
    expected = list(make())
    loader = wds.WebLoader(make(), batch_size=None, num_workers=4, workers="threads")
    items = iter(loader)
    seen = [next(items) for _ in range(40)]
    state = loader.state_dict()
    items.close()
    again = wds.WebLoader(make(), num_workers=2, workers="processes", batch_size=None)
    again.load_state_dict(state)
    assert seen + list(again) == expected


def _slow(sample):
    sum(range(200))
    return sample["__key__"]


def _slow_batch(batch):
    return ",".join(batch)


def repeated(shards, workers, batch_size):
    dataset = wds.WebDataset(shards[:5], order="random").to_tuple("__key__").repeat(2)
    return wds.WebLoader(dataset, batch_size=batch_size, num_workers=workers)


@pytest.mark.parametrize("batch_size", [None, 4])
def test_repeated_passes_in_workers_resume_exactly_on_the_same_number(shards, batch_size):
    items = list(repeated(shards, 2, batch_size))
    for stop in (3, len(items) // 2 + 1, len(items) - 1):
        _, state = stopped(repeated(shards, 2, batch_size), stop)
        again = repeated(shards, 2, batch_size)
        again.load_state_dict(state)
        assert list(again) == items[stop:]


@pytest.mark.parametrize("workers", [0, 1, 3])
def test_repeated_passes_in_workers_resume_on_another_number(shards, workers):
    items = list(repeated(shards, 2, None))
    _, state = stopped(repeated(shards, 2, None), 3)
    again = repeated(shards, workers, None)
    again.load_state_dict(state)
    assert sorted(items[:3] + list(again)) == sorted(items)


def test_torch_s_own_loader_reads_every_sample_once(shards):
    for workers in (0, 3):
        loader = DataLoader(dataset_of(shards), batch_size=10, num_workers=workers)
        assert sorted(keys_of(loader)) == [f"{n:05d}" for n in range(N)]
        assert len(loader) == 101
    batched = DataLoader(dataset_of(shards).batched(BATCH), batch_size=None, num_workers=3)
    assert keys_of(batched) == expected_of(shards) and len(batched) == -(-N // BATCH)


@pytest.mark.filterwarnings("ignore:'set_vital' is deprecated")
def test_torchdata_s_stateful_loader_resumes(shards):
    stateful = pytest.importorskip("torchdata.stateful_dataloader").StatefulDataLoader
    make = lambda: stateful(dataset_of(shards).batched(BATCH), batch_size=None, num_workers=2)
    loader = make()
    items = iter(loader)
    seen = [next(items) for _ in range(11)]
    state = loader.state_dict()
    del items
    again = make()
    again.load_state_dict(state)
    assert keys_of(seen) + keys_of(again) == expected_of(shards)


def test_seek_skip_and_where(shards):
    expected = expected_of(shards)
    for workers in LOADERS[::2]:
        loader = loader_of(shards, *workers)
        assert [place.key for place in loader.samples_of_step(3)] == expected[3 * BATCH : 4 * BATCH]
        loader.seek(10)
        loader.skip(range(12, 60))
        assert keys_of(loader) == expected[10 * BATCH : 12 * BATCH] + expected[60 * BATCH :]
        assert keys_of(loader) == expected_of(shards, epoch=1)
    with pytest.raises(SpecError, match="indexed"):
        wds.WebLoader([1, 2], batch_size=None, workers="threads").seek(1)


def test_another_batch_size_on_other_ranks_goes_on_at_the_same_step(shards):
    """The global batch stays: 8 ranks of 3 become 6 of 4."""

    def steps(ranks, batch_size, first):
        parts = []
        for rank in range(ranks):
            with world.pretend(World(rank=rank, ranks=ranks)):
                loader = loader_of(shards, 2, "threads", batch_size=batch_size)
                loader.set_epoch(2)
                loader.seek(first)
                parts.append(list(loader))
        return [keys_of(step) for step in zip(*parts, strict=True)]

    before, after = steps(8, 3, 0), steps(6, 4, 7)
    expected = expected_of(shards, epoch=2)
    seen = [key for step in before[:7] + after for key in step]
    assert seen[:N] == expected and len(before) == 7 + len(after)


def test_the_epoch_is_that_of_the_dataset_the_user_holds(shards):
    dataset = dataset_of(shards)
    loader = wds.WebLoader(dataset, batch_size=BATCH, num_workers=2)
    dataset.set_epoch(4)
    assert keys_of(loader) == expected_of(shards, epoch=4)
    loader.set_epoch(2)
    assert keys_of(loader) == expected_of(shards, epoch=2)


def test_a_checkpoint_of_another_loader_is_refused(shards):
    _, state = stopped(loader_of(shards, 2), 2)
    with pytest.raises(StateError, match="batch=16.*batch=8"):
        loader_of(shards, 2, batch_size=8).load_state_dict(state)
    with pytest.raises(StateError, match="1003 samples.*samples in 16"):
        loader_of(shards[1:], 2).load_state_dict(state)


TRAINING = """
import json, os, sys
import webdataset as wds

urls, folder, workers, kind, slow = json.loads(sys.argv[1])
dataset = wds.WebDataset(urls, order="random", seed=5).to_tuple("__key__").batched(16, collation_fn=None)
loader = wds.WebLoader(dataset, batch_size=None, num_workers=workers, workers=kind)
checkpoint, log = os.path.join(folder, "checkpoint.json"), os.path.join(folder, "log")
done = 0
if os.path.exists(checkpoint):
    saved = json.load(open(checkpoint))
    loader.load_state_dict(saved["loader"])
    done = saved["steps"]
lines = open(log).read().splitlines()[:done] if done else []
with open(log, "w") as out:
    out.writelines(line + "\\n" for line in lines)
    for batch in loader:
        out.write(",".join(key for key, in batch) + "\\n")
        out.flush()
        done += 1
        with open(checkpoint + ".new", "w") as file:
            json.dump({"loader": loader.state_dict(), "steps": done}, file)
        os.replace(checkpoint + ".new", checkpoint)
        print(done, flush=True)
"""


def test_a_training_loop_that_is_killed_goes_on_from_its_last_checkpoint(shards, tmp_path):
    for workers, kind, stop in ((4, "processes", 7), (3, "processes", 20), (2, "threads", 33), (0, "processes", None)):
        argument = json.dumps([shards, str(tmp_path), workers, kind, 0])
        process = subprocess.Popen(
            [sys.executable, "-c", TRAINING, argument], stdout=subprocess.PIPE, text=True, start_new_session=True
        )
        try:
            for line in process.stdout:
                if stop is not None and int(line) >= stop:
                    break
        finally:
            if stop is not None:
                os.killpg(process.pid, signal.SIGKILL)
            process.stdout.close()
            process.wait()
    assert process.returncode == 0
    lines = (tmp_path / "log").read_text().split()
    assert [key for line in lines for key in line.split(",")] == expected_of(shards)


class _Broken:
    """Fails until the file is gone: for all processes."""

    def __init__(self, file):
        self.file = file

    def __call__(self, sample):
        if self.file.exists():
            raise ValueError("broken")
        return sample


@pytest.mark.parametrize("index", [True, False])
@pytest.mark.parametrize("workers", [(0, "threads"), (2, "threads"), (0, "processes"), (2, "processes")], ids=str)
def test_a_failure_before_the_first_batch_costs_no_epoch(shards, tmp_path, workers, index):
    """Also behind the first epoch, and on another number of workers if there is an index."""

    def make(count):
        dataset = wds.WebDataset(shards, index=index, shardshuffle=True).shuffle(100).map(_Broken(tmp_path / "broken"))
        return wds.WebLoader(dataset.to_tuple("__key__"), batch_size=BATCH, num_workers=count, workers=workers[1])

    straight = make(workers[0])
    epochs = [keys_of(straight) for _ in range(2)]
    loader = make(workers[0])
    for epoch in epochs:
        (tmp_path / "broken").touch()
        with pytest.raises(ValueError, match="broken"):
            next(iter(loader))
        (tmp_path / "broken").unlink()
        again = make(workers[0] + index)
        again.load_state_dict(json.loads(json.dumps(loader.state_dict())))
        assert keys_of(again) == epoch
        loader.load_state_dict(loader.state_dict())
        assert keys_of(loader) == epoch
