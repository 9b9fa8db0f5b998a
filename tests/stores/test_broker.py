"""A broker answers the request that was asked, or it is ended: also after an interrupt, a kill and a failure."""

import os
import signal
import threading

import psutil
import pytest

from webdataset.errors import StoreError
from webdataset.stores import _broker


@pytest.fixture
def store(tmp_path, monkeypatch):
    for name in "ab":
        (tmp_path / name).write_text(name)
    monkeypatch.chdir(tmp_path)
    _broker.close_brokers()  # an idle one of another test has another working directory
    yield _broker.BrokeredStore()
    _broker.close_brokers()


def brokers():
    return [child for child in psutil.Process().children() if "_broker_server" in " ".join(child.cmdline())]


class Interrupt(BaseException):
    pass


REQUESTS = {
    "stat": lambda store: store.stat("a"),
    "range": lambda store: store.read_range("a", 0, 1),
    "open": lambda store: store.open_read("a"),
    "write": lambda store: store.open_write("c"),
}


@pytest.mark.parametrize("ask", REQUESTS.values(), ids=list(REQUESTS))
def test_an_interrupted_request_is_not_answered_later(ask, store):
    store.stat("a")
    (broker,) = brokers()
    broker.suspend()  # so that it cannot answer before the interrupt

    def interrupt(_number, _frame):
        raise Interrupt

    earlier = signal.signal(signal.SIGUSR1, interrupt)
    timer = threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGUSR1))
    timer.start()
    try:
        with pytest.raises(Interrupt):
            ask(store)
    finally:
        timer.join()
        signal.signal(signal.SIGUSR1, earlier)
    for name in "abab":
        assert store.read_range(name, 0, 1) == name.encode()
    assert len(brokers()) == 1


@pytest.mark.parametrize("ask", REQUESTS.values(), ids=list(REQUESTS))
def test_a_broker_that_is_killed_is_a_typed_error_and_replaced(ask, store):
    store.stat("a")
    (broker,) = brokers()
    broker.kill()
    with pytest.raises(StoreError, match="broker"):
        ask(store)
    assert store.read_range("b", 0, 1) == b"b"


def test_a_broker_that_is_killed_is_a_typed_error_at_every_later_call(store, tmp_path):
    upload, stream = store.open_write(str(tmp_path / "c")), store.open_read("a")
    for broker in brokers():
        broker.kill()
        broker.wait()
    for act in [lambda: upload.write(b"x"), lambda: stream.read(1)] * 2 + [upload.close]:
        with pytest.raises(StoreError, match="the broker process for object stores ended"):
            act()
    stream.close()
    assert not (tmp_path / "c").exists()


def test_an_upload_that_is_refused_leaves_no_broker(store, tmp_path):
    for _ in range(3):
        with pytest.raises(StoreError, match="directory"):
            store.open_write(str(tmp_path))
    assert len(brokers()) == 1


@pytest.mark.parametrize("kill", [False, True])
def test_a_failed_upload_leaves_no_broker(kill, store, tmp_path):
    upload = store.open_write("c")
    upload.write(b"x")
    (tmp_path / "c").mkdir()  # which no file can replace
    if kill:
        for broker in brokers():
            broker.kill()
    with pytest.raises(StoreError):
        upload.close()
    assert len(brokers()) == (0 if kill else 1)
    assert store.stat("a").size == 1
    assert len(brokers()) == 1
