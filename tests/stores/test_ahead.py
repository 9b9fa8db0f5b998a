"""Read-ahead: the same bytes in the same order, in bounded memory, and nothing left running."""

import io
import random
import threading

import pytest

from webdataset import stores
from webdataset.errors import ShardNotFound, SpecError, StoreError
from webdataset.stores import HttpStore, Patience, ReadAhead
from webdataset.stores._read_ahead import _Shared
from webdataset.testing import Fault, FaultServer, Schedule


@pytest.fixture(params=["slow", "fast"], autouse=True)
def place(request, monkeypatch):
    """Slow places are read ahead, fast ones by the consumer itself; what is told below holds for both."""
    monkeypatch.setattr(_Shared, "slow", request.param == "slow")
    return request.param


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


def test_memory_is_bounded_and_only_depth_streams_are_open(monkeypatch):
    monkeypatch.setattr(_Shared, "slow", True)
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
            assert stream.read(len(DATA[0])) == DATA[0][:300_000]
            with pytest.raises(StoreError):
                stream.read()
        stores.close_connections()


def test_a_fast_place_is_read_by_the_consumer_alone(place):
    """Its threads open the shards and read nothing."""
    readers = set()

    class Source(io.BytesIO):
        def read(self, size=-1):
            readers.add(threading.current_thread())
            return super().read(size)

        read1 = read

    with ReadAhead([b"a", b"b"], lambda item: Source(item * 1_000_000)) as streams:
        assert [stream.read(2_000_000)[:1] for stream in streams] == [b"a", b"b"]
    assert (readers == {threading.current_thread()}) == (place == "fast")


@pytest.mark.parametrize("way", ["read", "readinto", "peek"])
def test_a_place_that_keeps_the_consumer_waiting_is_read_ahead(monkeypatch, way):
    monkeypatch.setattr(_Shared, "slow", False)
    others = threading.Event()

    class Source(io.BytesIO):
        def read(self, size=-1):
            if threading.current_thread() is not threading.main_thread():
                others.set()
            else:
                stores.pause(0.06)  # a slow place; the threads of the next shards begin when that is known
            return super().read(size)

        read1 = read

        def readinto(self, view):
            piece = self.read(len(view))
            view[: len(piece)] = piece
            return len(piece)

    ways = {
        "read": lambda stream: stream.read(10),
        "readinto": lambda stream: stream.readinto(bytearray(100_000)),
        "peek": lambda stream: stream.peek(1),
    }
    with ReadAhead([b"a", b"b"], lambda item: Source(item * 1_000_000)) as streams:
        first = next(streams)
        ways[way](first)
        assert others.wait(10)
        assert set(first.read(10)) == set(b"a")
        assert next(streams).read() == b"b" * 1_000_000


def test_all_ways_of_reading_may_be_mixed():
    with ReadAhead([DATA[0]], io.BytesIO) as streams:
        stream, found = next(streams), b""
        for size in (10, 1000, 70_000, 3):
            room = bytearray(size)
            found += stream.read(size)
            found += stream.read1(size)
            assert stream.peek(1)[:1] == DATA[0][len(found) : len(found) + 1]
            count = stream.readinto(room)
            found += room[:count]
            assert stream.tell() == len(found)
        assert found + stream.read() == DATA[0]


def test_leaving_does_not_wait_for_a_place_that_is_down():
    """The next shard's server is down, and patience would last for hours."""
    with FaultServer() as server:
        url = server.add("a", DATA[0], Schedule(tuple(Fault(0, "503") for _ in range(99))))
        store = HttpStore(Patience(tries=50, first=1000, longest=1000))
        openers = {"here": io.BytesIO, "there": lambda _: store.open_read(url)}
        with ReadAhead([("here", b"hello"), ("there", b"")], lambda item: openers[item[0]](item[1])) as streams:
            assert next(streams).read() == b"hello"
            while not server.requests("a"):
                threading.Event().wait(0.01)
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
