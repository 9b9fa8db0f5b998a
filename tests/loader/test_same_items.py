"""Threads and processes hand on the same items, for every kind of dataset and batch size, given or not."""

import subprocess
import sys
from collections import OrderedDict, namedtuple
from pathlib import Path

import hypothesis.strategies as st
import numpy as np
import pytest
import torch
from hypothesis import given, settings

import webdataset as wds
from webdataset.loader._move_batching import converted
from webdataset.testing import make_shard

Pair = namedtuple("Pair", "left right")

DATASETS = {
    "samples": lambda dataset: dataset,
    "tuples": lambda dataset: dataset.to_tuple("cls", "npy", "txt"),
    "lists": lambda dataset: dataset.to_tuple("cls", "npy").map(list),
    "batches": lambda dataset: dataset.to_tuple("cls", "npy", "txt").batched(2),
    "batches that are not collated": lambda dataset: dataset.to_tuple("cls", "npy").batched(2, collation_fn=None),
    "lists of samples": lambda dataset: dataset.to_tuple("cls", "npy").listed(2),
    "batches and back": lambda dataset: dataset.to_tuple("cls", "npy").batched(2).unbatched(),
    "batches in an epoch": lambda dataset: dataset.to_tuple("cls", "npy").batched(2).with_epoch(2),
    "numbers": lambda dataset: dataset.map(lambda sample: sample["cls"]),
}
GIVEN = {
    "not given": {},
    "None": {"batch_size": None},
    "1": {"batch_size": 1},
    "3": {"batch_size": 3},
    "collate_fn": {"batch_size": 2, "collate_fn": list},
    "converted": {"batch_size": None, "collate_fn": lambda item: item},
}


def types(value):
    """The value with the type of everything in it."""
    if isinstance(value, dict):
        return {name: types(each) for name, each in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value).__name__, [types(each) for each in value]
    if isinstance(value, (np.ndarray, torch.Tensor)):
        return type(value).__name__, str(value.dtype), value.tolist()
    return type(value).__name__, value


@pytest.fixture
def shard(tmp_path):
    return make_shard(
        tmp_path / "a.tar", [{"__key__": str(n), "cls": n, "npy": np.full(2, n), "txt": "x"} for n in range(6)]
    )


@pytest.mark.filterwarnings("ignore:batch_size=. makes batches of batches")
@pytest.mark.parametrize("index", [True, False])
@pytest.mark.parametrize("given", GIVEN)
@pytest.mark.parametrize("dataset", DATASETS)
def test_the_same_items(dataset, given, index, shard):
    make = lambda: DATASETS[dataset](wds.WebDataset(shard, index=index, shardshuffle=False).decode())
    expected = [types(item) for item in wds.WebLoader(make(), **GIVEN[given])]
    for threads in (0, 2):
        loader = wds.WebLoader(make(), num_workers=threads, workers="threads", **GIVEN[given])
        assert [types(item) for item in loader] == expected


def test_worker_processes_too(shard):
    make = lambda: wds.WebDataset(shard, shardshuffle=False).decode().to_tuple("cls", "npy").batched(2)
    expected = [types(item) for item in wds.WebLoader(make(), num_workers=1)]
    assert expected == [types(item) for item in wds.WebLoader(make(), num_workers=1, workers="threads")]
    assert expected[0] == ("list", [("Tensor", "torch.int64", [0, 1]), ("Tensor", "torch.int64", [[0, 0], [1, 1]])])


def test_batches_of_batches_are_noticed(shard):
    dataset = wds.WebDataset(shard).decode().to_tuple("cls").batched(2)
    for workers in ("processes", "threads"):
        with pytest.warns(UserWarning, match="the dataset makes them already; pass batch_size=None"):
            wds.WebLoader(dataset, batch_size=4, workers=workers)
        wds.WebLoader(dataset, workers=workers)


def test_without_torch(shard):
    text = (
        "import sys; sys.modules['torch'] = None; sys.modules['torch.utils.data'] = None\n"
        "import webdataset as wds\n"
        f"make = lambda: wds.WebDataset({shard!r}, index=False).decode().to_tuple('cls', 'npy').batched(2)\n"
        "for kind in ('threads', 'processes'):\n"
        "    item = next(iter(wds.WebLoader(make(), workers=kind)))\n"
        "    print(type(item).__name__, type(item[1]).__name__)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", text],
        capture_output=True,
        text=True,
        env={"PYTHONPATH": str(Path(wds.__file__).parents[1])},
        timeout=60,
    )
    assert done.stdout == "tuple ndarray\n" * 2, done.stderr


@pytest.mark.parametrize(
    ("settings", "said"), [({}, "workers=0 processes"), ({"num_workers": 2, "workers": "threads"}, "workers=2 threads")]
)
def test_a_loader_shows_dataset_workers_and_epoch(settings, said, shard):
    loader = wds.WebLoader(wds.WebDataset(shard, index=False).decode(), batch_size=None, **settings).map(len)
    assert repr(loader).startswith("WebLoader(WebDataset(SimpleShardList(") and f"{said}, epoch=0, map(f=len))" in repr(
        loader
    )
    before = loader.state_dict()["stages"]
    list(loader)
    list(loader)
    assert "epoch=1" in repr(loader)
    kind = settings.get("workers", "processes")
    assert loader.state_dict()["stages"] == before == [f"WebLoader(batching=None, workers={kind})", "map(f=len)"]
    outer = wds.DataPipeline(loader, wds.map(abs))
    assert "epoch=1" in repr(loader) and "epoch" not in outer.state_dict()["stages"][0]


_LEAVES = st.one_of(
    *(st.integers(), st.floats(allow_nan=False), st.text(max_size=3), st.binary(max_size=3), st.booleans(), st.none()),
    st.builds(lambda size: np.arange(size), st.integers(0, 3)),
    st.builds(lambda size: torch.arange(size), st.integers(0, 3)),
    st.sampled_from([np.float32(1.5), np.array(["a"]), np.str_("b"), Pair(1, np.zeros(1)), OrderedDict(a=np.ones(1))]),
)


@settings(max_examples=100, deadline=None)
@given(
    st.recursive(
        _LEAVES,
        lambda inner: st.one_of(
            st.lists(inner, max_size=3),
            st.lists(inner, max_size=3).map(tuple),
            st.dictionaries(st.text(max_size=2), inner, max_size=3),
        ),
        max_leaves=8,
    )
)
def test_items_are_converted_as_torch_does(item):
    assert types(converted(item)) == types(torch.utils.data.default_convert(item))
