"""The pipelines whose checkpoints are stored in `states/`.

A checkpoint contains shard names and function names. So the shards have relative names (the caller changes into the
directory that holds them), their content is fixed, and every function is defined at module level.
"""

import webdataset as wds
from tests.golden.shards import LENGTHS
from webdataset.extradatasets import repeatedly

STREAMED = "streamed/a-{0..2}.tar"  # 4 + 3 + 4 samples, without index
STREAMED_B = "streamed/b-{0..1}.tar"  # 5 + 2 samples
LABELS = "streamed/labels-{0..2}.tar"  # the keys of STREAMED, another field
INDEXED = "indexed/a-{0..2}.tar"  # the same samples, with an index for each shard
INDEXED_B = "indexed/b-{0..1}.tar"


def keys_of(item):
    """The keys in an item, as JSON: of a sample, a batch, a packed row, a list of any of these."""
    if isinstance(item, dict):
        keys = item.get("__keys__", item.get("__key__"))
        return keys if isinstance(keys, str) else [str(key) for key in keys]
    if isinstance(item, tuple):
        return keys_of(item[0])
    if isinstance(item, bytes):
        return item.decode()
    return item if isinstance(item, str) else [keys_of(each) for each in item]


# --- functions of the pipelines ------------------------------------------------------------------------------------


def number_of(sample):
    return int(sample["__key__"][1:])


def not_every_third(sample):
    return number_of(sample) % 3 != 1


def drop_every_fourth(sample):
    return None if number_of(sample) % 4 == 2 else sample


def extra_fields(key):
    return {"length": LENGTHS[int(key[1:])]}


def length_of(sample):
    return sample["length"]


def keys(samples):
    return [sample["__key__"] for sample in samples]


class Keys:
    """The same with a name of its own: a version 1 state of a loader contains the repr of its `collate_fn`."""

    def __call__(self, samples):
        return keys(samples)

    def __repr__(self):
        return "Keys()"


def columns(samples):
    """A batch whose first column is the keys."""
    return [sample["__key__"] for sample in samples], [number_of(sample) for sample in samples]


def letters():
    """A source that only knows how to begin at the beginning."""
    for number in range(9):
        yield {"__key__": f"g{number:02d}"}


def skip_every_fifth(samples):
    """A stage of the user's own, which the library can only replay."""
    for number, sample in enumerate(samples):
        if number % 5 != 4:
            yield sample


def streamed(spec=STREAMED, **options):
    return wds.WebDataset(spec, seed=3, **options)


def indexed(spec=INDEXED, **options):
    return wds.WebDataset(spec, seed=3, **options)


# --- the pipelines -------------------------------------------------------------------------------------------------

PIPELINES = {}
LIMITS = {}  # of pipelines without end: how many items are compared


def pipeline(build):
    PIPELINES[build.__name__] = build
    return build


@pipeline
def stream_in_order():
    return streamed()


@pipeline
def stream_shards_and_buffer_shuffled():
    return streamed(shardshuffle=True).shuffle(5)


@pipeline
def stream_detshuffle_batched():
    return streamed().detshuffle(bufsize=6, initial=3).batched(3, collation_fn=keys)


@pipeline
def stream_bucketed():
    return streamed().associate(extra_fields).shuffle(3).bucketed(2, [3, 5], length=length_of, collation_fn=keys)


@pipeline
def stream_packed():
    return streamed().decode().packed(8, "tokens.json", rows=3)


@pipeline
def stream_batched_unbatched_listed():
    return streamed().batched(4, collation_fn=columns).unbatched().shuffle(4).listed(3)


@pipeline
def stream_sliced():
    return streamed(shardshuffle=True).shuffle(4).slice(2, 9)


@pipeline
def stream_filtered():
    return streamed().select(not_every_third).shuffle(3).map(drop_every_fourth).associate(extra_fields).listed(2)


@pipeline
def stream_rsampled():
    return streamed().rsample(0.7)


@pipeline
def stream_with_epoch():
    return streamed(shardshuffle=True).shuffle(3).with_epoch(4)


@pipeline
def stream_with_epoch_restart():
    return streamed(shardshuffle=True).shuffle(3).with_epoch(5, restart=True)


@pipeline
def stream_repeat_twice():
    return streamed(shardshuffle=True).shuffle(3).repeat(2)


@pipeline
def stream_repeat_cut():
    return streamed(shardshuffle=True).repeat(nbatches=15)


@pipeline
def stream_repeatedly():
    return repeatedly(streamed(shardshuffle=True), nepochs=2)


@pipeline
def stream_mcached():
    return streamed(shardshuffle=True).mcached().shuffle(3)


@pipeline
def stream_resampled_with_epoch():
    return streamed(resampled=True).shuffle(3).with_epoch(6)


@pipeline
def stream_resampled_endless():
    return streamed(resampled=True).shuffle(3)


LIMITS["stream_resampled_endless"] = 20


@pipeline
def stages_resampled_shards():
    source = wds.ResampledShards(STREAMED, seed=5, deterministic=True)
    return wds.DataPipeline(source, wds.tarfile_to_samples(), wds.shuffle(3), wds.listed(2)).with_epoch(4)


@pipeline
def stages_classic():
    return wds.DataPipeline(
        wds.SimpleShardList(STREAMED, seed=4),
        wds.split_by_worker,
        wds.tarfile_to_samples(),
        wds.shuffle(4),
        wds.batched(2, collation_fn=keys),
    )


@pipeline
def stages_joined_columns():
    return wds.DataPipeline(wds.join_columns(streamed(), streamed(LABELS)), wds.shuffle(3))


@pipeline
def stages_generator_source():
    return wds.DataPipeline(letters, wds.shuffle(3), wds.listed(2))


@pipeline
def stages_generator_stage():
    return streamed(shardshuffle=True).compose(skip_every_fifth).shuffle(3)


@pipeline
def plan_in_order():
    return indexed()


@pipeline
def plan_global_shuffle():
    return indexed().shuffle(100).batched(3, collation_fn=keys)


@pipeline
def plan_shards_shuffled():
    return indexed(shardshuffle=True)


@pipeline
def plan_quasi_random():
    return indexed(order="quasi-random").batched(2, collation_fn=keys)


@pipeline
def plan_filtered():
    return indexed().shuffle(100).select(not_every_third).map(drop_every_fourth).batched(2, collation_fn=keys)


@pipeline
def plan_buffered():
    return indexed(shardshuffle=True).batched(3, collation_fn=columns).unbatched().shuffle(4, buffer=True)


@pipeline
def plan_packed():
    return indexed().shuffle(100).decode().packed(8, "tokens.json", rows=3)


@pipeline
def plan_with_epoch():
    return indexed().shuffle(100).batched(2, collation_fn=keys).with_epoch(4)


@pipeline
def plan_repeat_twice():
    return indexed(order="random").repeat(2)


@pipeline
def nested_in_stages():
    return wds.DataPipeline(streamed(shardshuffle=True).shuffle(3), wds.listed(2))


@pipeline
def mix_in_turns():
    return wds.RoundRobin([streamed(shardshuffle=True), indexed(INDEXED_B, order="random")], longest=True)


@pipeline
def mix_at_random():
    return wds.RandomMix([streamed().shuffle(3), streamed(STREAMED_B)], [2, 1], longest=True, seed=6)


@pipeline
def mix_by_shares():
    return wds.mix([(indexed(order="random"), 2), (indexed(INDEXED_B, order="random"), 1)], exhausted="drop").shuffle(4)


@pipeline
def mix_by_schedule():
    sources = [(streamed(shardshuffle=True), 1), (streamed(STREAMED_B), 1)]
    return wds.mix(sources, exhausted="repeat", per_batch=2, schedule=[(4, [1, 3])]).with_epoch(9)


@pipeline
def mix_of_mixes():
    inner = wds.RandomMix([streamed(shardshuffle=True), streamed(STREAMED_B)], longest=True, seed=6)
    return wds.RoundRobin([inner, indexed(INDEXED_B, order="random")], longest=True).shuffle(3).listed(2)


@pipeline
def mix_of_epochs():
    parts = [streamed(shardshuffle=True).with_epoch(4), streamed(STREAMED_B).with_epoch(3)]
    return wds.RoundRobin(parts, longest=True)


@pipeline
def loader_processes_0_batches_inside():
    return wds.WebLoader(streamed(shardshuffle=True).shuffle(3).batched(2, collation_fn=keys), batch_size=None)


@pipeline
def loader_processes_1_batches_inside():
    dataset = streamed(shardshuffle=True).shuffle(3).batched(2, collation_fn=keys)
    return wds.WebLoader(dataset, batch_size=None, num_workers=1)


@pipeline
def loader_processes_2_batches_inside():
    dataset = streamed(shardshuffle=True).shuffle(3).batched(2, collation_fn=keys)
    return wds.WebLoader(dataset, batch_size=None, num_workers=2)


@pipeline
def loader_processes_2_batches_outside():
    return wds.WebLoader(streamed(shardshuffle=True).shuffle(3), batch_size=3, num_workers=2, collate_fn=Keys())


@pipeline
def loader_processes_2_planned():
    return wds.WebLoader(indexed(order="random"), batch_size=2, num_workers=2, collate_fn=keys)


@pipeline
def loader_processes_0_planned_filtered():
    return wds.WebLoader(indexed(order="random").select(not_every_third), batch_size=2, collate_fn=keys)


@pipeline
def loader_processes_2_resampled():
    dataset = streamed(resampled=True).shuffle(3).listed(2)
    return wds.WebLoader(dataset, batch_size=None, num_workers=2).with_epoch(5)


@pipeline
def loader_threads_0():
    dataset = streamed(shardshuffle=True).shuffle(3).map(drop_every_fourth)
    return wds.WebLoader(dataset, batch_size=2, workers="threads", collate_fn=Keys())


@pipeline
def loader_threads_2():
    dataset = streamed(shardshuffle=True).shuffle(3).map(drop_every_fourth)
    return wds.WebLoader(dataset, batch_size=2, num_workers=2, workers="threads", collate_fn=Keys())


@pipeline
def loader_threads_2_planned():
    return wds.WebLoader(
        indexed(order="random").associate(extra_fields),
        batch_size=2,
        num_workers=2,
        workers="threads",
        collate_fn=keys,
    )


@pipeline
def loader_threads_2_mixed():
    parts = [streamed(shardshuffle=True), streamed(STREAMED_B)]
    dataset = wds.RoundRobin(parts, longest=True).associate(extra_fields)
    return wds.WebLoader(dataset, batch_size=None, num_workers=2, workers="threads")


@pipeline
def loader_threads_2_with_epoch():
    dataset = streamed(shardshuffle=True).shuffle(3).associate(extra_fields)
    return wds.WebLoader(dataset, batch_size=None, num_workers=2, workers="threads").with_epoch(4)


@pipeline
def loader_rebatched():
    loader = wds.WebLoader(streamed(shardshuffle=True).batched(2, collation_fn=columns), batch_size=None)
    return loader.unbatched().shuffle(4).batched(3, collation_fn=list)
