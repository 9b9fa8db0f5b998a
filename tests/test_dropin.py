"""How real programs use the public library: each test does what one of them does, in our own words.

The names of the programs are in the tests' names; what they do is described in the specification of the public library.
"""

import functools
import io
import json
import multiprocessing
import pickle
import random
import sys
import tarfile
import threading
from itertools import islice

import numpy as np
import pytest

import webdataset as wds
from webdataset import autodecode, filters, shardlists, tariterators, utils
from webdataset.compat import FluidInterface
from webdataset.pipeline import DataPipeline
from webdataset.stores import close_connections
from webdataset.testing import LoopbackServer


@pytest.fixture
def shards(tmp_path):
    """Three shards of four samples."""
    for shard in range(3):
        with wds.TarWriter(str(tmp_path / f"a-{shard}.tar")) as sink:
            for number in range(4):
                sink.write(
                    {
                        "__key__": f"{shard}{number}",
                        "txt": f"text {shard}{number}",
                        "cls": number,
                        "json": {"n": number},
                    }
                )
    return str(tmp_path / "a-{0..2}.tar")


KEYS = [f"{shard}{number}" for shard in range(3) for number in range(4)]


def keys(samples):
    return [sample["__key__"] for sample in samples]


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


# --- writers: lhotse, img2dataset, aistore, clip_benchmark ----------------------------------------------------------


def test_lhotse_writes_bytes_through_a_pipe(tmp_path):
    target = tmp_path / "a.tar"
    sink = wds.TarWriter(f"pipe:cat > {target}")
    assert sink.write({"__key__": "cut", "data": b"12345"}) == 5
    sink.close()
    assert next(iter(wds.WebDataset(str(target), shardshuffle=False)))["data"] == b"12345"


def test_img2dataset_writes_to_an_open_file_and_json_as_text(tmp_path):
    path = tmp_path / "a.tar"
    with open(path, "wb") as stream:
        sink = wds.TarWriter(stream)
        sink.write({"__key__": "0", "jpg": b"jpeg", "txt": "caption", "json": json.dumps({"a": 1}, indent=4)})
        sink.close()
    assert json.loads(next(iter(wds.WebDataset(str(path), shardshuffle=False)))["json"]) == {"a": 1}


def test_aistore_takes_the_finished_shard_away(tmp_path):
    sent = []

    def post(name):
        with tarfile.open(name) as archive:
            sent.append((name, len(archive.getnames())))
        import os

        os.unlink(name)

    pattern = str(tmp_path / "out-%02d.tar")
    with wds.ShardWriter(
        pattern=pattern, maxcount=2, maxsize=1e6, post=post, start_shard=3, verbose=0, encoder=True
    ) as sink:
        for number in range(5):
            sink.write({"__key__": f"{number}", "cls": number})
    assert [(name[-6:-4], count) for name, count in sent] == [("03", 2), ("04", 2), ("05", 1)]
    assert list(tmp_path.iterdir()) == []


def test_clip_benchmark_counts_shards_before_closing(tmp_path):
    sink = wds.ShardWriter(str(tmp_path / "%d.tar"), maxcount=2, verbose=0)
    for number in range(3):
        sink.write({"__key__": f"{number}", "webp": b"x", "cls": number})
    assert sink.shard == 2
    sink.close()
    handler = autodecode.ImageHandler("pil", extensions=["webp"])
    assert handler(".jpg", b"") is None
    dataset = wds.WebDataset(str(tmp_path / "{0..1}.tar"), shardshuffle=False).to_tuple(["webp", "png"], ["cls"])
    assert [label for _, label in dataset] == [b"0", b"1", b"2"]


# --- clip_retrieval, FFCV -------------------------------------------------------------------------------------------


def test_clip_retrieval_caches_over_http(shards, tmp_path):
    cache = tmp_path / "cache"
    cache.mkdir()
    folder = shards.rsplit("/", 1)[0]

    def respond(handler):
        with open(folder + handler.path, "rb") as stream:
            body = stream.read()
        handler.send_response(200)
        handler.send_header("Content-Length", str(len(body)))
        handler.end_headers()
        handler.wfile.write(body)

    with LoopbackServer(respond) as server:
        dataset = wds.WebDataset(
            server.url("a-{0..2}.tar"), cache_dir=str(cache), cache_size=10**10, handler=wds.warn_and_continue
        )
        assert sorted(keys(dataset)) == KEYS
    close_connections()
    assert sorted(keys(dataset)) == KEYS, "the second pass comes from the cache"


def test_ffcv_iterates_in_threads_and_forks(shards):
    dataset = wds.WebDataset(shards, shardshuffle=False).decode()
    seen = {}
    threads = [threading.Thread(target=lambda n=n: seen.update({n: keys(dataset)})) for n in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert list(seen.values()) == [KEYS] * 3
    context = multiprocessing.get_context("fork")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=lambda: sender.send(keys(dataset)))
    process.start()
    assert receiver.recv() == KEYS
    process.join()
    process.close()
    receiver.close()
    sender.close()


# --- Lightning, transformers, torchdata -----------------------------------------------------------------------------


def test_lightning_asks_for_the_length(shards):
    from torch.utils.data import DataLoader, IterableDataset

    dataset = wds.WebDataset(shards, shardshuffle=False).decode().to_tuple("cls").with_length(12)
    assert isinstance(dataset, IterableDataset)
    assert len(dataset) == 12
    assert len(DataLoader(dataset, batch_size=4)) == 3
    loader = wds.WebLoader(dataset, batch_size=4).with_length(3)
    assert len(loader) == 3
    assert sum(1 for _ in loader) == 3
    with pytest.raises(TypeError):
        len(wds.WebDataset(shards, shardshuffle=False))


def test_transformers_pickles_the_dataset(shards):
    dataset = wds.WebDataset(shards, shardshuffle=True, seed=3).shuffle(5).decode().map_dict(cls=int).with_length(12)
    again = pickle.loads(pickle.dumps(dataset))
    assert keys(again) == keys(dataset)
    assert len(again) == 12


@pytest.mark.filterwarnings("ignore:'set_vital' is deprecated")
def test_torchdata_restores_in_the_middle(shards):
    stateful = pytest.importorskip("torchdata.stateful_dataloader")

    def loader():
        dataset = wds.WebDataset(shards, shardshuffle=True, seed=1).shuffle(5).decode().to_tuple("__key__")
        return stateful.StatefulDataLoader(dataset, batch_size=None, num_workers=0)

    first = loader()
    items = iter(first)
    head = [next(items)[0] for _ in range(5)]
    state = first.state_dict()
    tail = [key for (key,) in items]
    second = loader()
    second.load_state_dict(state)
    assert [key for (key,) in second] == tail
    assert sorted(head + tail) == KEYS


# --- modules as programs use them -----------------------------------------------------------------------------------


def test_D55_gopen_is_a_module_and_a_function(shards, monkeypatch):
    import webdataset.gopen as module

    assert module is wds.gopen
    assert module.gopen_schemes is wds.gopen_schemes
    monkeypatch.setitem(module.gopen_schemes, "mine", lambda url, mode, bufsize: io.BytesIO(b"opened " + url.encode()))
    assert wds.gopen("mine://x").read() == b"opened mine://x"
    assert module.gopen("mine://x").read() == b"opened mine://x"
    assert issubclass(module.Pipe, io.IOBase)
    assert pickle.loads(pickle.dumps(wds.gopen)) is wds.gopen


def test_D18_weights_only_is_one_live_setting():
    import torch

    payload = wds.torch_dumps({"a": torch.zeros(2)})
    try:
        assert wds.pytorch_weights_only is True
        wds.pytorch_weights_only = False
        assert autodecode.pytorch_weights_only is False
        assert wds.torch_loads(payload)["a"].shape == (2,)
        autodecode.pytorch_weights_only = True
        assert wds.pytorch_weights_only is True
    finally:
        wds.config.safety.weights_only = None


def test_D17_secure_mode_is_one_live_setting(shards):
    try:
        utils.enforce_security = True
        with pytest.raises(ValueError, match="unsafe_gopen is False, cannot open local files"):
            list(wds.WebDataset(shards, shardshuffle=False))
        with pytest.raises(ValueError, match="cannot open pipe URLs"):
            wds.gopen("pipe:true")
    finally:
        wds.config.safety.enforce = None
    assert utils.enforce_security is False


def test_star_modules_do_not_import_torch():
    import subprocess

    code = (
        "import sys, webdataset.filters, webdataset.tariterators, webdataset.shardlists, webdataset.autodecode, "
        "webdataset.writer, webdataset.utils, webdataset.mix, webdataset.tenbin, webdataset.compat\n"
        "assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
