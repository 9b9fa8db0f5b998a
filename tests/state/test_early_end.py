"""A pass that ends before its input does: the next one begins where this one was left, however far threads had read.

Every way to end a pass early, with every kind of input whose next pass depends on how far this one came.
"""

import itertools
import threading
from contextlib import closing

import pytest

import webdataset as wds
from tests.golden.pipelines import keys_of, number_of
from tests.loader.sources import threads
from tests.state import compositions as c
from tests.state.reference import Reference, epoch_of, flat
from tests.state.stopping import Recording, a_few
from webdataset.loader import _thread_pool
from webdataset.loader._thread_choice import ThreadChoice

STOP = wds.ignore_and_stop


@pytest.fixture(autouse=True)
def on_threads_at_once(monkeypatch):
    begin = ThreadChoice._reset

    def begin_on_threads(choice):
        begin(choice)
        choice.threads = choice._pool

    monkeypatch.setattr(ThreadChoice, "_reset", begin_on_threads)


def same(sample):
    return sample


def fails(sample):
    if number_of(sample) == 4:
        raise ValueError(sample["__key__"])
    return sample


def first_three(samples):
    """A stage of the user's own."""
    yield from itertools.islice(samples, 3)


def stop(dataset):
    return dataset.map(fails, handler=STOP)


def stop_after_batches(dataset):
    return dataset.map(same).listed(2).map(lambda batch: [fails(sample) for sample in batch], handler=STOP)


def stop_by_column(dataset):
    return dataset.select(fails, handler=STOP).decode().batched(2)


def sliced(dataset):
    return dataset.map(same).slice(3)


def sliced_after_shuffle(dataset):
    return dataset.map(same).compose(wds.shuffle(3)).map(same).slice(2)


def own_stage(dataset):
    return dataset.map(same).compose(first_three)


def restart(dataset):
    return dataset.map(same).with_epoch(3, restart=True)


def repeat_cut(dataset):
    return dataset.map(same).repeat(nbatches=8)


ENDS = (stop, stop_after_batches, stop_by_column, sliced, sliced_after_shuffle, own_stage, restart, repeat_cut)


def around(inner, *stages):
    """A dataset inside another one, which has the methods of a stream."""
    return wds.RoundRobin([wds.DataPipeline(inner, *stages)])


def epochs():
    return around(c.stream_shuffled().with_epoch(5))


def epochs_restart():
    return around(c.stream_shuffled().with_epoch(9, restart=True))


def repeated():
    return around(c.stream_shuffled().repeat(2))


def plan_epochs():
    return around(c.plan_random().with_epoch(5), wds.shuffle(2))


def twice():
    return around(wds.DataPipeline(c.stream().with_epoch(5), wds.shuffle(2)))


def in_turns():
    return wds.RoundRobin([c.stream_shuffled().with_epoch(4), c.part_b(c.stream)], longest=True)


def by_shares():
    return wds.mix([(c.stream_shuffled(), 2), (c.part_b(c.stream), 1)], exhausted="repeat")


def of_loader():
    return around(c.LOADERS["threads-2"](c.stream_shuffled().map(same).with_epoch(5)))


INPUTS = (epochs, epochs_restart, repeated, plan_epochs, twice, in_turns, by_shares, of_loader)
PAIRS = list(itertools.product(ENDS, INPUTS))
USUAL = {(stop, each) for each in INPUTS} | {(each, epochs) for each in ENDS}


def named(value):
    return value.__name__


def composition(end, source, workers):
    name = "+".join([end.__name__, source.__name__, workers])
    promise = c.Promise(c.A + c.B, epoch="some")
    return c.Composition(name, lambda: c.LOADERS[workers](end(source())), promise)


@pytest.mark.parametrize(("end", "source"), PAIRS, ids=named)
def test_threads_do_not_change_what_follows(end, source):
    """Mutation: let threads read ahead."""
    found = [Reference(composition(end, source, workers).build, 4).epochs for workers in ("", "threads-0", "threads-2")]
    assert len(set(map(repr, found))) == 1, found


@pytest.mark.parametrize("workers", ["threads-0", "threads-2"])
@pytest.mark.parametrize(
    ("end", "source"),
    [pair if pair in USUAL else pytest.param(*pair, marks=pytest.mark.long) for pair in PAIRS],
    ids=named,
)
def test_resumes_exactly(end, source, workers):
    recording = Recording(composition(end, source, workers))
    assert recording.epochs == recording.reference.epochs, "saving a run changed it"
    assert recording.failures(lambda epoch, taken: True) == []


def replayed(inner):
    """A mix that ends with its first dataset; what the other one holds is known when it has been read again."""
    other = wds.DataPipeline(wds.RoundRobin([inner().with_epoch(30)]), c.skip_every_fifth)
    return wds.RoundRobin([wds.DataPipeline(c.letters), other])


@pytest.mark.parametrize("inner", [c.stream_shuffled, c.resampled], ids=named)
def test_resumes_exactly_where_an_epoch_ends_before_what_is_read_again(inner):
    """Mutation: let the next epoch begin as a pass says of which nothing has been read again."""
    promise = c.Promise(c.A + c.G, epoch="some")
    recording = Recording(c.Composition("replayed", lambda: replayed(inner), promise))
    assert recording.epochs == recording.reference.epochs, "saving a run changed it"
    assert recording.failures(lambda epoch, taken: True) == []


@pytest.mark.parametrize("source", [epochs, in_turns], ids=named)
@pytest.mark.parametrize("end", [stop, sliced], ids=named)
def test_resumes_exactly_with_worker_processes(end, source):
    recording = Recording(composition(end, source, "processes-2"), only=a_few, stopped=2)
    assert recording.epochs == recording.reference.epochs, "saving a run changed it"
    assert recording.failures(lambda epoch, taken: True) == []


def cached():
    """It plays back the first pass that was complete."""
    return c.stream_shuffled().compose(wds.Cached())


def iterator():
    return around(iter([{"__key__": f"a{number:02d}"} for number in range(40)]))


@pytest.mark.parametrize("source", [cached, iterator], ids=named)
@pytest.mark.parametrize("end", [stop, sliced, own_stage, restart], ids=named)
def test_what_outlives_its_pass_is_not_read_ahead(end, source):
    found = [Reference(composition(end, source, workers).build, 4).epochs for workers in ("threads-0", "threads-2")]
    assert found[0] == found[1]


@pytest.mark.parametrize("handler", [wds.reraise_exception, wds.ignore_and_continue, wds.warn_and_continue], ids=named)
def test_threads_are_used_where_a_pass_is_read_to_its_end(handler):
    loader = threads(epochs().map(same, handler=handler).with_epoch(4), 2)
    assert len(flat(Reference(lambda: loader, 1).epochs[0])) == 4
    assert "on 2 threads" in loader.stats().choice
    assert "in place: a pass may end early" in _choice(threads(stop(epochs()), 2))


@pytest.mark.parametrize("workers", ["", "threads-2", "processes-0", "processes-2"])
@pytest.mark.parametrize("source", [c.stream_shuffled, c.stream_given_generator, c.plan_random], ids=named)
def test_an_epoch_that_was_left_does_not_change_the_next_one(source, workers):
    """Mutation: let a generator that was given go on from pass to pass."""
    whole = c.compose(source, workers=workers)
    expected = Reference(whole.build, 3).epochs
    for taken in (1, 4):
        with closing(whole.build()) as dataset, closing(whole.build()) as resumed:
            items = iter(dataset)
            assert [keys_of(next(items)) for _ in range(taken)] == expected[0][:taken]
            items.close()
            resumed.load_state_dict(dataset.state_dict())
            assert [epoch_of(dataset), epoch_of(dataset)] == expected[1:]
            assert [epoch_of(resumed), epoch_of(resumed)] == [expected[0][taken:], expected[1]]


def test_workers_that_live_on_do_not_go_on_from_what_they_had_read_ahead():
    """Mutation: let a dataset inside go on, in a worker, from an epoch that the loop had left."""
    found = []
    for workers in ("processes-2", "processes-2-persistent"):
        with closing(c.LOADERS[workers](epochs())) as loader:
            found.append([[keys_of(item) for item in itertools.islice(iter(loader), count)] for count in (1, 99, 99)])
    assert found[0] == found[1]


def _choice(loader):
    list(loader)
    return loader.stats().choice


class Limit:
    """A handler that forgives some failures."""

    def __init__(self, failures):
        self.seen, self.failures = [], failures

    def __call__(self, error):
        self.seen.append(str(error))
        return len(self.seen) < self.failures


@pytest.mark.parametrize("failures", [2, 3])
def test_threads_ask_a_handler_in_the_order_of_the_items(monkeypatch, failures):
    """Mutation: let each thread ask when its function fails."""
    monkeypatch.setattr(_thread_pool, "_LARGEST_CHUNK", 1)
    later_failed = threading.Event()

    def function(number):
        if number == 20:
            assert later_failed.wait(60)
            raise ValueError(number)
        if number == 21:
            later_failed.set()
        if number >= 21:
            raise ValueError(number)
        return number

    handler = Limit(failures)
    loader = threads(wds.DataPipeline(range(60), wds.map(function, handler=handler)), 2)
    assert list(loader) == list(range(20))
    assert handler.seen == [str(number) for number in range(20, 20 + failures)]
