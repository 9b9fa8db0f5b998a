"""`Mutex`: whatever interrupts a `with` block, the lock is free afterwards."""

import signal
import sys
import threading
from pathlib import Path

import pytest

from webdataset.mutex import Mutex

SOURCES = Path(__file__).parents[1] / "src"


class Interrupted(Exception):
    pass


def is_free(mutex):
    taken = []
    other = threading.Thread(target=lambda: taken.append(mutex.acquire(blocking=False)) or mutex.release())
    other.start()
    other.join()
    return taken == [True]


@pytest.mark.parametrize("point", range(1, 6))
def test_an_exception_at_any_call_leaves_it_free(point):
    """Mutation: do not release it in `__enter__`."""
    mutex, seen = Mutex(), []

    def interrupt(frame, event, arg):
        if event in ("call", "c_return"):
            seen.append(event)
            if len(seen) == point:
                sys.setprofile(None)
                raise Interrupted

    sys.setprofile(interrupt)
    try:
        with mutex:
            str(mutex)
    except Interrupted:
        pass
    finally:
        sys.setprofile(None)
    assert is_free(mutex)


def test_a_signal_at_any_moment_leaves_it_free():
    """Mutation: let `Mutex` be `threading.Lock` (on Python 3.14)."""
    mutex, armed, held = Mutex(), [], 0

    def handler(*_):
        if armed:
            raise Interrupted

    before = signal.signal(signal.SIGALRM, handler)
    try:
        for number in range(300):
            try:
                armed.append(True)
                signal.setitimer(signal.ITIMER_REAL, 5e-5 + number % 37 * 1e-6)
                while True:
                    with mutex:
                        pass
            except Interrupted:
                pass
            armed.clear()
            held += mutex._is_owned()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert held == 0


def test_two_threads_never_have_it_at_once():
    mutex, inside, most = Mutex(), [], []

    def work():
        for _ in range(500):
            with mutex:
                inside.append(1)
                most.append(len(inside))
                inside.pop()

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert set(most) == {1}


def test_a_condition_over_it_waits_and_wakes():
    changed, seen = threading.Condition(Mutex()), []

    def waiter():
        with changed:
            changed.wait_for(lambda: seen)
            seen.append("woken")

    thread = threading.Thread(target=waiter)
    thread.start()
    with changed:
        seen.append("set")
        changed.notify_all()
    thread.join()
    assert seen == ["set", "woken"]


def test_no_other_file_makes_a_lock():
    found = [
        str(path) for path in SOURCES.rglob("*.py") if path.name != "mutex.py" and "threading.Lock(" in path.read_text()
    ]
    assert found == []
