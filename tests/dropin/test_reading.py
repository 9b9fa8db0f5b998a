"""How real programs use the public library: each test does what one of them does, in our own words.

The names of the programs are in the tests' names; what they do is described in the specification of the public library.
"""

import functools
import io
import pickle
import random
from itertools import islice

import numpy as np
import pytest

import webdataset as wds
from tests.dropin.programs import KEYS, keys
from webdataset import autodecode, filters, shardlists, tariterators, utils
from webdataset.compat import FluidInterface
from webdataset.pipeline import DataPipeline
from webdataset.testing import make_shard

# --- timm ---------------------------------------------------------------------------------------------------------


class SeededShuffle(wds.PipelineStage):
    """A shuffle with an epoch of its own, made of the library's inner function."""

    def __init__(self, bufsize=4, initial=2, seed=0, epoch=-1):
        self.bufsize, self.initial, self.seed, self.epoch = bufsize, initial, seed, epoch

    def run(self, src):
        self.epoch += 1
        seed = utils.pytorch_worker_seed() + self.epoch if self.seed < 0 else self.seed + self.epoch
        return filters._shuffle(src, self.bufsize, self.initial, random.Random(seed))


def tolerant_expander(data, handler):
    for source in data:
        assert isinstance(source, dict)
        try:
            for file in tariterators.tar_file_iterator(source["stream"]):
                file["__url__"] = source["url"]
                yield file
        except Exception as exn:
            exn.args = (*exn.args, source.get("stream"), source.get("url"))
            if handler(exn):
                continue
            break


def tolerant_reader(src, handler=wds.reraise_exception):
    streams = tariterators.url_opener(src, handler=handler)
    return tariterators.group_by_keys(tolerant_expander(streams, handler), handler=handler)


def test_timm(shards):
    urls = shardlists.expand_urls(shards)
    assert len(urls) == 3
    shuffle = SeededShuffle()
    dataset = DataPipeline(
        wds.SimpleShardList(urls),
        wds.split_by_worker,
        tolerant_reader,
        shuffle,
        wds.map(lambda s: (s["txt"], s["cls"])),
    )
    first, second = list(dataset), list(dataset)
    assert sorted(first) == sorted(second)
    assert len(first) == 12
    assert first != second
    assert shuffle.epoch == 1
    assert filters.getfirst({"b": 1}, "a;b") == 1
    with wds.gopen(urls[0]) as stream:
        assert stream.read(5) == b"00.cl"


# --- open_clip, open_flamingo ---------------------------------------------------------------------------------------


def group_by_keys_nothrow(data, keys=tariterators.base_plus_ext, lcase=True, suffixes=None, handler=None):
    """A grouper from before there were marks between shards: it reads the name of everything that comes."""
    current = None
    for file in data:
        fname, value = file["fname"], file["data"]
        prefix, suffix = keys(fname)
        if prefix is None:
            continue
        suffix = suffix.lower() if lcase else suffix
        if current is None or prefix != current["__key__"] or suffix in current:
            if tariterators.valid_sample(current):
                yield current
            current = {"__key__": prefix, "__url__": file["__url__"]}
        if suffixes is None or suffix in suffixes:
            current[suffix] = value
    if tariterators.valid_sample(current):
        yield current


def test_D58_open_clip_s_grouper_and_ours_take_the_same_files(shards):
    def files():
        streams = tariterators.url_opener(
            ({"url": url} for url in shardlists.expand_urls(shards)), handler=wds.reraise_exception
        )
        return tariterators.tar_file_expander(streams, handler=wds.reraise_exception)

    ours = [{k: v for k, v in s.items() if k != "__local_path__"} for s in tariterators.group_by_keys(files())]
    assert list(group_by_keys_nothrow(files())) == ours
    assert keys(ours) == KEYS


def test_D58_the_mark_between_shards_is_an_empty_dict(shards):
    streams = tariterators.url_opener([{"url": shardlists.expand_urls(shards)[0]}])
    *_, mark = tariterators.tar_file_expander(streams)
    assert mark == {}
    assert not mark
    assert isinstance(mark, dict)
    streams = tariterators.url_opener([{"url": shardlists.expand_urls(shards)[0]}])
    assert all(tariterators.tar_file_expander(streams, eof_value=None))


def test_open_clip_loader_carries_attributes(shards):
    dataset = wds.DataPipeline(
        wds.SimpleShardList(shards),
        wds.split_by_node,
        wds.split_by_worker,
        wds.tarfile_to_samples(handler=wds.warn_and_continue),
        wds.select(lambda s: "txt" in s),
        wds.rename(text="txt"),
        wds.map_dict(text=lambda t: t.decode()),
        wds.to_tuple("text", "cls"),
        wds.batched(5, partial=False),
    )
    loader = wds.WebLoader(dataset, batch_size=None, shuffle=False, num_workers=0)
    loader = loader.with_epoch(2)
    loader.num_batches, loader.num_samples = 2, 10
    assert [len(batch[0]) for batch in loader] == [5, 5]
    assert loader.num_batches == 2
    assert loader.pipeline[0].dataset is dataset


# --- NeMo -----------------------------------------------------------------------------------------------------------


def test_nemo_replaces_the_opener(shards, monkeypatch):
    opened = []

    def other_opener(data, handler, **kw):
        for shard in data:
            opened.append(shard["url"])
            yield {**shard, "stream": open(shard["url"], "rb")}

    monkeypatch.setattr(tariterators, "url_opener", other_opener)
    dataset = wds.DataPipeline(wds.SimpleShardList(shards), wds.tarfile_to_samples(), wds.decode())
    assert keys(dataset) == KEYS
    assert opened == shardlists.expand_urls(shards)


class Peek:
    """A stage as a class with `next()` on what comes before it."""

    def __init__(self, source, limit):
        self.source, self.limit = source, limit

    def __iter__(self):
        return self

    def __next__(self):
        sample = next(self.source)
        if sample["cls"] >= self.limit:
            raise StopIteration
        return sample


def test_nemo_stages_call_next(shards):
    dataset = wds.DataPipeline(
        wds.SimpleShardList(shards), wds.tarfile_to_samples(), wds.decode(), functools.partial(Peek, limit=2)
    )
    assert keys(dataset) == ["00", "01"]


# --- dalle2, video2dataset ------------------------------------------------------------------------------------------


class Embeddings(DataPipeline, FluidInterface):
    def __init__(self, urls):
        super().__init__()
        self.append(wds.SimpleShardList(urls))
        self.append(wds.tarfile_to_samples(handler=wds.warn_and_continue))
        self.append(wds.decode(wds.autodecode.basichandlers))


def test_dalle2_derives_from_pipeline_and_fluid_interface(shards):
    dataset = Embeddings(shards).map(lambda s: s["cls"]).batched(4, collation_fn=sum)
    assert isinstance(dataset, Embeddings)
    assert list(dataset) == [6, 6, 6]


class FrameDecoder(autodecode.Decoder):
    """Decodes values that are not bytes any more."""

    def decode1(self, key, data):
        return f"frames of {data}" if isinstance(data, str) else super().decode1(key, data)


def test_video2dataset_derives_from_decoder():
    decoder = FrameDecoder([], only=["mp4", "cls"], partial=True)
    sample = {"__key__": "0", "mp4": b"film", "cls": b"3", "json": b"{}", "array": np.arange(2)}
    decoded = decoder(sample)
    assert decoded["cls"] == 3
    assert decoded["json"] == b"{}"
    assert decoded["array"] is sample["array"]
    assert decoder.decode1("mp4", "path") == "frames of path"


def test_video2dataset_extends_the_table(monkeypatch):
    monkeypatch.setitem(autodecode.decoders, "upper", lambda data: data.decode().upper())
    assert autodecode.Decoder([])({"x.upper": b"abc"}) == {"x.upper": "ABC"}


def test_video2dataset_s_cached_reader(shards, tmp_path):
    from webdataset.cache import cached_tarfile_to_samples

    cache = tmp_path / "cache"
    cache.mkdir()
    dataset = wds.DataPipeline(wds.SimpleShardList(shards), cached_tarfile_to_samples(cache_dir=str(cache)))
    assert keys(dataset) == KEYS


def _every_nth(data, n, offset=0):
    return islice(data, offset, None, n)


every_nth = filters.pipelinefilter(_every_nth)


def test_stages_of_one_s_own_pickle(shards):
    stage = pickle.loads(pickle.dumps(every_nth(4, offset=1)))
    assert keys(wds.WebDataset(shards, shardshuffle=False).compose(stage)) == ["01", "11", "21"]
    assert "every_nth" in repr(stage)


# --- WhisperSpeech, stable_audio, laion_clap, Energon ---------------------------------------------------------------


def test_whisperspeech_passes_a_shard_source(shards):
    dataset = wds.WebDataset(wds.SimpleShardList(shardlists.expand_urls(shards)), shardshuffle=False)
    assert keys(dataset.decode()) == KEYS
    resampled = wds.WebDataset(wds.ResampledShards(shards), shardshuffle=False)
    assert len(list(islice(resampled, 30))) == 30


def test_stable_audio_drops_with_none_and_collates_by_hand(shards):
    dataset = wds.DataPipeline(
        wds.ResampledShards(shards),
        wds.tarfile_to_samples(handler=wds.ignore_and_continue),
        wds.decode(handler=wds.ignore_and_continue),
        wds.map(lambda s: None if s["cls"] == 3 else s),
        wds.to_tuple("txt", "cls"),
        wds.batched(3, partial=False, collation_fn=lambda batch: [label for _, label in batch]),
    ).with_epoch(4)
    batches = list(dataset)
    assert len(batches) == 4
    assert all(3 not in batch for batch in batches)


def test_laion_clap_shuffles_shards_by_epoch(shards):
    stage = wds.detshuffle(bufsize=3, initial=3, seed=1, epoch=-1)
    dataset = wds.DataPipeline(wds.SimpleShardList(shards), stage, wds.tarfile_to_samples())
    orders = {tuple(keys(dataset)) for _ in range(8)}
    assert len(orders) > 1
    assert {tuple(sorted(order)) for order in orders} == {tuple(KEYS)}


def test_energon_decodes_with_a_list_of_handlers():
    image = io.BytesIO()
    from PIL import Image

    Image.new("RGB", (4, 3)).save(image, "PNG")
    decoder = autodecode.Decoder([autodecode.imagehandler("torchrgb"), functools.partial(lambda key, data: None)])
    decoded = decoder({"__key__": "0", "png": image.getvalue(), "json": b"[1]"})
    assert tuple(decoded["png"].shape) == (3, 3, 4)
    assert decoded["json"] == [1]


FROM_ADDRESSES = {
    "stream": lambda urls: wds.WebDataset(urls, shardshuffle=False, index=False),
    "shuffled": lambda urls: wds.WebDataset(urls, shardshuffle=True),
    "indexed": lambda urls: wds.WebDataset(urls, shardshuffle=True, index=True),
    "splitter": lambda urls: wds.WebDataset(urls, shardshuffle=False, nodesplitter=None, workersplitter=iter),
    "resampled": lambda urls: wds.WebDataset(urls, resampled=True).with_epoch(8),
    "SimpleShardList": lambda urls: wds.DataPipeline(wds.SimpleShardList(urls), wds.tarfile_to_samples()),
    "ResampledShards": lambda urls: wds.DataPipeline(wds.ResampledShards(urls, 4), wds.tarfile_to_samples()),
    "IndexedDataset": wds.IndexedDataset,
    "ArrayBatches": lambda urls: wds.ArrayBatches(urls, batchsize=1),
}


@pytest.mark.parametrize("name", FROM_ADDRESSES)
def test_a_generator_of_addresses_is_read_once_and_kept(name, tmp_path):
    for number in range(4):
        make_shard(tmp_path / f"{number}.tar", [{"__key__": f"{number}{n}", "npy": np.arange(3)} for n in range(2)])
    dataset = FROM_ADDRESSES[name](tmp_path.glob("*.tar"))
    copy = pickle.loads(pickle.dumps(dataset))
    assert [len(list(each)) for each in (dataset, dataset, copy, copy)] == [8] * 4
