"""A lock that Ctrl-C cannot leave held."""

from __future__ import annotations

import threading


class Mutex(type(threading.RLock())):  # type: ignore[misc]  # the class has no public name
    """A lock for `with`.

    >>> mutex = Mutex()
    >>> with mutex:
    ...     print("held")
    held

    Since Python 3.14 a signal handler may raise after `with` has taken a `threading.Lock` and before its block begins.
    The lock is then held for ever. Here that moment is inside `__enter__`, which releases the lock again. `__exit__` is
    that of the base class: a method written in Python could be interrupted before it releases the lock.
    """

    def __enter__(self) -> None:
        try:
            self.acquire()
        except BaseException:
            if self._is_owned():
                self.release()
            raise
