import json
import tracemalloc
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from webdataset.errors import SpecError
from webdataset.order import Order

COUNTS = st.lists(st.integers(0, 30), max_size=20)
WINDOWS = st.one_of(st.none(), st.integers(0, 25))
CHUNKS = st.one_of(st.none(), st.integers(1, 12))


def everything(counts):
    return [(shard, number) for shard, count in enumerate(counts) for number in range(count)]


def listed(order):
    shards, numbers = order.locate(np.arange(len(order)))
    return list(zip(shards.tolist(), numbers.tolist()))


@given(COUNTS, WINDOWS, CHUNKS, st.integers(0, 2**32), st.integers(0, 100))
@settings(max_examples=150)
def test_every_sample_exactly_once(counts, window, chunk, seed, epoch):
    order = Order(counts, seed=seed, epoch=epoch, window=window, chunk=chunk)
    items = listed(order)
    assert len(order) == len(items) == sum(counts) and sorted(items) == everything(counts)
    for position in range(0, len(items), max(1, len(items) // 10)):  # alone as among all
        assert [array.tolist() for array in order.locate([position])] == [[each] for each in items[position]]


@given(COUNTS, st.integers(1, 25), CHUNKS)
@settings(max_examples=80)
def test_a_window_holds_what_it_says(counts, window, chunk):
    order = Order(counts, seed=1, window=window, chunk=chunk)
    items, start = listed(order), 0
    windows, shards, held = (column.tolist() for column in order.contents())
    for which in sorted(set(windows)):
        expected = {shard: n for at, shard, n in zip(windows, shards, held) if at == which and n}
        stop = start + sum(expected.values())
        assert Counter(shard for shard, _ in items[start:stop]) == expected
        start = stop
    assert start == len(order)


@given(st.lists(st.integers(1, 9), min_size=1, max_size=60), st.integers(1, 25))
def test_windows_have_at_least_their_number_of_shards(counts, window):
    order = Order(counts, window=window)
    windows, shards, held = order.contents()
    sizes = np.bincount(windows)
    assert sizes.min() >= min(window, len(counts)) and sizes.max() - sizes.min() <= 1
    assert sizes.max() <= max(
        window + -(-window // max(1, len(counts) // window)), len(counts) if len(counts) < 2 * window else 0
    )
    assert sorted(shards.tolist()) == list(range(len(counts))) and held.tolist() == [counts[s] for s in shards]


def test_storage_order():
    counts = [3, 0, 2]
    assert listed(Order(counts, window=0)) == everything(counts) == listed(Order(counts, window=0, seed=9, epoch=9))


def test_a_window_of_one_keeps_shards_together_and_shuffles_inside():
    order = Order([50] * 8, window=1)
    shards, numbers = order.locate(np.arange(400))
    blocks = shards.reshape(8, 50)
    assert (blocks == blocks[:, :1]).all() and blocks[:, 0].tolist() != list(range(8))
    assert all(numbers.reshape(8, 50)[i].tolist() != list(range(50)) for i in range(8))


def test_D11_every_epoch_and_every_seed_has_its_own_order():
    seen = {tuple(listed(Order([7] * 9, seed=seed, epoch=epoch))) for seed in range(6) for epoch in range(6)}
    assert len(seen) == 36


def test_a_global_shuffle_mixes_everything():
    order = Order([1000] * 50, window=None)
    shards, _ = order.locate(np.arange(50_000))
    assert (shards[1:] == shards[:-1]).mean() < 1.2 / 50
    assert abs(np.corrcoef(np.arange(50_000), shards)[0, 1]) < 0.02


def test_a_chunked_order_draws_from_a_window_of_chunks():
    order = Order([1000] * 20, window=16, chunk=50, seed=2)
    shards, numbers = order.locate(np.arange(800))
    assert len(set(zip(shards.tolist(), (numbers // 50).tolist()))) == 16
    assert (np.diff(numbers) != 1).mean() > 0.95


def test_a_billion_samples_start_at_once():
    counts = np.random.default_rng(0).integers(9_000, 11_000, 100_000)
    tracemalloc.start()
    order = Order(counts, seed=1, epoch=1, window=32)
    order.locate([len(order) - 1])
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert len(order) > 900_000_000
    assert peak < 40_000_000  # bytes: O(shards), not O(samples)


def test_more_than_32_bits():
    order = Order([2**40, 2**41], window=None)
    positions = np.arange(3 * 2**40 - 1000, 3 * 2**40)
    shards, numbers = order.locate(positions)
    assert len(set(zip(shards.tolist(), numbers.tolist()))) == 1000
    assert (numbers < np.array([2**40, 2**41])[shards]).all() and numbers.max() > 2**32


def test_golden_keys():
    """The first 1,000 samples per (seed, epoch) are pinned: a change is a change of ORDER and belongs in the changelog."""
    golden = json.loads((Path(__file__).parent / "golden_order.json").read_text())
    counts = [17 + (31 * shard) % 59 for shard in range(40)]
    for name, expected in golden.items():
        seed, epoch, window, chunk = (None if part == "-" else int(part) for part in name.split(","))
        shards, numbers = Order(counts, seed=seed, epoch=epoch, window=window, chunk=chunk).locate(np.arange(1000))
        assert " ".join(f"{s}/{n}" for s, n in zip(shards, numbers)) == expected, name
    assert len(golden) == 10


@pytest.mark.parametrize(
    "wrong", [{"counts": [-1]}, {"counts": [[1]]}, {"counts": [1], "window": -1}, {"counts": [1], "chunk": 0}]
)
def test_wrong_arguments_fail_at_construction(wrong):
    with pytest.raises(SpecError):
        Order(**wrong)


def test_positions_outside():
    order = Order([3, 2])
    for wrong in (5, -1):
        with pytest.raises(IndexError, match="from 0 to 4"):
            order.locate([0, wrong])
    assert (
        [array.tolist() for array in order.locate([])] == [[], []] == [array.tolist() for array in Order([]).locate([])]
    )
