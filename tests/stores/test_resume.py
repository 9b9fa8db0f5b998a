"""Unbreakable streams: whatever a server does, every byte once or one typed error that names shard and offset."""

import random
import ssl
import subprocess
import threading

import pytest

from webdataset import stores
from webdataset.errors import ShardNotFound, StoreError, StoreTimeout
from webdataset.stores import HttpStore, Patience
from webdataset.testing import Fault, FaultServer, PASSING, Schedule

# Five faults at one byte can be ten failures in a row: a cut, then a bad status.
QUICK = Patience(tries=12, first=0.001, longest=0.01)
DATA = random.Random(0).randbytes(700_000)


@pytest.fixture
def short_timeouts(monkeypatch):
    """For servers that stall. A busy machine may stall as long by itself, and then everything must heal all the same."""
    monkeypatch.setenv("WDS_TIMEOUT", "0.5")


@pytest.fixture
def server():
    with FaultServer() as server:
        yield server
        stores.close_connections()


@pytest.fixture
def store():
    return HttpStore(QUICK)


def read_in_pieces(stream, seed):
    """By every verb that a reader may use, in any order."""
    rng, pieces = random.Random(seed), []

    def into(size):
        room = bytearray(size)
        return bytes(room[: stream.readinto(room)])

    with stream:
        while piece := rng.choice([stream.read, stream.read1, into])(rng.choice([1, 512, 10_240, 100_000, 1 << 20])):
            pieces.append(piece)
    return b"".join(pieces)


@pytest.mark.usefixtures("short_timeouts")
@pytest.mark.parametrize("kind", PASSING)
@pytest.mark.parametrize("offset", [0, 1, 65_536, 400_001, len(DATA)])
def test_each_fault_at_each_place_heals(server, store, kind, offset):
    url = server.add("a", DATA, Schedule((Fault(offset, kind),)))
    assert read_in_pieces(store.open_read(url), 1) == DATA


@pytest.mark.parametrize(
    "options", [{"ranges": False}, {"etags": False}, {"chunked": True}, {"ranges": False, "etags": False}]
)
def test_servers_without_ranges_etags_or_lengths(server, store, options):
    faults = (Fault(0, "cut"), Fault(100_000, "reset"), Fault(300_000, "cut"))
    url = server.add("a", DATA, Schedule(faults, **options))
    assert read_in_pieces(store.open_read(url), 2) == DATA
    assert store.open_read(url, 650_000).read() == DATA[650_000:]


def test_a_server_without_ranges_can_be_refused(server):
    url = server.add("a", DATA, Schedule((Fault(100_000, "cut"),), ranges=False))
    strict = HttpStore(Patience(first=0.001, restart=False))
    with strict.open_read(url) as stream, pytest.raises(StoreError, match="cannot send parts") as caught:
        assert len(stream.read()) == 100_000
        stream.read()
    assert caught.value.where.offset == 100_000
    assert caught.value.where.shard == url


@pytest.mark.parametrize("etags", [True, False])
@pytest.mark.parametrize("ranges", [True, False])
def test_an_object_that_changes_is_an_error(server, store, etags, ranges):
    url = server.add("a", DATA, Schedule((Fault(100_000, "changed"),), etags=etags, ranges=ranges))
    with store.open_read(url) as stream:
        assert stream.read(len(DATA)) == DATA[:100_000]
        with pytest.raises(StoreError, match="changed while it was read") as caught:
            stream.read(1)
        assert caught.value.where.offset == 100_000


def test_reading_everything_raises_when_there_is_no_everything(server, store):
    """`read()` that returned what came before the failure would look like the whole object."""
    url = server.add("a", DATA, Schedule((Fault(100_000, "gone"),)))
    with store.open_read(url) as stream:
        for _ in range(2):
            with pytest.raises(ShardNotFound):
                stream.read()
    with pytest.raises(ShardNotFound), store.open_read(url) as stream:
        stream.readall()


def test_a_server_that_never_recovers(server, store):
    url = server.add("a", DATA, Schedule(tuple(Fault(5000, "503") for _ in range(99))))
    with store.open_read(url) as stream:
        assert stream.read(9999) == DATA[:5000]
        with pytest.raises(StoreError, match="gave up after 13 tries") as caught:
            stream.read(1)
    assert (caught.value.where.shard, caught.value.where.offset) == (url, 5000)
    assert not caught.value.retryable


def test_a_redirect_loop_and_a_vanished_object(server, store):
    url = server.add("a", DATA, Schedule((Fault(5000, "loop"),)))
    with store.open_read(url) as stream, pytest.raises(StoreError, match="redirects"):
        while stream.read(99_999):
            pass
    url = server.add("b", DATA, Schedule((Fault(5000, "gone"),)))
    with store.open_read(url) as stream, pytest.raises(ShardNotFound) as caught:
        while stream.read(99_999):
            pass
    assert caught.value.where.offset == 5000


def test_a_stall_that_lasts_is_a_timeout(server, monkeypatch):
    monkeypatch.setenv("WDS_TIMEOUT", "3")  # much longer than a busy machine takes to send the first 5,000 bytes
    url = server.add("a", DATA, Schedule(tuple(Fault(5000, "stall") for _ in range(9))))
    with HttpStore(Patience(tries=0)).open_read(url) as stream, pytest.raises(StoreTimeout) as caught:
        while stream.read(99_999):
            pass
    assert caught.value.where.offset == 5000


def test_an_end_that_nothing_vouches_for(server):
    """No length, no ranges: a cut cannot be told from the end, so it is refused unless the user accepts it."""
    url = server.add("a", DATA, Schedule((Fault(5000, "no-length"), Fault(5000, "no-length")), ranges=False))
    with HttpStore(QUICK).open_read(url) as stream, pytest.raises(StoreError, match="without a length"):
        while stream.read(99_999):
            pass
    url = server.add("a", DATA, Schedule((Fault(5000, "no-length"),), ranges=False))
    with HttpStore(Patience(unverified=True)).open_read(url) as stream:
        assert stream.read() == DATA[:5000]


def test_retry_after_is_obeyed(server, store, monkeypatch):
    waits = []
    monkeypatch.setattr("webdataset.stores._resuming_stream.time.sleep", waits.append)
    url = server.add("a", DATA, Schedule((Fault(10, "429"),)))
    assert store.open_read(url).read() == DATA
    assert waits[1:] == []  # one for the cut; the server asked for no wait at all


def test_retry_after_may_be_a_date_and_has_a_limit():
    from webdataset.stores._request import _seconds
    from webdataset.stores._resuming_stream import Backoff, retryable

    assert _seconds("7") == 7
    assert _seconds("Sun, 06 Nov 1994 08:49:37 GMT") == 0
    assert _seconds("soon") is None
    with pytest.raises(StoreError, match="asked to wait 999 s"):
        Backoff(Patience(asked=300), "u").failed(retryable(StoreError("busy"), 999))


def test_waits_grow_and_are_bounded(monkeypatch):
    from webdataset.stores._resuming_stream import Backoff, retryable

    waits = []
    monkeypatch.setattr("webdataset.stores._resuming_stream.time.sleep", waits.append)
    backoff = Backoff(Patience(tries=12, first=1, longest=8), "u")
    for _ in range(12):
        backoff.failed(retryable(StoreError("x")))
    assert all(low <= wait <= high for wait, low, high in zip(waits, [0.5, 1, 2] + [4] * 9, [1, 2, 4] + [8] * 9))


def test_a_reset_loses_no_more_than_what_was_on_the_wire(server, store):
    url = server.add("a", DATA, Schedule(tuple(Fault(n * 100_000, "cut") for n in range(1, 7))))
    before = stores.counters.snapshot()
    assert store.open_read(url).read() == DATA
    assert server.sent("a") <= 1.05 * len(DATA)
    grown = stores.counters.since(before)
    assert grown["http.bytes"] == len(DATA)
    assert grown["http.retries"] == 6


def follow_schedules(seeds):
    """Read under many schedules; returns (silent losses, wrongly failed, bytes sent for range servers, bytes wanted)."""
    lost, failed, sent, wanted = [], [], 0, 0
    store = HttpStore(QUICK)
    with FaultServer() as server:
        for seed in seeds:
            size = random.Random(seed).choice([0, 1, 5000, 100_000, 500_000])
            schedule = Schedule.random(seed, size)
            url = server.add(f"{seed}", DATA[:size], schedule)
            try:
                data = read_in_pieces(store.open_read(url), seed)
            except StoreError as error:
                lengths = {"no-length", "long-length"}  # a server without ranges gives no second opinion on its length
                unverifiable = not schedule.ranges and any(fault.kind in lengths for fault in schedule.faults)
                if schedule.heals and not unverifiable:
                    failed.append((seed, str(error)))
                assert error.where.shard == url
                assert error.where.offset is not None
            else:
                if data != DATA[:size] and not _replaced(data, size):
                    lost.append((seed, len(data), size))
            if schedule.ranges and schedule.etags and schedule.heals:  # else the beginning is read again, to be sure
                sent, wanted = sent + server.sent(f"{seed}"), wanted + size
        stores.close_connections()
    return lost, failed, sent, wanted


def _replaced(data, size):
    """The object was replaced before its first byte was read: the new one, whole, is the right answer."""
    return data == bytes(byte ^ 0xFF for byte in DATA[:size])


def verdict(seeds):
    lost, failed, sent, wanted = follow_schedules(seeds)
    assert not lost
    assert not failed
    assert sent <= 1.05 * wanted, f"{sent / wanted:.3f} times the bytes were sent"


@pytest.mark.usefixtures("short_timeouts")
@pytest.mark.parametrize("seeds", [range(40), pytest.param(range(40, 200), marks=pytest.mark.long)], ids=str)
def test_200_schedules(seeds):
    verdict(seeds)


@pytest.mark.usefixtures("short_timeouts")
@pytest.mark.long
@pytest.mark.parametrize("part", range(20))
def test_10_000_schedules(part):
    verdict(range(1000 + part * 500, 1500 + part * 500))


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tls")
    made = subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", "key.pem", "-out", "cert.pem"]
        + ["-days", "2", "-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1"],
        cwd=folder,
        capture_output=True,
    )
    if made.returncode:
        pytest.skip("openssl is not installed")
    return folder


def test_truncated_tls(certificate, store, monkeypatch):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate / "cert.pem", certificate / "key.pem")
    with FaultServer(context) as server:
        url = server.add("a", DATA, Schedule((Fault(5000, "cut"), Fault(90_000, "reset"), Fault(99_000, "no-length"))))
        with pytest.raises(StoreError, match="certificate is not trusted"):
            store.open_read(url)
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate / "cert.pem"))
        stores.close_connections()
        assert store.open_read(url).read() == DATA
        stores.close_connections()


def test_many_threads_share_the_connections(server, store):
    urls = [server.add(f"{n}", DATA, Schedule((Fault(n * 1000, "reset"),))) for n in range(8)]
    results = {}
    threads = [threading.Thread(target=lambda u=u: results.__setitem__(u, store.open_read(u).read())) for u in urls]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(results[url] == DATA for url in urls)
