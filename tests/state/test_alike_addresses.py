"""Shards whose addresses differ in their secrets only: a checkpoint has no secrets, and still means the right shard."""

import json
import pickle
from urllib.parse import parse_qs, urlsplit

import pytest

import webdataset as wds
from webdataset.testing import LoopbackServer

SHARDS, SAMPLES = 4, 6


@pytest.fixture
def server(tmp_path):
    """The token says which shard; as in links that a site makes for each file."""
    shards = {}
    for number in range(SHARDS):
        with wds.TarWriter(str(tmp_path / "s.tar")) as sink:
            for sample in range(SAMPLES):
                sink.write({"__key__": f"{number}-{sample}", "txt": "x"})
        shards[str(number)] = (tmp_path / "s.tar").read_bytes()

    def respond(handler):
        number = parse_qs(urlsplit(handler.path).query)["token"][0][:1]
        handler.send_response(200)
        handler.send_header("Content-Length", str(len(shards[number])))
        handler.send_header("ETag", f'"{number}"')
        handler.end_headers()
        handler.wfile.write(shards[number])

    with LoopbackServer(respond) as server:
        yield server.url("download.tar?token=")
    wds.stores.close_connections()


def shuffled(urls, **options):
    return wds.WebDataset(urls, shardshuffle=False, **options).shuffle(10, initial=10).map(key_of)


def resampled(urls):
    return wds.WebDataset(urls, resampled=True).shuffle(10, initial=10).map(key_of).with_epoch(SHARDS * SAMPLES)


def mixed(urls):
    parts = [wds.WebDataset(urls[start::2], shardshuffle=False).shuffle(4, initial=4) for start in range(2)]
    return wds.mix([(part, 1) for part in parts]).map(key_of)


def key_of(sample):
    return sample["__key__"]


@pytest.mark.parametrize("make", [shuffled, resampled, mixed])
@pytest.mark.parametrize("stop", [0, 5, 13, 20])
def test_a_checkpoint_means_the_right_shard(server, make, stop):
    """Also after the links were made anew: other secrets, the same order."""
    urls = [f"{server}{number}-first" for number in range(SHARDS)]
    dataset = make(urls)
    items = iter(dataset)
    before = [next(items) for _ in range(stop)]
    saved = json.dumps(dataset.state_dict())
    rest = list(items)
    assert make is resampled or sorted(before + rest) == sorted(
        f"{number}-{sample}" for number in range(SHARDS) for sample in range(SAMPLES)
    )
    assert "first" not in saved
    again = make([url.replace("first", "second") for url in urls])
    again.load_state_dict(json.loads(saved))
    assert list(again) == rest


def test_in_another_process_too(server):
    dataset = shuffled([f"{server}{number}-first" for number in range(SHARDS)])
    items = iter(dataset)
    before = [next(items) for _ in range(5)]
    sent = pickle.loads(pickle.dumps(dataset))
    sent.load_state_dict(dataset.state_dict())
    assert list(sent) == list(items)
    assert len(set(before)) == 5
