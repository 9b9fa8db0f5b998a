"""Read-ahead: the same bytes in the same order, in bounded memory, and nothing left running."""

import io
import random
import threading

import pytest

from webdataset import stores
from webdataset.errors import ShardNotFound, SpecError, StoreError
from webdataset.stores import HttpStore, Patience, ReadAhead
from webdataset.testing import Fault, FaultServer, Schedule

DATA = [random.Random(n).randbytes(400_000 + n) for n in range(8)]


@pytest.mark.parametrize("depth", [1, 2, 4, 99])
@pytest.mark.parametrize("budget", [1, 300_000, 10**9])
def test_order_and_contents(depth, budget):
    with FaultServer() as server:
        urls = [server.add(f"{n}", data, Schedule((Fault(1000 * n, "cut"),))) for n, data in enumerate(DATA)]
        with ReadAhead(iter(urls), HttpStore(Patience(first=0.001)).open_read, budget, depth) as streams:
            found = []
            for stream in streams:
                found.append((stream.item, stream.read()))
                assert stream.size == len(found[-1][1])
        assert found == list(zip(urls, DATA, strict=True))
        stores.close_connections()


def test_memory_is_bounded_and_only_depth_streams_are_open():
    opened, waiting = [], threading.Event()

    class Endless(io.RawIOBase):
        def __init__(self, name):
            opened.append(name)
            self.given = 0

        def read(self, size):
            self.given += size
            totals[self] = self.given
            if sum(totals.values()) >= 4 << 20:
                waiting.set()
            return bytes(size)

    totals = {}
    with ReadAhead(range(100), Endless, budget_bytes=4 << 20, depth=3) as streams:
        stream = next(streams)
        assert waiting.wait(10)
        assert stream.read(10) == bytes(10)
        assert len(opened) <= 3
        assert sum(totals.values()) <= (4 << 20) + (1 << 20)


def test_the_stream_in_use_never_waits_for_those_ahead():
    """They may hold the whole budget; it still gets its pieces."""
    with ReadAhead(
        [b"a", b"b", b"c"], lambda item: io.BytesIO(item * 2_000_000), budget_bytes=300_000, depth=3
    ) as streams:
        assert [stream.read() for stream in streams] == [b"a" * 2_000_000, b"b" * 2_000_000, b"c" * 2_000_000]


def test_errors_come_in_their_turn_and_iteration_goes_on():
    with stores.open_write("memory://ahead-errors/a") as stream:
        stream.write(b"hello")
    streams = ReadAhead(["memory://ahead-errors/a", "memory://ahead-errors/none", "memory://ahead-errors/a"])
    assert next(streams).read() == b"hello"
    with pytest.raises(ShardNotFound):
        next(streams)
    assert next(streams).read() == b"hello"
    with pytest.raises(StopIteration):
        next(streams)
    streams.close()


def test_an_error_in_the_middle_comes_after_the_bytes_before_it():
    with FaultServer() as server:
        url = server.add("a", DATA[0], Schedule((Fault(300_000, "gone"),)))
        with ReadAhead([url]) as streams:
            stream = next(streams)
            assert stream.read() == DATA[0][:300_000]
            with pytest.raises(StoreError):
                stream.read()
        stores.close_connections()


def test_early_ends_leave_no_thread():
    with FaultServer() as server:
        urls = [server.add(f"{n}", data) for n, data in enumerate(DATA)]
        for count in (0, 1, 3):
            with ReadAhead(urls, depth=4) as streams:
                for _ in range(count):
                    next(streams).read(10)
        stores.close_connections()
    assert not [thread for thread in threading.enumerate() if "ahead" in thread.name]


def test_bad_settings():
    with pytest.raises(SpecError):
        ReadAhead([], depth=0)
    with pytest.raises(SpecError):
        ReadAhead([], budget_bytes=0)
