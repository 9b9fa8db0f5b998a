"""Real connections that are slow, cut at any byte, half-open, or partitioned: the stream is the local one."""

import logging
import threading
from contextlib import ExitStack, contextmanager

import numpy as np
import pytest

import webdataset as wds
from tests.serve.pipelines import batches, plain, stream
from tests.serve.proxy import Proxy
from webdataset.serve import Worker
from webdataset.serve._message_parts import PART


def also_long(*values):
    return [pytest.param(value, marks=pytest.mark.long) for value in values]


LARGE = PART + 1000  # bytes of an item that comes in parts


def large_item(sample):
    return {"key": sample["__key__"], "image": np.full(LARGE, int(sample["__key__"]) % 251, np.uint8)}


def large(shards, batch=1):
    return wds.WebDataset(shards, order="random", seed=3).map(large_item).batched(batch)


@contextmanager
def served(make, count, **settings):
    """Proxies in front of so many workers."""
    with ExitStack() as stack:
        workers = [stack.enter_context(Worker(make())) for _ in range(count)]
        yield [stack.enter_context(Proxy(worker.address, **settings)) for worker in workers]


def connect(proxies, **options):
    return wds.connect([proxy.address for proxy in proxies], **{"patience": 0.5, "timeout": 60, **options})


@pytest.mark.parametrize(
    "settings", [{"delay": 0.05}, *also_long({"rate": 100_000}, {"delay": 0.2, "rate": 50_000})], ids=str
)
def test_latency_and_a_low_rate_change_nothing(few, settings):
    with served(lambda: batches(few), 2, **settings) as proxies:
        assert stream(connect(proxies, patience=2)) == stream(batches(few))


def test_large_arrays_over_a_slow_connection(few):
    with served(lambda: large(few), 2, rate=20 * PART, delay=0.01) as proxies:
        assert stream(connect(proxies, patience=2)) == stream(large(few))


# Within the greeting of ZeroMQ, within its handshake, at the first offer, within steps.
CUTS = [1, 63, 64, 65, 90, 100, 200, 400, 800, 1600, 3200, 6400, 9000]


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("direction", ["down", "up"])
@pytest.mark.parametrize("at", [*CUTS, pytest.param(range(1, 12000, 23), marks=pytest.mark.long)], ids=str)
def test_a_connection_that_is_cut_at_any_byte(few, at, direction):
    """The dataset connects once to agree and once to read; both are cut, and again after that."""
    expected = stream(batches(few))
    with served(lambda: batches(few), 1) as (proxy,):
        for byte in [at] if isinstance(at, int) else at:
            proxy.tell(cuts=[[byte, direction]] * 3)
            assert stream(connect([proxy])) == expected
            assert proxy.tell(cuts=[]) >= 2


@pytest.mark.parametrize("cut", [PART + 600, *also_long(PART - 1, PART, 2 * PART)])
def test_a_large_array_that_is_cut(few, cut):
    """Every connection to one worker is cut within the parts of an item; what came of it is thrown away."""
    with served(lambda: large(few), 2) as proxies:
        proxies[0].tell(cuts=[[20_000 + cut + extra, "down"] for extra in range(50)])
        assert stream(connect(proxies)) == stream(large(few))


STOPS = [["down"], ["up"], ["up", "down"]]


@pytest.mark.parametrize("stopped", [STOPS[0], *also_long(*STOPS[1:])], ids=str)
def test_a_worker_that_accepts_and_never_answers(few, stopped):
    with served(lambda: batches(few), 2) as proxies:
        proxies[0].tell(stopped=stopped)
        with pytest.raises(wds.StoreTimeout, match="no worker answers"):
            connect(proxies[:1], timeout=1)
        assert stream(connect(proxies)) == stream(batches(few))


@pytest.mark.parametrize("cut", [[0], *also_long([0, 1])], ids=["one", "both"])
@pytest.mark.parametrize("stopped", [STOPS[0], *also_long(*STOPS[1:])], ids=str)
def test_a_partition_in_the_middle_and_its_end(shards, caplog, stopped, cut):
    """Nothing is closed, nothing comes. The trainer says that a worker is gone; then the network heals."""
    gone, heal = set(), threading.Event()

    class Listen(logging.Handler):
        def emit(self, record):
            gone.update(proxy.address for proxy in proxies if f"{proxy.address} is gone" in record.getMessage())
            if len(gone) == len(cut):
                heal.set()

    def heal_when_gone():
        heal.wait()
        for proxy in proxies:
            proxy.tell(stopped=[])

    caplog.set_level(logging.INFO, logger="webdataset.serve")
    with served(lambda: batches(shards, 16), 2) as proxies:
        healer = threading.Thread(target=heal_when_gone)
        healer.start()
        logger, listener = logging.getLogger("webdataset.serve"), Listen()
        logger.addHandler(listener)
        try:
            seen = []
            for number, item in enumerate(connect(proxies), 1):
                seen.append(plain(item))
                if number == 3:
                    for which in cut:
                        proxies[which].tell(stopped=stopped)
        finally:
            heal.set()
            healer.join()
            logger.removeHandler(listener)
    assert seen == stream(batches(shards, 16))
    assert len(cut) == 1 or len(gone) == 2


@pytest.mark.parametrize("items", [1, 6, 40])
def test_what_is_made_ahead_has_a_limit_in_bytes(shards, items):
    """Where workers are quick and the trainer is not: `buffer`, and one request of a quarter of it; at least 2 steps."""
    with Worker(large(shards), threads=8, cache=0) as worker:
        dataset = wds.connect(worker.address, patience=5, timeout=60, buffer=items * LARGE)
        read = iter(dataset)
        for taken in range(1, 60):
            next(read)
            assert worker.stats()["made"] - taken <= max(2, items + items // 4)
        read.close()
