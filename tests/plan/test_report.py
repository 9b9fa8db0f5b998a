import numpy as np
import pytest

from webdataset.order import Order
from webdataset.plan import shuffle_report


def test_the_promise_is_what_happens():
    order = Order(np.random.default_rng(1).integers(50, 150, 64), window=16, seed=3)
    report = shuffle_report(order)
    shards, _ = order.locate(np.arange(len(order)))
    measured = (shards[1:] == shards[:-1]).mean()
    assert abs(report.ordered.same_shard - measured) < 0.01
    assert report.ordered.same_shard < 1.2 / 16


@pytest.mark.parametrize("window", [8, 32, None])
def test_neighbours_meet_at_most_1_2_times_in_k(window):
    order = Order([1000] * 100, window=window)
    report = shuffle_report(order, buffer=1000)
    assert report.ordered.same_shard <= 1.2 / (window or 100)
    assert report.buffered.same_shard > 0.3  # what a buffer of 1,000 gives on shards of 1,000
    assert report.ordered.shards_per_batch > min(window or 100, 80) * 0.9


def test_order_of_storage():
    report = shuffle_report(Order([10] * 10, window=0))
    assert report.ordered.displacement == 0 and report.ordered.same_shard == pytest.approx(90 / 99)


def test_the_shards_that_are_in_use():
    report = shuffle_report(Order([10, 20, 30, 40], window=2))
    assert str(report).splitlines()[-2].split() == ["shards", "in", "use", "at", "the", "same", "time", "2", "1"]
    assert report.ordered.bytes_fetched == 1.0
    assert report.svg().startswith("<svg") and report.svg().endswith("</svg>")


def test_degenerate_datasets():
    for counts in ([], [0], [1], [0, 5, 0]):
        assert "samples" in str(shuffle_report(Order(counts)))


def test_a_chunked_order_says_so():
    assert "chunks of 5" in str(shuffle_report(Order([100] * 4, window=8, chunk=5)))
