import pytest

from webdataset.loader._prefetch import Prefetcher
from webdataset.loader._meter import Meter


class StoppedWhileItLooks(Prefetcher):
    """Is told to stop when it has seen that nobody wants that yet, and before it looks for room."""

    def _has_room(self, size):
        if self._groups:
            self._stopped = True
            self._taken.put(None)
        return super()._has_room(size)


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
        pass
    ahead._thread.join(20)
    assert not ahead._thread.is_alive()
