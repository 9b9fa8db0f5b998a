"""Real shards through loaders: what was handed on before the end and after the resume is what one run hands on."""

import json
import subprocess
import sys
import os
import signal
from itertools import islice
from pathlib import Path

import numpy as np
import pytest

import webdataset
import webdataset as wds
from webdataset.errors import DecodingError
from webdataset.loader import WebLoader

pytestmark = pytest.mark.filterwarnings("ignore:This DataLoader will create")

COUNTS = [7, 3, 11, 1, 5]


@pytest.fixture(scope="module")
def shards(tmp_path_factory):
    folder = tmp_path_factory.mktemp("shards")
    for shard, count in enumerate(COUNTS):
        with wds.TarWriter(str(folder / f"{shard}.tar")) as sink:
            for number in range(count):
                sink.write({"__key__": f"{shard}-{number}", "cls": 100 * shard + number, "npy": np.full(4, shard)})
    return str(folder / "{0..4}.tar")


def dataset(shards, **kw):
    pipeline = wds.WebDataset(shards, shardshuffle=True, seed=3, **kw)
    return pipeline.shuffle(8).decode().map(lambda s: (s["__key__"], s["cls"], s["npy"])).batched(3)


def keys(batches):
    return [tuple(batch[0]) for batch in batches]


LOADERS = {
    "no threads": {"workers": "threads"},
    "threads": {"workers": "threads", "num_workers": 3},
    "no processes": {"batch_size": None},
    "processes": {"batch_size": None, "num_workers": 2},
    "lasting processes": {"batch_size": None, "num_workers": 2, "persistent_workers": True},
}


@pytest.mark.parametrize("settings", LOADERS.values(), ids=LOADERS)
def test_two_epochs_with_a_stop_anywhere(shards, settings):
    straight = WebLoader(dataset(shards), **settings)
    epochs = [keys(straight), keys(straight)]
    everything = sorted(f"{shard}-{number}" for shard, count in enumerate(COUNTS) for number in range(count))
    assert [sorted(key for batch in epoch for key in batch) for epoch in epochs] == [everything] * 2
    assert epochs[0] != epochs[1]
    stops = range(len(epochs[0]) + 1) if "num_workers" not in settings or "workers" in settings else (1, 4, 7)
    for stop in stops:
        first = WebLoader(dataset(shards), **settings)
        items = iter(first)
        head = keys(islice(items, stop))
        saved = json.loads(json.dumps(first.state_dict()))
        items.close()
        second = WebLoader(dataset(shards), **settings)
        second.load_state_dict(saved)
        assert head + keys(second) == epochs[0]
        assert keys(second) == epochs[1]


def test_threads_and_none_resume_from_each_other(shards):
    def loader(n):
        return WebLoader(dataset(shards), workers="threads", batch_size=None, num_workers=n)

    expected = keys(loader(0))
    saved = []
    for n in (0, 1, 4):
        first = loader(n)
        items = iter(first)
        assert keys(islice(items, 4)) == expected[:4]
        saved.append(first.state_dict())
        items.close()
    for state in saved:
        for n in (0, 2):
            second = loader(n)
            second.load_state_dict(state)
            assert keys(second) == expected[4:]


def test_a_bad_sample_fails_in_a_thread_with_key_and_shard(tmp_path):
    path = str(tmp_path / "bad.tar")
    with wds.TarWriter(path) as sink:
        for number in range(6):
            sink.write({"__key__": str(number), "json": b"{" if number == 4 else b"{}"})
    seen = []
    with pytest.raises(DecodingError, match=r"field json.*sample 4.*bad.tar"):
        for sample in WebLoader(
            wds.WebDataset(path, shardshuffle=False).decode(), workers="threads", batch_size=None, num_workers=3
        ):
            seen.append(sample["__key__"])
    assert seen == ["0", "1", "2", "3"]


TRAINING = """
import json, os, sys
import webdataset as wds

shards, checkpoint, log, kill_at = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])
dataset = wds.WebDataset(shards, shardshuffle=True, seed=3).shuffle(8).decode().to_tuple("__key__").batched(3)
loader = wds.WebLoader(dataset, workers="threads", batch_size=None, num_workers=2)
if os.path.exists(checkpoint):
    loader.load_state_dict(json.load(open(checkpoint)))
for number, (keys,) in enumerate(loader):
    with open(log, "a") as out:
        print(*keys, file=out)
    with open(checkpoint + ".new", "w") as out:
        json.dump(loader.state_dict(), out)
    os.replace(checkpoint + ".new", checkpoint)
    if number == kill_at:
        os.kill(os.getpid(), 9)
"""


@pytest.mark.long  # every run does this with indexed shards, in test_planned_loader.py
def test_training_goes_on_after_kill_9(shards, tmp_path):
    expected = [" ".join(batch) for batch in keys(WebLoader(dataset(shards), batch_size=None, workers="threads"))]

    def train(kill_at):
        command = [sys.executable, "-c", TRAINING, shards, str(tmp_path / "state"), str(tmp_path / "log"), str(kill_at)]
        source = str(Path(webdataset.__file__).parents[1])
        return subprocess.run(command, env={**os.environ, "PYTHONPATH": source}, capture_output=True, text=True)

    assert train(2).returncode == train(3).returncode == -signal.SIGKILL
    last = train(-1)
    assert last.returncode == 0, last.stderr
    assert (tmp_path / "log").read_text().splitlines() == expected


def test_a_batch_size_that_is_not_given_is_one_for_processes_and_none_for_threads(tmp_path):
    with wds.TarWriter(str(tmp_path / "a.tar")) as sink:
        for number in range(3):
            sink.write({"__key__": str(number), "cls": number})
    wds.index_shards([str(tmp_path / "a.tar")])
    planned = (
        wds.WebDataset(str(tmp_path / "a.tar"), shardshuffle=False).decode().map(lambda sample: {"x": sample["cls"]})
    )
    assert planned.plan is not None
    assert [batch["x"].tolist() for batch in WebLoader(planned)] == [[0], [1], [2]]
    assert [sample["x"] for sample in WebLoader(planned, batch_size=None, workers="threads")] == [0, 1, 2]
