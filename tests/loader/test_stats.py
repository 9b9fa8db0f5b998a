"""The bottleneck is named rightly where it is known. Delays are sleeps that stand for work; nothing asserts how long."""

import io
import time

import pytest

import webdataset as wds
from webdataset import stores
from webdataset.errors import SpecError
from webdataset.loader import WebLoader, profile, progress
from webdataset.loader._meter import Meter
from webdataset.loader._stats import thread_stats
from webdataset.pipeline import DataPipeline
from webdataset.testing import Fault, FaultServer, Schedule, make_shard

pytestmark = pytest.mark.filterwarnings("ignore:This DataLoader will create")


def slowly(number, seconds=0.003):
    time.sleep(seconds)
    return number


def slow_store():
    return map(slowly, range(100))


def spin(number):
    """Work that holds the GIL."""
    end = time.thread_time() + 0.002
    while time.thread_time() < end:
        pass
    return number


def slow_batch(samples):
    time.sleep(0.05)
    return samples


SETUPS = {
    "slow store": (slow_store, [], wds.batched(10, collation_fn=None), "reading", "0 slow_store", "cache_dir"),
    "slow decode": (
        range(100),
        [wds.map(slowly)],
        wds.batched(10, collation_fn=None),
        "functions",
        "1 Map(slowly)",
        "more threads",
    ),
    "two functions": (
        range(100),
        [wds.map(abs), wds.map(slowly)],
        wds.batched(10, collation_fn=None),
        "functions",
        "2 Map(slowly)",
        "more threads",
    ),
    "slow batching": (
        range(100),
        [wds.map(abs)],
        wds.batched(10, collation_fn=slow_batch),
        "shuffling, batching",
        "2 Batched",
        "one thread",
    ),
}


@pytest.mark.parametrize("name", SETUPS)
def test_the_bottleneck_of_threads_is_named(name):
    source, functions, batched, part, stage, advice = SETUPS[name]
    dataset = DataPipeline(source, *(functions or [wds.map(abs)]), batched)
    loader = WebLoader(dataset, batch_size=None, num_workers=2, workers="threads")
    items = len(list(loader))
    stats = loader.stats()
    assert (stats.bottleneck, stats.items) == (part, items)
    assert advice in stats.advice
    closer = profile(loader)
    assert closer.bottleneck == stage
    assert advice in closer.advice
    assert f"bottleneck: {stage} – " in str(closer)


@pytest.mark.parametrize("name", ["slow store", "slow decode", "slow batching"])
def test_the_bottleneck_without_workers_is_named(name):
    source, functions, batched, _, stage, _ = SETUPS[name]
    dataset = DataPipeline(source, *(functions or [wds.map(abs)]), batched)
    assert profile(dataset).bottleneck == stage


def test_the_bottleneck_of_processes_is_named():
    loader = WebLoader(
        DataPipeline(range(60), wds.map(slowly), wds.batched(10, collation_fn=None)), num_workers=1, batch_size=None
    )
    list(loader)
    assert loader.stats().bottleneck == "workers"
    assert profile(loader).bottleneck == "1 Map(slowly)"


@pytest.mark.parametrize("settings", [{"workers": "threads"}, {"batch_size": None}])
def test_a_slow_consumer_is_named(settings):
    loader = WebLoader(DataPipeline(range(40), wds.batched(4, collation_fn=None)), num_workers=1, **settings)
    for _ in loader:
        time.sleep(0.02)
    stats = loader.stats()
    assert stats.bottleneck == "consumer"
    assert "keeps up" in stats.advice
    assert profile(loader, step=lambda _: time.sleep(0.02)).bottleneck == "consumer"


def test_tiny_items_are_named():
    loader = WebLoader(DataPipeline(range(3000)), num_workers=1, batch_size=None)
    list(loader)
    stats = loader.stats()
    assert stats.bottleneck == "handing over"
    assert "batches" in stats.advice


@pytest.mark.parametrize("n", [0, 2])
def test_tiny_items_of_threads_are_to_be_batched(n):
    loader = WebLoader(DataPipeline(range(20_000)), batch_size=None, num_workers=n, workers="threads")
    list(loader)
    assert "make batches" in loader.stats().advice


@pytest.mark.parametrize(
    ("how", "kind", "advice"),
    [
        ({"workers": "threads", "num_workers": 2}, "rest", "workers='processes'"),
        ({"batch_size": None, "num_workers": 1}, "stage", "worker"),
    ],
)
def test_slow_batching_of_a_dataset_without_functions_is_not_reading(how, kind, advice):
    dataset = DataPipeline(range(60), wds.shuffle(5), wds.batched(10, collation_fn=slow_batch))
    report = profile(WebLoader(dataset, **how))
    assert report.bottleneck == "2 Batched"
    assert advice in report.advice
    assert ("one thread" in report.advice) == ("workers" in how)
    assert [part.kind for part in report.parts[:3]] == ["reading", kind, kind]


def test_shards_are_read_until_their_samples_are():
    shard = make_shard("memory://stats/a.tar", [{"__key__": str(n), "txt": "a"} for n in range(9)])
    report = profile(wds.WebDataset(shard, shardshuffle=True, read_ahead=2).shuffle(3).batched(3))
    kinds = {part.name.split(" ")[1]: part.kind for part in report.parts[:-1]}
    assert kinds["OpenAhead"] == kinds["ReadSamples"] == "reading"
    assert kinds["Shuffle"] == kinds["Batched"] == "rest"


def test_functions_that_hold_the_gil_are_told_from_those_that_wait():
    def named():
        loader = WebLoader(DataPipeline(range(150), wds.map(spin)), batch_size=None, num_workers=2, workers="threads")
        list(loader)
        return loader.stats().bottleneck, loader.stats().on_processor > 0.1

    # Whoever waits for the interpreter's lock looks busy too: on a crowded machine one run may name the other part.
    assert ("functions", True) in (named() for _ in range(5))


def test_before_anything_is_read_nothing_is_slow():
    stats = WebLoader(DataPipeline(range(3)), batch_size=None, num_workers=1, workers="threads").stats()
    assert (stats.slowest, stats.bottleneck, stats.advice) == (None, "nothing", "nothing has been read yet")


def test_rates_and_shares_are_those_of_the_run():
    loader = WebLoader(DataPipeline(range(50), wds.map(slowly)), batch_size=None, num_workers=2, workers="threads")
    list(loader)
    stats = loader.stats()
    functions = next(part for part in stats.parts if part.name == "functions")
    in_place = next(part for part in stats.parts if part.name == "functions in place")  # the first few
    assert functions.items + in_place.items == 50 and max(functions.rate, in_place.rate) <= 1 / 0.003
    assert all(0 <= part.share <= 1.05 for part in stats.parts)
    assert 0 <= stats.queue <= 1


def test_functions_have_the_time_of_all_threads():
    meter = Meter()
    meter._started -= 1.0
    spent = {"read": 0.3, "wait for functions": 0.6, "functions": 0.6, "ahead": 1.0, "wait": 1.0}
    for name, seconds in spent.items():
        meter.add(name, seconds, count=100)
    stats = thread_stats(meter, threads=4)
    functions = next(part for part in stats.parts if part.name == "functions")
    assert (functions.lane, functions.share) == ("pool", pytest.approx(0.15, rel=0.05))
    assert stats.bottleneck == "reading"


def test_profiling_leaves_the_loader_where_it_was():
    dataset = DataPipeline(range(10), wds.map(abs)).with_epoch(4)
    loader = WebLoader(dataset, batch_size=None, num_workers=1, workers="threads")
    profile(loader)
    assert list(loader) == [0, 1, 2, 3]
    dataset.close()


def test_progress_shows_one_line_with_the_bottleneck():
    screen = io.StringIO()
    loader = WebLoader(
        DataPipeline(range(40), wds.map(slowly)).with_length(40), batch_size=None, num_workers=1, workers="threads"
    )
    assert list(progress(loader, every=0.02, file=screen, mininterval=0)) == list(range(40))
    assert "slowest: functions" in screen.getvalue() and "40/40" in screen.getvalue()


class Letters:
    def __len__(self):
        return 2

    def __getitem__(self, i):
        return "ab"[i]


@pytest.mark.parametrize("loader", [DataPipeline(["a", "b"]), WebLoader(Letters(), batch_size=None)])
def test_progress_of_what_is_not_measured_shows_the_rate(loader):
    screen = io.StringIO()
    assert list(progress(loader, every=0, file=screen, mininterval=0, unit=" letters")) == ["a", "b"]
    assert "letters/s" in screen.getvalue() and "slowest" not in screen.getvalue()


def test_what_cannot_be_measured_is_refused():
    with pytest.raises(SpecError, match="not a DataPipeline"):
        WebLoader(Letters(), batch_size=None).stats()
    with pytest.raises(SpecError, match="not a DataPipeline"):
        profile(WebLoader(Letters(), batch_size=None))
    with pytest.raises(SpecError, match="seconds"):
        profile(DataPipeline(range(3)), seconds=0)


def test_two_groups_of_functions_are_not_taken_for_reading():
    dataset = DataPipeline(
        range(100), wds.map(slowly), wds.shuffle(5), wds.map(slowly), wds.batched(10, collation_fn=None)
    )
    loader = WebLoader(dataset.repeat(2), batch_size=None, num_workers=2, workers="threads")
    list(loader)
    assert loader.stats().bottleneck == "functions"
    assert sum(part.items for part in loader.stats().parts if part.name.startswith("functions")) == 400


@pytest.mark.parametrize("how", [{"num_workers": 2}, {"num_workers": 0}, {"num_workers": 1, "workers": "threads"}])
def test_what_the_stores_moved_is_told_wherever_it_was_read(how, tmp_path):
    """Bytes, retries and cache hits, summed over the worker processes; each epoch counts for itself."""
    samples = [{"__key__": f"{n}", "bin": bytes(50_000)} for n in range(4)]
    shard = stores.open_read(make_shard("memory://moved/a.tar", samples)).read()
    with FaultServer() as server:
        cut = Schedule((Fault(60_000, "cut"),))
        urls = [server.add(f"{n}.tar", shard, cut) for n in range(4)]
        dataset = wds.WebDataset(urls, shardshuffle=False, cache_dir=tmp_path)
        loader = WebLoader(dataset, batch_size=None, **how)
        assert len(list(loader)) == 16
        moved = loader.stats().moved
        assert moved["http.bytes"] == 4 * len(shard)
        assert moved["http.retries"] == 4
        assert moved["cache.misses"] == 4
        assert loader.stats().rates["http"] > 0
        assert "4 retries" in str(loader.stats())
        assert len(list(loader)) == 16
        assert loader.stats().moved["cache.hits"] == 4
        assert "http.bytes" not in loader.stats().moved
        stores.close_connections()


@pytest.mark.parametrize(("on_processor", "named"), [
    ({"1 Map(holds)": 2.4, "2 Map(waits)": 0.1}, "1 Map(holds)"),  # together one processor of four: the lock
    ({"1 Map(holds)": 0.02, "2 Map(waits)": 0.01}, "2 Map(waits)"),  # none of them computes: they wait for something else
    ({"1 Map(holds)": 3.0, "2 Map(waits)": 6.0}, "2 Map(waits)"),  # all of them compute, at once
])  # fmt: skip
def test_the_function_that_holds_the_lock_is_named_not_the_one_that_waits(on_processor, named):
    """Both have four threads for 2.3 s; one computes in Python, and the other waits for the interpreter lock."""
    meter = Meter()
    for name, seconds in {"1 Map(holds)": 3.0, "2 Map(waits)": 6.0}.items():
        meter.add(f"function {name}", seconds, count=100)
        meter.add(f"on a processor: function {name}", on_processor[name], count=100)
    meter.add("functions", 9.0, count=100)
    meter.add("functions on a processor", sum(on_processor.values()), count=100)
    parts = [part for part in thread_stats(meter, 4).parts if part.kind == "functions"]
    assert max(parts, key=lambda part: part.seconds).name == named
