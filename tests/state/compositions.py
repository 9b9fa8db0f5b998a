"""Pipelines put together from a grammar: a source, what it is nested in, its epochs, a loader, what comes after that.

Each composition says what it promises (`Promise`), from its description alone.
"""

import functools
import itertools
import random
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

import webdataset as wds
from tests.golden.pipelines import (
    INDEXED_B,
    LABELS,
    STREAMED,
    STREAMED_B,
    columns,
    drop_every_fourth,
    indexed,
    keys,
    not_every_third,
    number_of,
    skip_every_fifth,
    streamed,
)

COUNTS = {"a": (3, 1, 3), "b": (2, 1)}  # samples in each shard: few, as every stop point is resumed from
A = tuple(f"a{number:02d}" for number in range(sum(COUNTS["a"])))
B = tuple(f"b{number:02d}" for number in range(sum(COUNTS["b"])))
G = tuple(f"g{number:02d}" for number in range(4))
KEPT = tuple(key for key in A if int(key[1:]) % 3 != 1 and int(key[1:]) % 4 != 2)
N = 3  # items of an epoch that is cut


def write_arrays(directory):
    """Shards of arrays that hold the numbers of the keys `A`."""
    numbers = iter(range(len(A)))
    (directory / "arrays").mkdir()
    for shard, count in enumerate(COUNTS["a"]):
        with wds.TarWriter(str(directory / f"arrays/a-{shard}.tar")) as sink:
            for number in itertools.islice(numbers, count):
                sink.write({"__key__": A[number], "npy": np.full(2, number)})


@dataclass(frozen=True)
class Promise:
    """What every epoch holds: `epoch` says how the passes over `keys` are cut into epochs."""

    keys: tuple[str, ...]
    shuffled: bool = False
    epoch: str = "all"  # all | continued | first | some
    times: int = 1
    size: int | None = None
    batches: bool = False


@dataclass(frozen=True)
class Composition:
    """How to build a dataset anew, and what it promises."""

    name: str
    build: Callable[[], wds.DataPipeline]
    promise: Promise

    @property
    def has_processes(self):
        return "processes-1" in self.name or "processes-2" in self.name


def odd_numbers_fail(sample):
    if number_of(sample) % 2:
        raise ValueError(sample["__key__"])
    return sample


def letters():
    """A source that only knows how to begin at the beginning."""
    return ({"__key__": key} for key in G)


def stream():
    return streamed()


def stream_shuffled():
    return streamed(shardshuffle=True).shuffle(3)


def stream_given_generator():
    return streamed(shardshuffle=True).shuffle(3, rng=random.Random(1))


def stream_filtered():
    return streamed(shardshuffle=True).select(not_every_third).map(drop_every_fourth).shuffle(3)


def stream_batched():
    return streamed(shardshuffle=True).shuffle(3).batched(3, collation_fn=keys)


def generator():
    return wds.DataPipeline(letters, wds.shuffle(3))


def generator_stage():
    return streamed(shardshuffle=True).shuffle(5).compose(skip_every_fifth)


def plan():
    return indexed()


def plan_random():
    return indexed(order="random")


def plan_filtered():
    return indexed(order="random").select(not_every_third).map(drop_every_fourth)


def plan_handler():
    return indexed(order="random").map(odd_numbers_fail, handler=wds.ignore_and_continue)


def plan_batched():
    return indexed(order="random").batched(3, collation_fn=keys)


def plan_filtered_batched():
    return indexed(order="random").select(not_every_third).map(drop_every_fourth).batched(2, collation_fn=keys)


def plan_buffered():
    return indexed(order="random").shuffle(4, buffer=True)


def arrays():
    return wds.FluidWrapper(wds.ArrayBatches("arrays/a-{0..2}.tar", "npy", 3, seed=3)).map(keys_of_rows)


def keys_of_rows(batch):
    return [f"a{row[0]:02d}" for row in batch]


def join():
    """Both datasets have one order of shards, another one in every epoch."""
    joined = wds.join_columns(streamed(shardshuffle=True), streamed(LABELS, shardshuffle=True))
    return wds.FluidWrapper(joined).shuffle(3)


def join_of_epochs():
    """Datasets that go on from epoch to epoch."""
    images, labels = (streamed(spec, shardshuffle=True).with_epoch(4) for spec in (STREAMED, LABELS))
    return wds.FluidWrapper(wds.join_columns(images, labels, missing="drop"))


def resampled():
    return streamed(resampled=True).shuffle(3)


def part_b(dataset):
    """A second dataset of the same kind as the first."""
    planned = dataset.__name__.startswith("plan")
    return indexed(INDEXED_B, order="random") if planned else streamed(STREAMED_B, shardshuffle=True)


SOURCES = {
    stream: Promise(A),
    stream_shuffled: Promise(A, shuffled=True),
    stream_given_generator: Promise(A, shuffled=True),
    stream_filtered: Promise(KEPT, shuffled=True),
    stream_batched: Promise(A, shuffled=True, batches=True),
    generator: Promise(G, shuffled=True),
    generator_stage: Promise(A, epoch="some", shuffled=True),
    plan: Promise(A),
    plan_random: Promise(A, shuffled=True),
    plan_filtered: Promise(KEPT, shuffled=True),
    plan_handler: Promise(A[::2], shuffled=True),
    plan_batched: Promise(A, shuffled=True, batches=True),
    plan_filtered_batched: Promise(KEPT, shuffled=True, batches=True),
    plan_buffered: Promise(A, shuffled=True),
    arrays: Promise(A, shuffled=True, batches=True),
    join: Promise(A, shuffled=True),
    join_of_epochs: Promise(A, epoch="some"),
    resampled: Promise(A, epoch="some"),
}


# --- nesting -------------------------------------------------------------------------------------------------------


def bare(source):
    return source()


def in_stages(source):
    return wds.DataPipeline(source())


def in_stages_listed(source):
    return wds.DataPipeline(source(), wds.listed(2))


def in_stages_shuffled(source):
    return wds.DataPipeline(source(), wds.shuffle(3))


def in_turns(source):
    return wds.RoundRobin([source(), part_b(source)], longest=True)


def at_random(source):
    return wds.RandomMix([source(), part_b(source)], [2, 1], longest=True, seed=6)


def by_shares(source):
    return wds.mix([(source(), 2), (part_b(source), 1)], exhausted="drop")


def by_shares_repeated(source):
    return wds.mix([(source(), 1), (part_b(source), 2)], exhausted="repeat").with_epoch(8)


def parts_with_epochs(source):
    return wds.RoundRobin([source().with_epoch(3), part_b(source).with_epoch(2)], longest=True)


def stages_with_epochs(source):
    """Epochs that continue inside a part of a mix."""
    parts = [(wds.DataPipeline(source().with_epoch(3)), 2), (part_b(source), 1)]
    return wds.mix(parts, exhausted="drop")


def stages_in_stages(source):
    return wds.DataPipeline(wds.DataPipeline(source(), wds.shuffle(3)), wds.listed(2))


def mix_in_mix(source):
    inner = wds.RandomMix([source(), wds.DataPipeline(letters)], longest=True, seed=6)
    return wds.RoundRobin([inner, wds.DataPipeline(part_b(source))], longest=True)


def mix_in_stages(source):
    return wds.DataPipeline(in_turns(source), wds.shuffle(3))


NESTINGS = {  # the keys that come in addition, and what else changes
    bare: Promise(()),
    in_stages: Promise(()),
    in_stages_listed: Promise((), batches=True),
    in_stages_shuffled: Promise((), shuffled=True),
    in_turns: Promise(B),
    at_random: Promise(B, shuffled=True),
    by_shares: Promise(B),
    by_shares_repeated: Promise(B, epoch="some"),
    parts_with_epochs: Promise(B, epoch="some"),
    stages_with_epochs: Promise(B, epoch="some"),
    stages_in_stages: Promise((), batches=True, shuffled=True),
    mix_in_mix: Promise(B + G, shuffled=True),
    mix_in_stages: Promise(B, shuffled=True),
}


# --- epochs, of a dataset or of a loader ---------------------------------------------------------------------------


def one_pass(dataset):
    return dataset


def with_epoch(dataset):
    return dataset.with_epoch(N)


def with_epoch_restart(dataset):
    return dataset.with_epoch(N, restart=True)


def repeated(dataset):
    return dataset.repeat(2)


def repeated_and_cut(dataset):
    return dataset.repeat(nbatches=9)


CUTS = {  # what an epoch holds then, and how many items
    one_pass: ("all", None),
    with_epoch: ("continued", N),
    with_epoch_restart: ("first", N),
    repeated: ("all", None),
    repeated_and_cut: ("some", 9),
}


# --- loaders -------------------------------------------------------------------------------------------------------


def loader(dataset, workers, number, batch_size=None, **settings):
    collate = {} if batch_size is None else {"collate_fn": keys}
    return wds.WebLoader(dataset, batch_size=batch_size, num_workers=number, workers=workers, **collate, **settings)


def no_loader(dataset):
    return dataset


LOADERS = {
    "": no_loader,
    "processes-0": functools.partial(loader, workers="processes", number=0),
    "processes-1": functools.partial(loader, workers="processes", number=1),
    "processes-2": functools.partial(loader, workers="processes", number=2),
    "processes-2-persistent": functools.partial(loader, workers="processes", number=2, persistent_workers=True),
    "threads-0": functools.partial(loader, workers="threads", number=0),
    "threads-2": functools.partial(loader, workers="threads", number=2),
    "processes-0-batch-2": functools.partial(loader, workers="processes", number=0, batch_size=2),
    "processes-2-batch-2": functools.partial(loader, workers="processes", number=2, batch_size=2),
    "threads-2-batch-2": functools.partial(loader, workers="threads", number=2, batch_size=2),
}


# --- the whole -----------------------------------------------------------------------------------------------------


def compose(source, nesting=bare, cut=one_pass, workers="", loader_cut=one_pass, rebatched=False):
    """The composition of one word of each kind, or None if there is no such thing."""
    if _impossible(source, nesting, cut, workers, loader_cut, rebatched):
        return None
    loader_words = f"loader_{loader_cut.__name__}" if loader_cut is not one_pass else "", "rebatched" * rebatched
    words = [source.__name__, nesting.__name__, cut.__name__, workers, *loader_words]
    build = functools.partial(_build, source, nesting, cut, workers, loader_cut, rebatched)
    name = "+".join(word for word in words if word not in {"", "bare", "one_pass"})
    return Composition(name, build, _promise(source, nesting, cut, workers, loader_cut, rebatched))


def _build(source, nesting, cut, workers, loader_cut, rebatched):
    dataset = cut(nesting(source))
    if rebatched:
        loaded = LOADERS[workers](dataset.compose(wds.batched(2, collation_fn=columns)))
        return loader_cut(loaded.unbatched().shuffle(4).batched(3, collation_fn=list))
    return loader_cut(LOADERS[workers](dataset))


def _impossible(source, nesting, cut, workers, loader_cut, rebatched):
    """Why there is no such composition, or None."""
    nested = NESTINGS[nesting]
    if SOURCES[source].batches and (nested.batches or rebatched or "batch" in workers):
        return "batches of batches"
    if nested.batches and (rebatched or "batch" in workers):
        return "batches of batches"
    if workers.startswith("processes-2") and (source is generator or nesting is mix_in_mix):
        return "every worker would read all of a generator"
    if source is resampled and nesting not in {bare, in_stages}:
        return "a pass without end in a mix"
    if source is resampled and (cut is repeated or loader_cut is repeated):
        return "a pass without end, twice"
    if source is resampled and one_pass in {cut} & {loader_cut}:
        return "an epoch without end"
    if nested.epoch != "all" and cut is not one_pass:
        return "an epoch that was cut already"
    if (loader_cut is not one_pass or rebatched) and not workers:
        return "no loader"
    return None


def _promise(source, nesting, cut, workers, loader_cut, rebatched):
    promise, nested = SOURCES[source], NESTINGS[nesting]
    promise = replace(
        promise,
        keys=promise.keys + nested.keys,
        shuffled=promise.shuffled or nested.shuffled,
        epoch=promise.epoch if nested.epoch == "all" else nested.epoch,
    )
    promise = _cut(promise, cut)
    if workers.startswith("processes-2") and cut is not one_pass:
        promise = replace(promise, epoch="some", size=None)  # each worker cuts its own part
    if rebatched or "batch" in workers:
        promise = replace(promise, size=None)
    promise = _cut(promise, loader_cut)
    return replace(promise, epoch="some") if rebatched and promise.epoch == "first" else promise  # longer than a pass


def _cut(promise, cut):
    """Samples that were cut once hold a part of the keys, however they are cut again."""
    if cut is one_pass:
        return promise
    if cut is repeated:
        size = None if promise.size is None else 2 * promise.size
        return replace(promise, times=2 * promise.times, epoch="all" if promise.epoch == "all" else "some", size=size)
    simple = promise.epoch == "all" and promise.times == 1
    return replace(promise, epoch=CUTS[cut][0] if simple else "some", size=CUTS[cut][1], shuffled=False)
