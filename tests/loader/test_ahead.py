import threading
import time

import pytest

from webdataset.loader._prefetch import Prefetcher
from webdataset.loader._meter import Meter


class StoppedWhileItLooks(Prefetcher):
    """Is told to stop when it has seen that nobody wants that yet, and before it looks for room."""

    def _has_space(self, size):
        if self._groups:
            self._stopped = True
            self._taken.put(None)
        return super()._has_space(size)


def test_a_thread_that_is_stopped_while_it_looks_for_room_ends():
    ahead = StoppedWhileItLooks(lambda: iter([bytes(100)] * 3), items=1, memory=100, meter=Meter())
    ahead._thread.start()
    ahead._thread.join(5)
    waits_for_ever = ahead._thread.is_alive()
    ahead.__exit__()
    assert not waits_for_ever


def test_a_thread_whose_start_was_interrupted_ends(monkeypatch):
    ahead = Prefetcher(lambda: iter(range(10**9)), items=2, memory=1 << 20, meter=Meter())
    start = ahead._thread.start

    def interrupted():
        start()
        raise KeyboardInterrupt

    monkeypatch.setattr(ahead._thread, "start", interrupted)
    with pytest.raises(KeyboardInterrupt), ahead:
        for _ in ahead:
            time.sleep(0.01)  # the consumer has work of its own, so a thread is started
    ahead._thread.join(20)
    assert not ahead._thread.is_alive()


def test_a_consumer_that_only_takes_items_makes_them_itself():
    """Mutation: start the thread with the first item."""
    makers = set()

    def items():
        for number in range(50):
            makers.add(threading.current_thread())
            time.sleep(0.001)
            yield number

    with Prefetcher(items, items=2, memory=1 << 20, meter=Meter()) as ahead:
        assert list(ahead) == list(range(50))
    assert makers == {threading.current_thread()}


def test_a_consumer_that_works_is_prefetched_for():
    """Mutation: never start the thread."""
    made = threading.Semaphore(0)

    def items():
        for number in range(10):
            made.release()
            yield number

    with Prefetcher(items, items=2, memory=1 << 20, meter=Meter()) as ahead:
        numbers = iter(ahead)
        found = [next(numbers)]
        time.sleep(0.01)
        found.append(next(numbers))
        while made._value < 4:  # two that were taken, and two that wait
            time.sleep(0.001)
        assert found + list(numbers) == list(range(10))
