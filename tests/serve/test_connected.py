"""A connected dataset yields what the pipeline yields locally, and has its state."""

import json
import threading

import pytest

import webdataset as wds
from tests.serve.pipelines import batches, picture, plain, samples, stream
from webdataset import world
from webdataset.serve import Worker


def connect(*workers, **options):
    return wds.connect([worker.address for worker in workers], **{"patience": 2, "timeout": 20, **options})


PIPELINES = {
    "global shuffle": batches,
    "order of storage": lambda shards: batches(shards, order=None, shardshuffle=False),
    "windows": lambda shards: batches(shards, order=2),
    "quasi-random": lambda shards: batches(shards, order="quasi-random"),
    "padded": lambda shards: batches(shards, uneven="pad"),
    "last step dropped": lambda shards: batches(shards, uneven="drop"),
    "full batches": lambda shards: wds.WebDataset(shards, order="random").map(picture).batched(4, partial=False),
    "samples": samples,
    "functions of batches": lambda shards: batches(shards).map(plain),
}


@pytest.mark.parametrize("name", PIPELINES)
def test_it_yields_what_the_pipeline_yields(few, name):
    make = PIPELINES[name]
    local = make(few)
    with Worker(make(few), threads=2) as first, Worker(make(few)) as second:
        for ranks in (1, 3):
            for rank in range(ranks):
                with world.pretend(world.World(rank, ranks)):
                    remote = connect(first, second)
                    for epoch in (0, 2):
                        local.set_epoch(epoch)
                        remote.set_epoch(epoch)
                        expected = stream(local)
                        assert stream(remote) == expected
                        assert len(remote) == len(expected)


@pytest.mark.parametrize("name", ["global shuffle", "order of storage", "samples", "functions of batches"])
def test_a_checkpoint_of_any_step_fits_both(few, name):
    make = PIPELINES[name]
    with Worker(make(few)) as worker:
        local, remote = make(few), connect(worker)
        here, there = iter(local), iter(remote)
        expected = stream(make(few))
        for step in range(1, len(expected)):
            next(here), next(there)
            if step % 3 and step != len(expected) - 1:
                continue
            saved = json.loads(json.dumps(remote.state_dict()))
            assert saved == local.state_dict()
            for other in (make(few), connect(worker)):
                other.load_state_dict(saved)
                assert stream(other) == expected[step:]
        here.close(), there.close()


def test_a_checkpoint_resumes_on_other_numbers_of_ranks(few):
    with Worker(batches(few, uneven="pad")) as worker:
        first = connect(worker)
        items = iter(first)
        done = [plain(next(items)) for _ in range(3)]
        saved = first.state_dict()
        items.close()

        def rest(make):
            parts = []
            for rank in range(2):
                with world.pretend(world.World(rank, 2)):
                    dataset = make()
                    dataset.load_state_dict(saved)
                    parts.append(stream(dataset))
            return parts

        assert rest(lambda: connect(worker)) == rest(lambda: batches(few, uneven="pad"))
        assert done == stream(batches(few, uneven="pad"))[:3]


def test_samples_are_batched_here_as_there(few):
    def make(dataset):
        return dataset.map(lambda sample: sample["key"]).batched(4, collation_fn=None)

    with Worker(samples(few)) as worker:
        for rank in range(2):
            with world.pretend(world.World(rank, 2)):
                local, remote = make(samples(few)), make(connect(worker))
                here, there = iter(local), iter(remote)
                assert [next(here), next(here)] == [next(there), next(there)]
                assert local.state_dict() == remote.state_dict()
                assert list(here) == list(there)


def test_stages_that_hold_items_resume_by_counting(few):
    def make(dataset):
        return dataset.unbatched().shuffle(10).batched(3)

    with Worker(batches(few)) as worker:
        whole = stream(make(connect(worker)))
        assert sorted(key for batch in whole for key in batch["key"]) == [f"{n:05d}" for n in range(31)]
        dataset = make(connect(worker))
        items = iter(dataset)
        seen = [plain(next(items)) for _ in range(4)]
        again = make(connect(worker))
        again.load_state_dict(dataset.state_dict())
        assert seen + stream(again) == whole
        items.close()


@pytest.mark.parametrize(
    "options",
    [pytest.param({"num_workers": 2}, marks=pytest.mark.long), {"workers": "threads", "num_workers": 2}],
    ids=str,
)
def test_loaders_read_it(few, options):
    with Worker(batches(few)) as worker:
        loader = wds.WebLoader(connect(worker), batch_size=None, **options)
        assert stream(loader) == stream(batches(few))


def test_two_jobs_share_every_decode(few):
    calls, lock = [], threading.Lock()

    def counted(sample):
        with lock:
            calls.append(sample["__key__"])
        return picture(sample)

    dataset = wds.WebDataset(few, order="random").map(counted).batched(4)
    with Worker(dataset, threads=2) as worker:
        both = zip(connect(worker), connect(worker), strict=True)
        assert all(plain(one) == plain(two) for one, two in both)
        assert worker.stats()["shared"] > 0
    assert len(calls) == 31


def test_a_trainer_that_does_not_read_holds_the_workers_back(shards):
    with Worker(batches(shards, 64), threads=2) as worker:
        items = iter(connect(worker))
        next(items)
        for _ in range(20):
            next(iter(connect(worker)))  # the worker is alive and has time
        # One was taken. Twice as many as threads are in flight at most: of 16 steps of the epoch 5 were made.
        assert worker.stats()["made"] <= 5
        items.close()


def test_repeat_and_epochs(few):
    with Worker(batches(few)) as worker:
        assert stream(connect(worker).repeat(2)) == stream(batches(few).repeat(2))
        here, there = batches(few).with_epoch(5), connect(worker).with_epoch(5)
        for _ in range(3):
            assert stream(there) == stream(here)
        assert here.state_dict() == there.state_dict()


def test_options_of_the_wire(few):
    exact = stream(batches(few))
    with Worker(batches(few)) as worker:
        assert stream(connect(worker, zstd=3)) == exact
        for half, full in zip(connect(worker, float16=True), batches(few), strict=True):
            assert half["image"].dtype == full["image"].dtype
            assert (half["image"] == full["image"].astype("f2").astype("f4")).all()


def test_arrays_that_came_can_be_written_to(few):
    with Worker(batches(few, 16)) as worker:
        for item in connect(worker):
            item["image"] += 1
