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

import os
import threading
import weakref
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import NamedTuple, NoReturn

from webdataset.mutex import Mutex
from webdataset.redact import redacted, scrub, warn

Handler = Callable[[Exception], bool | None]

_SHOWN_IN_FULL = 10
_LISTED = 20


class _Tally:
    """Decides which of many warnings are shown: the first ten of a kind, then the 100th, the 1,000th, …"""

    def __init__(self) -> None:
        self._seen: Counter[type[Exception]] = Counter()
        self._lock = Mutex()

    def show(self, exn: Exception) -> None:
        with self._lock:
            self._seen[type(exn)] += 1
            count = self._seen[type(exn)]
        # The location is in the notes of an error that is not ours.
        scrub(exn)
        text = " – ".join([str(exn), *getattr(exn, "__notes__", ())])
        if count <= _SHOWN_IN_FULL:
            warn(f"{type(exn).__name__}: {text}" if str(exn) else f"{exn!r}{text}", stacklevel=4)
        elif str(count).strip("0") == "1":
            warn(f"{type(exn).__name__} for the {count:,}th time, last: {text}", stacklevel=4)


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
        del exn  # it refers to this frame: the cycle would keep the iteration and its open shards alive


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
    >>> import warnings
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
    >>> import warnings
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     warn_and_stop(BadPixelError("all black"))
    False
    >>> len(caught)
    1
    """
    _tally.show(exn)
    return False


def may_stop(handler: Handler | None) -> bool:
    """Whether a handler may end the stream; a handler that is not from this file may.

    >>> may_stop(ignore_and_continue), may_stop(ignore_and_stop)
    (False, True)
    """
    return handler not in (None, reraise_exception, ignore_and_continue, warn_and_continue)


class Skip(NamedTuple):
    """A sample, or a part of a shard, that a handler left out; None where that is not known."""

    key: str | None
    shard: str | None
    reason: str


@dataclass(frozen=True)
class Skipped:
    """What handlers left out.

    >>> one = Skipped(1, (Skip("0001", "a.tar", "ValueError: bad"),), {"a.tar": 1}, {"ValueError": 1})
    >>> both = one + one
    >>> both.count, both.shards, both.reasons, len(both.first)
    (2, {'a.tar': 2}, {'ValueError': 2}, 2)

    Attributes:
        count: how many.
        first: the first twenty of each process.
        shards: how many of each shard.
        reasons: how many of each type of exception.
    """

    count: int = 0
    first: tuple[Skip, ...] = ()
    shards: Mapping[str, int] = field(default_factory=dict)
    reasons: Mapping[str, int] = field(default_factory=dict)

    def __add__(self, other: Skipped) -> Skipped:
        return Skipped(
            self.count + other.count,
            self.first + other.first,
            dict(Counter(self.shards) + Counter(other.shards)),
            dict(Counter(self.reasons) + Counter(other.reasons)),
        )


class SkipLog:
    """Collects what handlers leave out in this process, from now on.

    >>> log = SkipLog()
    >>> note_skipped(ValueError("bad"), key="0001")
    >>> log.take().count, log.take().count
    (1, 0)
    """

    def __init__(self) -> None:
        self._lock = Mutex()
        self._listed = 0
        self._begin()
        _logs.add(self)

    def _begin(self) -> None:
        self._first: list[Skip] = []
        self._shards: Counter[str] = Counter()
        self._reasons: Counter[str] = Counter()

    def __reduce__(self) -> tuple[type[SkipLog], tuple[()]]:
        return SkipLog, ()  # another process collects its own

    def add(self, exn: Exception, skip: Skip) -> None:
        """Add something that was left out because of `exn`."""
        with self._lock:
            self._reasons[type(exn).__name__] += 1
            if skip.shard is not None:
                self._shards[skip.shard] += 1
            if self._listed < _LISTED:
                self._listed += 1
                self._first.append(skip)

    def take(self) -> Skipped:
        """Return what was left out since the last call."""
        with self._lock:
            taken = Skipped(self._reasons.total(), tuple(self._first), dict(self._shards), dict(self._reasons))
            self._begin()
        return taken


def note_skipped(exn: Exception, key: str | None = None, shard: str | None = None) -> None:
    """Note that a handler has left something out because of this exception."""
    if getattr(_unnoted, "now", False):
        return
    where = getattr(exn, "where", None)  # of our own errors
    key, shard = key or getattr(where, "key", None), shard or getattr(where, "shard", None)
    reason = redacted(f"{type(exn).__name__}: {exn}")[:300]
    skip = Skip(key, None if shard is None else redacted(str(shard)), reason)
    for log in tuple(_logs):
        log.add(exn, skip)


@contextmanager
def unnoted() -> Iterator[None]:
    """Note nothing that handlers leave out in this block, in this thread: it was noted before."""
    before, _unnoted.now = getattr(_unnoted, "now", False), True
    try:
        yield
    finally:
        _unnoted.now = before


_logs: weakref.WeakSet[SkipLog] = weakref.WeakSet()
_unnoted = threading.local()
# The child does not read the logs of the parent, and another thread may have held their locks during the fork.
os.register_at_fork(after_in_child=_logs.clear)
