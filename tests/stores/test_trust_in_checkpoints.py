"""A checkpoint may come from anyone: it runs no command, and finds the addresses of the dataset again."""

import json
import pickle
from pathlib import Path

import cloudpickle
import pytest

import webdataset as wds
from webdataset import address
from webdataset.errors import UnsafeContent
from webdataset.testing import make_shard

PIPELINES = {
    "streamed": lambda urls: wds.WebDataset(urls, index=False, shardshuffle=False),
    "shuffled": lambda urls: wds.WebDataset(urls, index=False, shardshuffle=True).shuffle(5, initial=5).decode(),
    "ahead": lambda urls: wds.WebDataset(urls, index=False, shardshuffle=False, read_ahead=2),
    "resampled": lambda urls: wds.WebDataset(urls, resampled=True).with_epoch(12),
    "batched": lambda urls: wds.WebDataset(urls, index=False, shardshuffle=False).batched(4).unbatched().shuffle(4),
    "mixed": lambda urls: wds.RandomMix([wds.WebDataset(urls, index=False, shardshuffle=False).shuffle(3)] * 2),
    "a source": lambda urls: wds.WebDataset(wds.SimpleShardList(urls)).shuffle(5),
    "stages": lambda urls: wds.DataPipeline(wds.SimpleShardList(urls), wds.tarfile_to_samples(), wds.shuffle(4)),
}


def stopped(dataset, after=7):
    items = iter(dataset)
    for _ in range(after):
        next(items)
    return json.loads(json.dumps(dataset.state_dict()))


def with_address(saved, names, address):
    """The checkpoint with another address in every place where it names a shard."""
    if isinstance(saved, dict):
        return {name: with_address(value, names, address) for name, value in saved.items()}
    if isinstance(saved, list):
        return [with_address(value, names, address) for value in saved]
    return address if saved in names else saved


@pytest.fixture
def three_shards(tmp_path):
    rows = lambda shard: [{"__key__": f"{shard}{number}", "txt": "x"} for number in range(6)]
    return [make_shard(tmp_path / f"{shard}.tar", rows(shard)) for shard in range(3)]


@pytest.mark.parametrize("rewritten", [False, True])
@pytest.mark.parametrize("make", PIPELINES.values(), ids=PIPELINES)
def test_a_checkpoint_runs_nothing(make, rewritten, three_shards, tmp_path, monkeypatch):
    saved = stopped(make(three_shards))
    command = f"touch {tmp_path}/ran; cat {three_shards[0]}"
    if rewritten:
        monkeypatch.setenv("GOPEN_REWRITE", "odd://=pipe:")
    hostile = with_address(saved, three_shards, ("odd://" if rewritten else "PIPE:") + command)
    assert hostile != saved
    dataset = make(three_shards)
    with pytest.raises(UnsafeContent, match="from a checkpoint"):
        dataset.load_state_dict(hostile)
        list(dataset)
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("way", ["pipe", "rewritten", "path", "pickled"])
@pytest.mark.parametrize("make", PIPELINES.values(), ids=PIPELINES)
def test_a_checkpoint_of_commands_that_the_user_wrote_is_resumed(make, way, three_shards, monkeypatch):
    if way == "rewritten":
        monkeypatch.setenv("GOPEN_REWRITE", "odd://=pipe:cat ")
    urls = [{"rewritten": f"odd://{url}", "path": Path(url)}.get(way, f"pipe:cat {url}") for url in three_shards]
    saved = stopped(make(urls))
    rest = make(urls)
    rest.load_state_dict(saved)
    expected = [sample["__key__"] for sample in rest]
    address._in_use.clear()  # as in another process
    again = make(urls)
    if way == "pickled":
        sent = cloudpickle.dumps(again)
        address._in_use.clear()
        again = pickle.loads(sent)
    again.load_state_dict(saved)
    assert [sample["__key__"] for sample in again] == expected and expected
