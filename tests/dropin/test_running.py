"""What real programs put around their datasets: caches, threads, forks, and the loaders of others."""

import multiprocessing
import pickle
import threading

import pytest

import webdataset as wds
from tests.dropin.programs import KEYS, keys
from webdataset.stores import close_connections
from webdataset.testing import LoopbackServer

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
