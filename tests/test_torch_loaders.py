"""Under torch's DataLoader: every sample once, whatever the workers, in a new order each epoch. And without torch at all."""

import subprocess
import sys
from collections import Counter

import numpy as np
import pytest
from torch.utils.data import DataLoader, IterableDataset

import webdataset as wds

SHARDS, PER_SHARD = 6, 5
KEYS = sorted(f"{shard}{number}" for shard in range(SHARDS) for number in range(PER_SHARD))

pytestmark = pytest.mark.filterwarnings("ignore:This DataLoader will create:UserWarning")


@pytest.fixture(scope="module")
def shards(tmp_path_factory):
    folder = tmp_path_factory.mktemp("loaders")
    for shard in range(SHARDS):
        with wds.TarWriter(str(folder / f"a-{shard}.tar")) as sink:
            for number in range(PER_SHARD):
                sink.write({"__key__": f"{shard}{number}", "cls": number, "npy": np.full(3, shard)})
    return str(folder / f"a-{{0..{SHARDS - 1}}}.tar")


def web_dataset(shards):
    return wds.WebDataset(shards, shardshuffle=True, seed=7).shuffle(10).decode().to_tuple("__key__", "cls")


def data_pipeline(shards):
    return wds.DataPipeline(
        wds.SimpleShardList(shards),
        wds.split_by_worker,
        wds.shuffle(SHARDS),
        wds.tarfile_to_samples(),
        wds.shuffle(10),
        wds.decode(),
        wds.to_tuple("__key__", "cls"),
    )


def shuffled_before_the_split(shards):
    """All processes must shuffle alike here, or shards would be lost and others read twice."""
    return wds.DataPipeline(
        wds.SimpleShardList(shards),
        wds.shuffle(SHARDS),
        wds.split_by_node,
        wds.split_by_worker,
        wds.tarfile_to_samples(),
        wds.decode(),
        wds.to_tuple("__key__", "cls"),
    )


MAKERS = {"WebDataset": web_dataset, "DataPipeline": data_pipeline}


def epochs_of(loader, count=3):
    return [[key for key, _ in loader] for _ in range(count)]


def check(epochs):
    assert [sorted(epoch) for epoch in epochs] == [KEYS] * len(epochs), "not every sample exactly once"
    assert len({tuple(epoch) for epoch in epochs}) == len(epochs), "the order of an epoch came again"


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
@pytest.mark.parametrize(
    ("workers", "persistent"), [(0, False), (1, False), (2, True), (3, False), (4, False), (4, True)]
)
def test_forked_workers_read_every_sample_once_in_a_new_order(shards, make, workers, persistent):
    context = "fork" if workers else None
    loader = DataLoader(
        make(shards),
        batch_size=None,
        num_workers=workers,
        persistent_workers=persistent,
        multiprocessing_context=context,
    )
    check(epochs_of(loader))


@pytest.mark.parametrize("workers", [2, 3])
def test_shards_that_are_shuffled_before_they_are_split_come_once(shards, workers):
    loader = DataLoader(shuffled_before_the_split(shards), batch_size=None, num_workers=workers)
    check(epochs_of(loader))


@pytest.mark.parametrize(("workers", "persistent"), [pytest.param(1, False, marks=pytest.mark.long), (2, True)])
def test_spawned_workers_read_every_sample_once_in_a_new_order(shards, workers, persistent):
    loader = DataLoader(
        web_dataset(shards),
        batch_size=None,
        num_workers=workers,
        persistent_workers=persistent,
        multiprocessing_context="spawn",
    )
    check(epochs_of(loader, count=2))


@pytest.mark.long
@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
@pytest.mark.parametrize("persistent", [False, True], ids=["new", "persistent"])
@pytest.mark.parametrize("workers", [1, 2, 3, 4])
def test_spawned_workers_of_any_number(shards, make, workers, persistent):
    loader = DataLoader(
        make(shards),
        batch_size=None,
        num_workers=workers,
        persistent_workers=persistent,
        multiprocessing_context="spawn",
    )
    check(epochs_of(loader))


@pytest.mark.parametrize("workers", [0, 2])
def test_web_loader_is_the_same_loader(shards, workers):
    loader = wds.WebLoader(web_dataset(shards), batch_size=None, num_workers=workers)
    check(epochs_of(loader))


def test_batches_of_workers_are_rebatched_by_the_loader(shards):
    dataset = wds.WebDataset(shards, shardshuffle=False).decode().to_tuple("npy", "cls").batched(2)
    loader = wds.WebLoader(dataset, batch_size=None, num_workers=2).unbatched().shuffle(100).batched(10)
    sizes = [len(labels) for _, labels in loader]
    assert sizes == [10, 10, 10]


def test_torch_batches_samples_itself(shards):
    loader = DataLoader(web_dataset(shards), batch_size=7, num_workers=2)
    counted = Counter(key for keys, _ in loader for key in keys)
    assert counted == Counter(KEYS)


def test_the_order_does_not_depend_on_the_process(shards):
    """The same seed: the same order, in this process and in a single worker."""
    here = [key for key, _ in web_dataset(shards)]
    (there,) = epochs_of(DataLoader(web_dataset(shards), batch_size=None, num_workers=1), count=1)
    assert here == there


@pytest.mark.filterwarnings("ignore:this worker got no samples")
def test_D21_more_workers_than_shards_is_no_error(shards):
    few = shards.replace(f"{{0..{SHARDS - 1}}}", "{0..1}")
    dataset = wds.WebDataset(few, shardshuffle=False).to_tuple("__key__")
    assert len(list(DataLoader(dataset, batch_size=None, num_workers=4))) == 2 * PER_SHARD


@pytest.mark.parametrize("workers", [0, 2])
def test_with_epoch_on_the_dataset_counts_in_each_worker_and_on_the_loader_in_all(shards, workers):
    endless = wds.WebDataset(shards, resampled=True, seed=1).decode().to_tuple("__key__", "cls")
    per_worker = DataLoader(endless.with_epoch(4), batch_size=None, num_workers=workers)
    assert len(list(per_worker)) == 4 * max(1, workers)
    loader = wds.WebLoader(endless, batch_size=None, num_workers=workers).with_epoch(9)
    assert [len(list(loader)) for _ in range(2)] == [9, 9]


def test_a_trainer_s_questions_are_answered(shards):
    dataset = web_dataset(shards).with_length(len(KEYS))
    assert isinstance(dataset, IterableDataset)
    assert len(dataset) == 30
    assert len(DataLoader(dataset, batch_size=4, drop_last=True)) == 7
    with pytest.raises(TypeError, match="with_length"):
        len(web_dataset(shards))
    with pytest.raises(TypeError):
        len(wds.WebLoader(web_dataset(shards)))


def test_an_error_in_a_worker_names_the_shard(shards, tmp_path):
    (tmp_path / "bad.tar").write_bytes(b"x" * 2000)
    loader = DataLoader(wds.WebDataset(str(tmp_path / "bad.tar"), shardshuffle=False), batch_size=None, num_workers=1)
    with pytest.raises(wds.BadHeader, match=r"bad\.tar"):
        list(loader)


WITHOUT_TORCH = """
import sys

class NoTorch:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {"torch", "torchvision"}:
            raise ImportError(f"{name} is not installed")

sys.meta_path.insert(0, NoTorch())
import numpy as np
import webdataset as wds

dataset = (
    wds.WebDataset(sys.argv[1], shardshuffle=True, seed=1).shuffle(10).decode("rgb8").to_tuple("npy", "cls").batched(4)
)
batches = list(dataset)
assert sum(len(labels) for _, labels in batches) == 30
assert all(isinstance(arrays, np.ndarray) and arrays.shape[1:] == (3,) for arrays, _ in batches)
assert len(list(wds.DataPipeline(wds.SimpleShardList(sys.argv[1]), wds.split_by_worker, wds.tarfile_to_samples()))) == 30
try:
    wds.WebLoader(dataset, num_workers=2)
except wds.MissingDependency as error:
    assert "webdataset[torch]" in str(error)
else:
    raise SystemExit("WebLoader did not say that torch is missing")
from webdataset.pytorch import IterableDataset
assert not isinstance(dataset, IterableDataset)
assert sorted(wds.multi.MultiLoader(wds.DataPipeline(range(4), wds.split_by_worker), workers=2)) == [0, 1, 2, 3]
print("done")
"""


def test_without_torch_numpy_batches_come_out(shards):
    code = WITHOUT_TORCH.replace("wds.multi.", "__import__('webdataset.multi').multi.")
    done = subprocess.run([sys.executable, "-c", code, shards], capture_output=True, text=True)
    assert done.stdout.strip() == "done", done.stderr
