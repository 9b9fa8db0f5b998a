"""A program that ends in the middle of an epoch ends without a word, whatever it was reading."""

import subprocess
import sys
import textwrap

import pytest

import webdataset as wds
from webdataset.testing import make_shard

PROGRAM = """
import webdataset as wds
shards = [{shards}]
dataset = wds.WebDataset(shards, index={index}, shardshuffle=False).shuffle(3).decode().batched(2)
source = {source}
for item in source:
    break
"""
SOURCES = {
    "dataset": "dataset",
    "mix": "wds.mix([(dataset, 1), (dataset.compose(), 1)])",
    "no workers": "wds.WebLoader(dataset, num_workers=0, batch_size=None)",
    "processes": "wds.WebLoader(dataset, num_workers=2, batch_size=None)",
    "processes that stay": "wds.WebLoader(dataset, num_workers=1, batch_size=None, persistent_workers=True)",
    "threads": "wds.WebLoader(dataset, num_workers=2, batch_size=None, workers='threads')",
    "stages after a loader": "wds.WebLoader(dataset, num_workers=1, batch_size=None).unbatched().shuffle(3).batched(2)",
}

SHORT = {"threads", "stages after a loader"}


@pytest.mark.parametrize(
    ("source", "index"),
    [
        *(pytest.param(source, False, marks=() if source in SHORT else pytest.mark.long) for source in SOURCES),
        ("processes", True),
    ],
)
def test_it_ends_in_silence(tmp_path, source, index):
    shards = [make_shard(f"{tmp_path}/{s}.tar", [{"__key__": f"{s}{n}", "txt": "a"} for n in range(20)]) for s in "01"]
    wds.index_shards(shards)
    program = PROGRAM.format(shards=", ".join(map(repr, shards)), index=index, source=SOURCES[source])
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, check=False, timeout=100
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
