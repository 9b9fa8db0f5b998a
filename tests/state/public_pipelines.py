"""A pipeline for every public source, stage and loader, by its public name.

Run as a program, it saves all of them (`save FILE`) or resumes what another process saved (`resume FILE`).
"""

import functools
import json
import os
import sys
import traceback
from pathlib import Path

import webdataset as wds
from tests.golden.pipelines import (
    INDEXED,
    LABELS,
    STREAMED,
    STREAMED_B,
    columns,
    extra_fields,
    indexed,
    keys,
    keys_of,
    number_of,
    skip_every_fifth,
    streamed,
)
from tests.state.compositions import arrays, letters, plan_random, stream_shuffled
from tests.state.reference import epoch_of

TAKEN = 2  # items before the checkpoint


class Drop:
    """A callable object without a `__repr__` of its own."""

    def __init__(self, number):
        self.number = number

    def __call__(self, sample):
        return None if number_of(sample) == self.number else sample

    def method(self, sample):
        return self(sample)


def drop(sample, number):
    return None if number_of(sample) == number else sample


def closure(number):
    def inner(sample):
        return drop(sample, number)

    return inner


def half_of_them(sample):
    return sample if wds.rng(sample).random() < 0.5 else None


def double(value):
    return value


def read_text(stream):
    return stream.read()


def key_and_text(dataset):
    return dataset.to_tuple("__key__", "txt")


def expand(shards):
    """Samples of shards with the public functions that users put together themselves."""
    return wds.tarfile_samples(shards)


@wds.pipelinefilter
def every_second(samples, first):
    for number, sample in enumerate(samples):
        if number % 2 == first:
            yield sample


def sequence():
    return [{"__key__": f"s{number}"} for number in range(6)]


def write_cbors():
    import cbor2

    path = Path("samples.cbors")
    with path.open("wb") as stream:
        for sample in sequence():
            cbor2.dump(sample, stream)
    return str(path)


def cache_directory():
    Path("cache").mkdir(exist_ok=True)
    return "cache"


def over_http(**options):
    """The shards, through the server that the test has started."""
    names = [f"{os.environ['STATE_SERVER']}/{name}" for name in wds.shardlists.expand_urls(STREAMED)]
    return wds.WebDataset(names, **options)


def stages(*later):
    return wds.DataPipeline(wds.SimpleShardList(STREAMED, seed=4), wds.tarfile_to_samples(), *later)


def after_decoding():
    return stream_shuffled().decode()


# Public name → how to build a pipeline with it.
BY_NAME = {
    # sources
    "WebDataset": stream_shuffled,
    "DataPipeline": lambda: wds.DataPipeline(sequence(), wds.shuffle(3)),
    "FluidWrapper": lambda: wds.FluidWrapper(stream_shuffled()).listed(2),
    "SimpleShardList": stages,
    "ResampledShards": lambda: wds.DataPipeline(
        wds.ResampledShards(STREAMED, seed=5, deterministic=True), wds.tarfile_to_samples()
    ).with_epoch(5),
    "ResampledShardList": lambda: wds.DataPipeline(
        wds.ResampledShardList(STREAMED, seed=5, deterministic=True), wds.tarfile_to_samples()
    ).with_epoch(5),
    "DirectoryShardList": lambda: wds.DataPipeline(
        wds.DirectoryShardList("streamed/", pattern="a-*.tar"), wds.tarfile_to_samples()
    ),
    "MultiShardSample": lambda: wds.DataPipeline(
        wds.MultiShardSample({"datasets": [{"shards": [STREAMED]}]}), wds.tarfile_to_samples()
    ),
    "shardspec": lambda: wds.DataPipeline(wds.shardspec(STREAMED), wds.tarfile_to_samples(), wds.shuffle(3)),
    "PytorchShardList": lambda: wds.DataPipeline(wds.PytorchShardList(STREAMED), wds.tarfile_to_samples()),
    "ShardList": lambda: wds.DataPipeline(wds.ShardList(STREAMED), wds.tarfile_to_samples()),
    "IndexedDataset": lambda: wds.DataPipeline(wds.IndexedDataset(INDEXED), wds.shuffle(3)),
    "ArrayBatches": arrays,
    "MockDataset": lambda: wds.DataPipeline(wds.MockDataset({"__key__": "same"}, 5), wds.listed(2)),
    "Dataset": lambda: wds.Dataset(STREAMED).shuffle(3),
    "join_columns": lambda: wds.DataPipeline(wds.join_columns(streamed(), streamed(LABELS)), wds.shuffle(3)),
    "RoundRobin": lambda: wds.RoundRobin([stream_shuffled(), streamed(STREAMED_B)], longest=True),
    "RandomMix": lambda: wds.RandomMix([stream_shuffled(), streamed(STREAMED_B)], longest=True),
    "mix": lambda: wds.mix([(stream_shuffled(), 2), (plan_random(), 1)], exhausted="drop"),
    "SampleEqually": lambda: wds.SampleEqually([stream_shuffled(), plan_random()]),
    "with_epoch": lambda: wds.with_epoch(stream_shuffled(), 4),
    "with_length": lambda: wds.with_length(stream_shuffled(), 7),
    "FakeLength": lambda: wds.FakeLength(stream_shuffled(), 7),
    "ResizedDataset": lambda: wds.ResizedDataset(stream_shuffled(), 4),
    "ChoppedDataset": lambda: wds.ChoppedDataset(stream_shuffled(), 4),
    "Composable": lambda: wds.Composable().source_(stream_shuffled()),
    "Processor": lambda: wds.Processor(wds.shuffle, 3)(stream_shuffled()),
    # shards to samples
    "resampled": lambda: wds.DataPipeline(
        wds.SimpleShardList(STREAMED), wds.resampled(5), wds.tarfile_to_samples()
    ).with_epoch(4),
    "non_empty": lambda: stages(wds.non_empty),
    "split_by_node": lambda: wds.DataPipeline(
        wds.SimpleShardList(STREAMED), wds.split_by_node, wds.tarfile_to_samples()
    ),
    "split_by_worker": lambda: wds.DataPipeline(
        wds.SimpleShardList(STREAMED), wds.split_by_worker, wds.tarfile_to_samples()
    ),
    "single_node_only": lambda: wds.DataPipeline(
        wds.SimpleShardList(STREAMED), wds.single_node_only, wds.tarfile_to_samples()
    ),
    "tarfile_to_samples": lambda: stages(wds.shuffle(3)),
    "tarfile_samples": lambda: wds.DataPipeline(wds.SimpleShardList(STREAMED), expand),
    "url_opener": lambda: wds.DataPipeline(
        wds.SimpleShardList(STREAMED), wds.url_opener, wds.tar_file_expander, wds.group_by_keys
    ),
    "cached_tarfile_to_samples": lambda: wds.DataPipeline(
        wds.SimpleShardList(STREAMED), wds.cached_tarfile_to_samples(cache_dir=cache_directory())
    ),
    "maybe_cached_tarfile_to_samples": lambda: wds.DataPipeline(
        wds.SimpleShardList(STREAMED), wds.maybe_cached_tarfile_to_samples(cache_dir=cache_directory())
    ),
    "cbors_to_samples": lambda: wds.DataPipeline(wds.SimpleShardList([write_cbors()]), wds.cbors_to_samples()),
    "cbors2_to_samples": lambda: wds.DataPipeline(wds.SimpleShardList([write_cbors()]), wds.cbors2_to_samples()),
    # stages
    "Cached": lambda: wds.DataPipeline(stream_shuffled(), wds.Cached()),
    "DBCache": lambda: wds.DataPipeline(stream_shuffled(), wds.DBCache("samples.db", 6)),
    "LMDBCached": lambda: wds.DataPipeline(stream_shuffled(), wds.LMDBCached("samples.lmdb")),
    "associate": lambda: stages(wds.associate(extra_fields)),
    "batched": lambda: stages(wds.shuffle(3), wds.batched(2, collation_fn=keys)),
    "default_collation_fn": lambda: stages(wds.batched(2, collation_fn=wds.default_collation_fn)),
    "padded_collation": lambda: streamed().decode().batched(2, collation_fn=wds.padded_collation()),
    "bucketed": lambda: stages(wds.shuffle(3), wds.bucketed(2, [3, 5], length=number_of, collation_fn=keys)),
    "decode": lambda: stages(wds.decode(), wds.shuffle(3)),
    "Decoder": lambda: stages(wds.map(wds.Decoder([wds.handle_extension("txt", double)])), wds.shuffle(3)),
    "detshuffle": lambda: stages(wds.detshuffle(4, 2)),
    "extract_keys": lambda: stages(wds.shuffle(3), wds.extract_keys("*.txt"), wds.listed(2)),
    "info": lambda: stages(wds.info(n=0), wds.shuffle(3)),
    "listed": lambda: stages(wds.shuffle(3), wds.listed(2)),
    "log_keys": lambda: stages(wds.log_keys("keys.log"), wds.shuffle(3)),
    "map": lambda: stages(wds.map(functools.partial(drop, number=2)), wds.shuffle(3)),
    "map_dict": lambda: stages(wds.map_dict(txt=double), wds.shuffle(3)),
    "map_tuple": lambda: stages(wds.to_tuple("__key__", "txt"), wds.map_tuple(double, double), wds.shuffle(3)),
    "transform_with": lambda: stages(
        wds.to_tuple("__key__", "txt"),
        wds.map(functools.partial(wds.transform_with, transformers=[double])),
        wds.shuffle(3),
    ),
    "packed": lambda: after_decoding().packed(8, "tokens.json", rows=2),
    "pipelinefilter": lambda: stages(every_second(1)),
    "rename": lambda: stages(wds.rename(text="txt"), wds.shuffle(3)),
    "rename_keys": lambda: stages(wds.rename_keys(text="txt", keep_unselected=True), wds.shuffle(3)),
    "rng": lambda: streamed().map(half_of_them).repeat(3),
    "rsample": lambda: stages(wds.rsample(0.7)),
    "select": lambda: stages(wds.select(Drop(3).method), wds.shuffle(3)),
    "shuffle": lambda: stages(wds.shuffle(4)),
    "slice": lambda: stages(wds.shuffle(3), wds.slice(1, 6)),
    "to_tuple": lambda: stages(wds.shuffle(3), wds.to_tuple("__key__", "txt")),
    "unbatched": lambda: stages(wds.batched(3, collation_fn=columns), wds.unbatched(), wds.shuffle(3)),
    "unlisted": lambda: stages(wds.listed(3), wds.unlisted(), wds.shuffle(3)),
    "xdecode": lambda: stages(wds.xdecode(("*.txt", read_text), must_decode=False), wds.shuffle(3)),
    # loaders
    "WebLoader": lambda: wds.WebLoader(stream_shuffled(), batch_size=2, collate_fn=keys),
}


# What the names above do not show: functions of every kind, and loaders of every kind.
MORE = {
    "lambda": lambda: streamed().map(lambda sample: drop(sample, 2)).shuffle(3),
    "closure": lambda: streamed().map(closure(2)).shuffle(3),
    "callable object": lambda: streamed().map(Drop(2)).shuffle(3),
    "bound method": lambda: streamed().map(Drop(2).method).shuffle(3),
    "builtin": lambda: wds.DataPipeline(["b", "a", "c"], wds.map(str.lower), sorted),
    "generator source": lambda: wds.DataPipeline(letters, wds.shuffle(3)),
    "generator stage": lambda: streamed().compose(skip_every_fifth, wds.shuffle(3)),
    "handler": lambda: streamed(handler=lambda error: True).shuffle(3),
    "chosen members": lambda: streamed(select_files=lambda name: name.endswith("txt")).shuffle(3),
    "plan": plan_random,
    "plan of chosen fields": lambda: indexed(fields=["txt"], order="random").batched(2, collation_fn=keys),
    "loader with default collation": lambda: wds.WebLoader(key_and_text(stream_shuffled()), batch_size=2),
    "loader of lambdas": lambda: wds.WebLoader(stream_shuffled(), batch_size=2, collate_fn=lambda batch: keys(batch)),
    "loader threads": lambda: wds.WebLoader(
        stream_shuffled(), batch_size=2, num_workers=2, workers="threads", collate_fn=keys
    ),
    "loader planned": lambda: wds.WebLoader(plan_random(), batch_size=2, collate_fn=keys),
    "over HTTP": lambda: over_http(shardshuffle=True).shuffle(3),
    "over HTTP, in a cache": lambda: over_http(shardshuffle=True, cache_dir=cache_directory()).shuffle(3),
    "over HTTP, in memory": lambda: over_http(in_memory=True).shuffle(3),
    "over HTTP, several at once": lambda: over_http(read_ahead=3, shardshuffle=True).map(lambda sample: sample),
    "over HTTP, resampled": lambda: over_http(resampled=True).with_epoch(20),
    "over HTTP, indexed": lambda: over_http(index=str(cache_directory())),
    "out of a command": lambda: wds.WebDataset(
        [f"pipe:cat {name}" for name in wds.shardlists.expand_urls(STREAMED)]
    ).shuffle(3),
    "loader of HTTP": lambda: wds.WebLoader(over_http().shuffle(3), batch_size=2, collate_fn=keys),
    "loader that spawns": lambda: wds.WebLoader(
        stream_shuffled().map(lambda sample: sample).listed(2), num_workers=1, multiprocessing_context="spawn"
    ),
    "loader processes": lambda: wds.WebLoader(stream_shuffled().listed(2), batch_size=None, num_workers=2),
    "loader rebatched": lambda: (
        wds.WebLoader(streamed().batched(2, collation_fn=columns), batch_size=None)
        .unbatched()
        .shuffle(4)
        .batched(3, collation_fn=list)
    ),
}
PIPELINES = {**BY_NAME, **MORE}

# Public names that are no source, stage or loader, or a part of one above. A new name must be put here, or get a
# pipeline.
OTHER = frozenset(
    """
    Continue FileCache FluidInterface LRUCleanup MultiDataset PickleLoader PipelineStage ShardWriter
    Shorthands StreamingOpen TarWriter cached_tarfile_samples cached_url_opener decode_image getfirst gopen_schemes
    group_by_keys gzfilter handle_extension imagehandler index_shards lru_cleanup merge_states numpy_dumps
    pipe_cleaner profile progress repeatedly tar_file_expander torch_audio torch_dumps torch_loads torch_video
    unsafe_pickle pytorch_weights_only __version__
    ignore_and_continue ignore_and_stop reraise_exception warn_and_continue warn_and_stop
    autodecode cache compat extradatasets filters gopen handlers iterators pipeline pytorch shardlists tariterators
    tenbin utils writer interop dali from_hf to_hf map_shards connect serve_on_ray
    """.split()
)


def save(name):
    """The state after some items, with what follows in a run that goes on."""
    dataset = PIPELINES[name]()
    items = iter(dataset)
    for _ in range(TAKEN):
        next(items)
    state = json.loads(json.dumps(dataset.state_dict()))
    expected = [[keys_of(item) for item in items], epoch_of(dataset)]
    dataset.close()
    return {"state": state, "expected": expected}


def resume(name, saved):
    dataset = PIPELINES[name]()
    dataset.load_state_dict(saved["state"])
    found = [epoch_of(dataset), epoch_of(dataset)]
    dataset.close()
    return found


def attempt(work, *args):
    try:
        return {"result": work(*args)}
    except Exception as error:
        return {"error": f"{type(error).__name__}: {error}", "trace": traceback.format_exc()}


def main(verb, path):
    if verb == "save":
        Path(path).write_text(json.dumps({name: attempt(save, name) for name in PIPELINES}))
        return
    saved = json.loads(Path(path).read_text())
    done = {name: attempt(resume, name, each["result"]) for name, each in saved.items() if "result" in each}
    Path(path).write_text(json.dumps({name: {"saved": saved[name], "resumed": done.get(name)} for name in saved}))


if __name__ == "__main__":
    main(*sys.argv[1:])
