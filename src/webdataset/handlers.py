"""What to do with an exception: five handlers that every stage accepts as `handler=`.

A handler is called once per failure, with the exception. If it returns a true value the item is skipped, if a
false one the stage's stream ends; a handler may also raise.

>>> def refuse_odd(number):
...     if number % 2:
...         raise ValueError(number)
...     return number
>>> import webdataset as wds
>>> list(wds.map(refuse_odd, handler=wds.ignore_and_continue)(iter([0, 1, 2])))
[0, 2]
>>> list(wds.map(refuse_odd, handler=wds.ignore_and_stop)(iter([0, 1, 2])))
[0]
"""

from __future__ import annotations

import threading
import warnings
from collections import Counter
from collections.abc import Callable
from typing import NoReturn

from webdataset.redact import redacted, scrub

Handler = Callable[[Exception], bool | None]

_SHOWN_IN_FULL = 10


class _Tally:
    """Decides which of many warnings are shown: the first ten of a kind, then the 100th, the 1,000th, …"""

    def __init__(self) -> None:
        self._seen: Counter[type[Exception]] = Counter()
        self._lock = threading.Lock()

    def show(self, exn: Exception) -> None:
        with self._lock:
            self._seen[type(exn)] += 1
            count = self._seen[type(exn)]
        # The location is in the notes of an error that is not ours.
        scrub(exn)
        text = redacted(" – ".join([str(exn), *getattr(exn, "__notes__", ())]))
        if count <= _SHOWN_IN_FULL:
            warnings.warn(f"{type(exn).__name__}: {text}" if str(exn) else f"{exn!r}{text}", stacklevel=4)
        elif str(count).strip("0") == "1":
            warnings.warn(f"{type(exn).__name__} for the {count:,}th time, last: {text}", stacklevel=4)


_tally = _Tally()


def reraise_exception(exn: Exception) -> NoReturn:
    """Raise it. The default everywhere.

    >>> reraise_exception(ValueError("bad"))
    Traceback (most recent call last):
    ValueError: bad
    """
    try:
        raise exn
    finally:
        del exn  # it refers to this frame by now: together they would keep the iteration and its open shards alive


def ignore_and_continue(exn: Exception) -> bool:
    """Skip the item silently.

    >>> ignore_and_continue(ValueError("bad"))
    True
    """
    return True


def ignore_and_stop(exn: Exception) -> bool:
    """End the stream here silently.

    >>> ignore_and_stop(ValueError("bad"))
    False
    """
    return False


def warn_and_continue(exn: Exception) -> bool:
    """Warn and skip the item; of many warnings of a kind only the 1st–10th, 100th, 1,000th … are shown.

    >>> class BadPixelError(ValueError):
    ...     pass
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     warn_and_continue(BadPixelError("all black"))
    True
    >>> print(caught[0].message)
    BadPixelError: all black
    """
    _tally.show(exn)
    return True


def warn_and_stop(exn: Exception) -> bool:
    """Warn and end the stream here.

    >>> class BadPixelError(ValueError):
    ...     pass
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     warn_and_stop(BadPixelError("all black"))
    False
    >>> len(caught)
    1
    """
    _tally.show(exn)
    return False
