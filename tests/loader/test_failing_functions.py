"""A function that fails leaves no shard open, though the error is kept and no garbage is collected."""

import gc
import os

import pytest

import webdataset as wds
from webdataset.testing import make_shard


def fail(sample):
    if sample["__key__"] == "5":
        raise ValueError(sample["__key__"])
    return sample


def fail_in_a_stream(samples):
    for sample in samples:
        yield fail(sample)


PIPELINES = {
    "a function": lambda dataset: dataset.map(fail),
    "a function before a shuffle": lambda dataset: dataset.map(fail).shuffle(10).batched(2),
    "a function after a shuffle": lambda dataset: dataset.shuffle(3).map(fail),
    "two groups of functions": lambda dataset: dataset.map(dict).shuffle(3).map(fail).map(dict),
    "a stream": lambda dataset: dataset.compose(fail_in_a_stream).map(dict),
    "a shuffle": lambda dataset: dataset.compose(fail_in_a_stream).shuffle(5).map(dict),
}


def opened(path):
    found = (f"/proc/self/fd/{name}" for name in os.listdir("/proc/self/fd"))
    return [name for name in found if os.path.exists(name) and os.readlink(name) == path]


@pytest.mark.parametrize("pipeline", PIPELINES)
@pytest.mark.parametrize("threads", [0, 1, 2])
def test_a_function_that_fails_leaves_no_shard_open(pipeline, threads, tmp_path):
    shard = make_shard(tmp_path / "a.tar", [{"__key__": str(n), "txt": "x" * 2000} for n in range(300)])
    dataset = PIPELINES[pipeline](wds.WebDataset(shard, index=False))
    gc.disable()
    try:
        with pytest.raises(ValueError, match="5") as caught:
            list(wds.WebLoader(dataset, batch_size=None, num_workers=threads, workers="threads"))
        assert opened(shard) == []
        assert caught.value is not None  # the error is alive
    finally:
        gc.enable()
