"""A handler that says stop ends the stream of its stage, also in a run that goes on from a checkpoint.

Every kind of stage that asks a handler, in pipelines that hand on something after the stop: the rest of a batch or of a
buffer. A checkpoint taken then must not go on after the item that failed.
"""

import shutil

import pytest

import webdataset as wds
from tests.golden.pipelines import STREAMED_B, indexed, keys, number_of, streamed
from tests.golden.shards import write_shards
from tests.state import compositions as c
from tests.state.reference import Reference, flat
from tests.state.stopping import Recording, a_few
from webdataset import interop

BAD = 4  # the sample that fails
STOP = wds.ignore_and_stop
LOADERS = ("", "processes-0", "threads-0", "threads-2")
MISSING = ["memory://stopped/0.tar", "memory://stopped/missing.tar", "memory://stopped/2.tar"]


@pytest.fixture(scope="module", autouse=True)
def damaged(state_shards):
    """Shards that are damaged in the middle of the last one, a list with a missing shard, and records that are cut."""
    directory = state_shards / "damaged"
    directory.mkdir()
    write_shards(directory, **c.COUNTS)
    for kind in ("streamed", "indexed"):
        path = directory / kind / "a-2.tar"
        content = bytearray(path.read_bytes())
        content[content.index(b"a05.tokens") + 3] ^= 0xFF  # the header's checksum is wrong then
        path.write_bytes(content)
    first = 0
    for number, url in enumerate(MISSING):
        if number != 1:
            with wds.TarWriter(url) as sink:
                for sample in range(first, first + 2):
                    sink.write({"__key__": f"a{sample:02d}", "txt": "x"})
        first += 2
    for number in range(3):
        rows = [{"__key__": f"a{2 * number + row:02d}", "label": row} for row in range(2)]
        interop.write(rows, str(directory / f"records-{number}.tfrecord"))
    path = directory / "records-1.tfrecord"
    path.write_bytes(path.read_bytes()[:-3])
    yield
    shutil.rmtree(directory)


def fails(sample):
    if number_of(sample) == BAD:
        raise ValueError(sample["__key__"])
    return sample


def a_batch_fails(batch):
    if any(int(key[1:]) == BAD for key in batch):
        raise ValueError(batch)
    return batch


def stream():
    return streamed(shardshuffle=True).map(fails, handler=STOP).batched(3, collation_fn=keys)


def stream_shuffled():
    return streamed(shardshuffle=True).map(fails, handler=STOP).shuffle(3)


def stream_shuffled_before():
    return streamed(shardshuffle=True).shuffle(3).map(fails, handler=STOP).listed(3)


def stream_by_column():
    return streamed(shardshuffle=True).select(fails, handler=STOP).decode().batched(3)


def by_column_undecodable():
    """Batches by column, until a field cannot be decoded."""
    spoiled = streamed(shardshuffle=True).map(spoil).compose(wds.shuffle(2))
    return spoiled.decode(handler=STOP).batched(2)


def spoil(sample):
    return {**sample, "tokens.json": b"["} if number_of(sample) == BAD else sample


def stream_of_batches():
    return streamed(shardshuffle=True).batched(2, collation_fn=keys).map(a_batch_fails, handler=STOP).listed(2)


def stream_stopped_twice():
    return stream_shuffled().map(fails, handler=STOP).batched(2, collation_fn=keys).map(a_batch_fails, handler=STOP)


def generator():
    """Items that cannot be read again."""
    return wds.DataPipeline(letters, wds.map(fails, handler=STOP), wds.listed(3))


def letters():
    return ({"__key__": key} for key in c.A)


def plan():
    return indexed(order="random").map(fails, handler=STOP).batched(3, collation_fn=keys)


def plan_in_order():
    return indexed().map(fails, handler=STOP).batched(3, collation_fn=keys)


def plan_of_batches():
    return indexed(order="random").batched(2, collation_fn=keys).map(a_batch_fails, handler=STOP)


def plan_shuffled():
    return indexed(order="random").map(fails, handler=STOP).shuffle(3, buffer=True)


def plan_replaced():
    dataset = indexed(order="random", failed="replace")
    return dataset.map(c.drop_every_fourth).map(fails, handler=STOP).batched(2, collation_fn=keys)


def read_streamed():
    return streamed("damaged/streamed/a-{0..2}.tar", shardshuffle=True, empty_check=False, handler=STOP).listed(3)


def read_planned():
    return indexed("damaged/indexed/a-{0..2}.tar", order="random", handler=STOP).listed(3)


def read_planned_in_order():
    return indexed(["damaged/indexed/a-2.tar", "damaged/indexed/a-0.tar"], handler=STOP).listed(3)


def read_missing():
    return streamed(MISSING, read_ahead=2, handler=STOP).listed(3)


def read_records():
    dataset = interop.read("damaged/records-{0..2}.tfrecord", mapping="label:cls,__key__:__key__", handler=STOP)
    return dataset.listed(3)


SOURCES = (
    *(stream, stream_shuffled, stream_shuffled_before, stream_by_column, by_column_undecodable, stream_of_batches),
    *(stream_stopped_twice, generator, plan, plan_in_order, plan_of_batches, plan_shuffled, plan_replaced),
    *(read_streamed, read_planned, read_planned_in_order, read_missing, read_records),
)
USUAL = (stream_shuffled, plan, read_planned)
PROMISE = c.Promise(c.A, epoch="some")


def in_stages_buffered(source):
    return wds.DataPipeline(source(), wds.shuffle(3))


def in_turns(source):
    return wds.RoundRobin([source(), streamed(STREAMED_B, shardshuffle=True)], longest=True)


def continued_inside(source):
    """The dataset goes on where the epoch around it stopped."""
    return wds.DataPipeline(source().with_epoch(3), wds.listed(2))


NESTINGS = (c.bare, in_stages_buffered, in_turns, continued_inside)


def composition(source, nesting=c.bare, cut=c.one_pass, workers=""):
    name = "+".join([source.__name__, nesting.__name__, cut.__name__, workers])

    def build():
        return c.LOADERS[workers](cut(nesting(source)))

    return c.Composition(name, build, c.Promise(c.A + c.B, epoch="some"))


def assert_exact(recording):
    assert recording.epochs == recording.reference.epochs, "saving a run changed it"
    assert recording.failures(lambda epoch, taken: True) == []


@pytest.mark.parametrize("workers", LOADERS)
@pytest.mark.parametrize("source", SOURCES, ids=lambda source: source.__name__)
def test_stays_stopped(source, workers):
    """Mutation: let a stage that was stopped run again on resume."""
    recording = Recording(composition(source, workers=workers))
    assert len(flat(recording.epochs[0])) < len(c.A), "nothing was stopped"
    assert_exact(recording)


@pytest.mark.parametrize(
    "cut", [c.with_epoch, pytest.param(c.repeated, marks=pytest.mark.long)], ids=lambda cut: cut.__name__
)
@pytest.mark.parametrize("nesting", NESTINGS, ids=lambda nesting: nesting.__name__)
@pytest.mark.parametrize(
    "source",
    [source if source in USUAL else pytest.param(source, marks=pytest.mark.long) for source in SOURCES],
    ids=lambda source: source.__name__,
)
def test_stays_stopped_inside_others(source, nesting, cut):
    assert_exact(Recording(composition(source, nesting, cut)))


@pytest.mark.parametrize("source", [stream_by_column, plan, read_planned], ids=lambda source: source.__name__)
def test_stays_stopped_in_processes(source):
    assert_exact(Recording(composition(source, workers="processes-2"), only=a_few, stopped=2))


@pytest.mark.parametrize("source", SOURCES, ids=lambda source: source.__name__)
def test_threads_stop_at_the_same_item(source):
    there, here = composition(source, workers="threads-2"), composition(source, workers="processes-0")
    assert Reference(there.build, 3).epochs == Reference(here.build, 3).epochs


@pytest.mark.parametrize("workers", ["processes-0", "threads-2"])
def test_a_stage_after_a_loader_stays_stopped(workers):
    def build():
        dataset = indexed(order="random").batched(2, collation_fn=keys)
        return c.LOADERS[workers](dataset).map(a_batch_fails, handler=STOP).listed(2)

    assert_exact(Recording(c.Composition("", build, PROMISE)))
