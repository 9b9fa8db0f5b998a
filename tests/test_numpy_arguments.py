"""A number of NumPy is taken wherever one of Python is: the same items, the same checkpoint."""

import json

import numpy as np
import pytest

import webdataset as wds
from webdataset.testing import make_shard


@pytest.fixture(scope="module")
def shards(tmp_path_factory):
    folder = tmp_path_factory.mktemp("shards")
    rows = [
        {"__key__": f"{n:02d}", "png": np.full((8, 6, 3), n, np.uint8), "npy": np.arange(3) + n, "cls": n}
        for n in range(12)
    ]
    names = [make_shard(folder / f"{n}.tar", rows[n * 3 : n * 3 + 3]) for n in range(4)]
    wds.index_shards(names)
    return names


def stream(shards, **options):
    return wds.WebDataset(shards, **{"index": False, "shardshuffle": False, **options})


def arrays(shards, **options):
    return stream(shards, **options).decode().to_tuple("npy")


def known(sample, number):
    return sample["__key__"], wds.rng(sample, number).random(), wds.rng(number).random()


# Each makes a dataset; `i` makes an integer and `f` a fraction, of Python or of NumPy.
MAKERS = {
    "seed": lambda shards, i, f: stream(shards, seed=i(3), shardshuffle=True),
    "shardshuffle": lambda shards, i, f: stream(shards, shardshuffle=i(2)),
    "shuffle": lambda shards, i, f: stream(shards).shuffle(i(5), initial=i(3), seed=i(3)),
    "detshuffle": lambda shards, i, f: stream(shards).compose(wds.detshuffle(i(5), i(3), seed=i(2), epoch=i(1))),
    "rsample": lambda shards, i, f: stream(shards).rsample(f(0.5)),
    "rsample all": lambda shards, i, f: stream(shards).rsample(i(1)),
    "slice": lambda shards, i, f: stream(shards).slice(i(1), i(9), i(2)),
    "with_epoch": lambda shards, i, f: stream(shards).with_epoch(i(5)),
    "repeat": lambda shards, i, f: stream(shards).repeat(i(2)),
    "batched": lambda shards, i, f: arrays(shards).batched(i(5)),
    "bucketed": lambda shards, i, f: arrays(shards).bucketed(i(2), boundaries=[i(3), f(8.5)], length=i(0)),
    "padded": lambda shards, i, f: arrays(shards).batched(4, collation_fn=wds.padded_collation(multiple=i(4))),
    "packed": lambda shards, i, f: stream(shards).decode().packed(i(8), "npy"),
    "decode": lambda shards, i, f: stream(shards).decode("rgb8", size=i(4), crop="random", flip=f(0.5)),
    "decode sides": lambda shards, i, f: stream(shards).decode("rgb8", size=[i(4), i(5)]),
    "rng": lambda shards, i, f: stream(shards).map(lambda sample: known(sample, i(7))),
    "read_ahead": lambda shards, i, f: stream(shards, read_ahead=i(2)),
    "SimpleShardList": lambda shards, i, f: wds.DataPipeline(wds.SimpleShardList(shards, seed=i(3))),
    "ResampledShards": lambda shards, i, f: wds.DataPipeline(
        wds.ResampledShards(shards, nshards=i(9), seed=i(3), worker_seed=lambda: i(2), deterministic=True)
    ),
    "mix": lambda shards, i, f: wds.mix(
        [(arrays(shards), i(2)), (arrays(shards), f(1.5))], per_batch=i(2), schedule=[(i(6), [f(0.5), i(1)])]
    ),
    "RandomMix": lambda shards, i, f: wds.RandomMix([stream(shards), stream(shards)], [i(1), f(0.5)], seed=i(3)),
    "order": lambda shards, i, f: stream(shards, index=True, order=i(2), seed=i(3)),
    "ArrayBatches": lambda shards, i, f: wds.DataPipeline(wds.ArrayBatches(shards, batchsize=i(5), seed=i(3))),
    "WebLoader": lambda shards, i, f: wds.WebLoader(
        arrays(shards, index=True), batch_size=i(4), num_workers=i(2), workers="threads", prefetch_factor=i(3)
    ),
}


def observed(dataset):
    """All items, and the checkpoint after the second."""
    items, seen, state = iter(dataset), [], None
    for item in items:
        seen.append(item)
        if len(seen) == 2:
            state = json.dumps(dataset.state_dict())
    dataset.close()
    return repr(seen), state


@pytest.mark.parametrize("name", MAKERS)
def test_the_same_as_with_numbers_of_python(name, shards):
    assert observed(MAKERS[name](shards, np.int64, np.float32)) == observed(MAKERS[name](shards, int, float))


def test_worker_processes(shards):
    """Not the text of the checkpoint: how many batches travel together, which it may refer to, depends on time."""
    batches = [
        repr(list(wds.WebLoader(arrays(shards), batch_size=integer(4), num_workers=integer(1))))
        for integer in (int, np.int64)
    ]
    assert batches[0] == batches[1]


def test_steps_and_epochs(shards):
    rest = {}
    for integer in (int, np.int64):
        loader = wds.WebLoader(stream(shards, index=True, shardshuffle=True), batch_size=4)
        loader.set_epoch(integer(2))
        loader.skip(integer(1))
        rest[integer] = repr(list(loader)), loader.samples_of_step(integer(1))
        loader.seek(integer(2))
        rest[integer] += (repr(list(loader)),)
    assert rest[int] == rest[np.int64]
    with pytest.raises(wds.SpecError, match=r"expected steps from 0 to 3 without gaps, got \[0, 1\]"):
        loader.skip([0, 1])


def test_writers(tmp_path):
    written = []
    for integer, fraction in ((int, float), (np.int64, np.float32)):
        pattern = str(tmp_path / f"{integer.__name__}-%d.tar")
        options = {"maxcount": integer(2), "maxsize": fraction(1e6), "start_shard": integer(3), "mtime": fraction(8)}
        with wds.ShardWriter(pattern, **options) as sink:
            for number in range(3):
                sink.write({"__key__": str(number), "cls": integer(number)})
        written.append([(tmp_path / f"{integer.__name__}-{n}.tar").read_bytes() for n in (3, 4)])
    assert written[0] == written[1]


def test_the_limit_of_a_cache(tmp_path, shards):
    assert len(list(stream(shards, cache_dir=tmp_path, cache_size=np.float32(1e6)))) == 12
