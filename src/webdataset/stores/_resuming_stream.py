"""Streams that resume after faults: wait, try again, continue at the next byte. The only file that calls `time.sleep`.

A transport opens a `Body` for an offset. `ResumingStream` reads it. After a fault it opens a new body, checks that it
belongs to the same version of the object (`_same_object`), and continues. The reader gets every byte once, or one typed
error with shard and offset. Every loop of requests has a limit.
"""

from __future__ import annotations

import hashlib
import logging
import random
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

from webdataset import config
from webdataset.errors import SpecError, StoreError, add_where

from ._byte_stream import Stream
from ._counters import counters
from ._same_object import BytesRead, changed
from ._store import past_the_end

_log = logging.getLogger(__name__)
_jitter = random.Random()
_thread_state = threading.local()

# Status codes of temporary errors: too early, too many requests, timeout, and errors of the server itself.
PASSING_STATUSES = {408, 425, 429, 500, 502, 503, 504, 507, 509, 520, 521, 522, 523, 524, 529}
# Counters are updated after this many bytes.
_REPORTED = 8 << 20
# Requests that check whether the object has ended: so many for a stream, and one more for each so many bytes.
_CONFIRMATIONS, _BYTES_PER_CONFIRMATION = 8, 1 << 16
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Patience:
    """Limits of retries.

    >>> Patience(tries=3).tries
    3

    Args:
        tries: Failures in a row, without a byte in between, after which the error is raised; None takes `WDS_RETRIES`.
        first: Seconds before the first retry; each further one waits twice as long, with jitter.
        longest: The longest such wait.
        asked: The longest `Retry-After` of a server that is followed.
        faults: The limit of failures of one stream in total.
        restart: After a fault, read an object again from the start and skip forward, if the server cannot send ranges
            or sends no strong ETag. False raises an error instead.
        unverified: Accept a body whose end cannot be verified (no length, no chunks, no ranges).
    """

    tries: int | None = None
    first: float = 0.1
    longest: float = 30.0
    asked: float = 300.0
    faults: int = 500
    restart: bool = True
    unverified: bool = False

    def __post_init__(self) -> None:
        if min(self.first, self.longest, self.asked, self.faults, self.tries or 0) < 0:
            raise SpecError(f"{self}: expected numbers of at least 0")


class Backoff:
    """Waits longer after each failure in a row; at the limits of its `Patience` it raises the error."""

    def __init__(self, patience: Patience, url: str, kind: str = "store") -> None:
        self._patience, self._url, self._kind = patience, url, kind
        self._tries = config.read("WDS_RETRIES") if patience.tries is None else patience.tries
        self._in_a_row = self._faults = 0

    def progressed(self) -> None:
        """Note that bytes arrived: failures in a row are counted from 0 again."""
        self._in_a_row = 0

    def failed(self, error: StoreError, offset: int | None = None) -> None:
        """Wait before the next try, or raise."""
        add_where(error, shard=self._url, offset=offset)
        if not error.retryable:
            raise error
        self._in_a_row += 1
        self._faults += 1
        wait = self._wait(error)
        if self._in_a_row > self._tries or self._faults > self._patience.faults or wait > self._patience.asked:
            raise self._final_error(error, wait) from error
        counters.add(f"{self._kind}.retries")
        _log.info("%s; trying again in %.2g s (%d)", error, wait, self._in_a_row)
        abandoned: threading.Event | None = getattr(_thread_state, "abandoned", None)
        if abandoned is None:
            pause(wait)
        elif abandoned.wait(wait):
            raise StoreError("the read was cancelled", error.where) from error

    def _wait(self, error: StoreError) -> float:
        asked: float | None = getattr(error, "retry_after", None)
        if asked is not None:
            return asked
        doubled = self._patience.first * 2.0 ** min(self._in_a_row - 1, 30)
        return min(doubled, self._patience.longest) * _jitter.uniform(0.5, 1.0)

    def _final_error(self, error: StoreError, wait: float) -> StoreError:
        why = f"asked to wait {wait:.0f} s" if wait > self._patience.asked else f"gave up after {self._in_a_row} tries"
        final = type(error)(f"{error.what} ({why})", error.where, hint=error.hint or "check the server and the network")
        final.retryable = False
        return final


def pause(seconds: float) -> None:
    """Sleep.

    >>> pause(0)
    """
    if seconds > 0:
        time.sleep(seconds)


@contextmanager
def abandonable(event: threading.Event) -> Iterator[None]:
    """Inside the block, waits of this thread for a server end with an error as soon as the event is set.

    >>> event = threading.Event()
    >>> event.set()
    >>> with abandonable(event):
    ...     Backoff(Patience(first=1000), "https://h/a.tar").failed(retryable(StoreError("busy")))
    Traceback (most recent call last):
    webdataset.errors.StoreError: the read was cancelled – https://h/a.tar
    """
    _thread_state.abandoned = event
    try:
        yield
    finally:
        _thread_state.abandoned = None


def persist(action: Callable[[], T], url: str, patience: Patience, kind: str) -> T:
    """Repeat an action until it succeeds or the limits of `patience` are reached.

    >>> persist(lambda: 42, "https://h/a.tar", Patience(), "http")
    42
    """
    backoff = Backoff(patience, url, kind)
    while True:
        try:
            return action()
        except StoreError as error:
            backoff.failed(error)


class PastTheEnd(StoreError):
    """The object ends before the requested offset; `size` is its size, if the server sends it."""

    size: int | None = None


class Body(ABC):
    """The bytes that a transport reads for one request.

    `start` is the offset of its first byte (0 when the server ignored the range), `size` that of the whole object,
    `version` its validator (weak ones begin with `W/`), `ranged` whether the server has shown that it can send parts,
    `complete` whether the end of this body is certain without `size`, `digest` the algorithm and hexadecimal value of a
    hash of the whole object.
    """

    start: int = 0
    size: int | None = None
    version: str | None = None
    ranged: bool = False
    complete: bool = False
    digest: tuple[str, str] | None = None

    @abstractmethod
    def read1(self, size: int) -> bytes:
        """The next bytes, b"" at the end; raises a `StoreError`, retryable or not."""

    def readinto(self, view: memoryview) -> int:
        """The same, into existing memory; a transport that needs no copy for it overrides this."""
        piece = self.read1(len(view))
        view[: len(piece)] = piece
        return len(piece)

    @abstractmethod
    def close(self) -> None:
        """Release or close the connection."""


class ResumingStream(Stream):
    """Every byte from `start` on, once, in order, also if connections break.

    Args:
        url: For messages.
        connect: `connect(offset, version)` opens a body; the version lets the server refuse a changed object.
        start: The first byte to read.
        patience: The limits of retries.
        kind: The name of the store in the counters.
        version: The version that the object must have, if it is known already.
        size: Its size, likewise.
    """

    def __init__(
        self,
        url: str,
        connect: Callable[[int, str | None], Body],
        start: int = 0,
        patience: Patience | None = None,
        kind: str = "store",
        version: str | None = None,
        size: int | None = None,
    ) -> None:
        super().__init__(start)
        self.url = url
        self._connect, self._kind = connect, kind
        self._patience = patience or Patience()
        self._backoff = Backoff(self._patience, url, kind)
        self._body: Body | None = None
        self._ended = False
        self._read_so_far = BytesRead(url, start, version, size)
        self._digest: tuple[Any, str] | None = None
        self._confirmations = 0
        self._bytes, self._seconds = 0, 0.0
        self._retry(self._begin)
        counters.add(f"{kind}.opened")

    @property
    def size(self) -> int | None:
        """The size of the object, if the server sends it."""
        return self._read_so_far.size

    @property
    def version(self) -> str | None:
        """The validator that identifies the contents of the object."""
        return self._read_so_far.version

    def fill(self, view: memoryview) -> int:
        began = time.perf_counter()
        count = 0 if self._ended else self._retry(lambda: self._read(view))
        self._backoff.progressed()
        self._read_so_far.add(view[:count])
        if self._digest is not None:
            self._digest[0].update(view[:count])
        self._bytes += count
        self._seconds += time.perf_counter() - began
        if self._bytes >= _REPORTED or not count:
            self._report()
        return count

    def _report(self) -> None:
        counters.add(f"{self._kind}.bytes", self._bytes)
        counters.add(f"{self._kind}.seconds", self._seconds)
        self._bytes, self._seconds = 0, 0.0

    def close(self) -> None:
        if not self.closed and hasattr(self, "_bytes"):
            self._drop()
            self._report()
        super().close()

    def _retry(self, action: Callable[[], T]) -> T:
        while True:
            try:
                return action()
            except StoreError as error:
                self._drop()
                self._backoff.failed(error, self.position)
            except BaseException:
                self._drop()
                raise

    def _read(self, view: memoryview) -> int:
        if self._body is None:
            self._open(self._read_so_far.join_at)
        while not self._ended:
            assert self._body is not None
            count = self._body.readinto(view)
            if count:
                return count
            self._check_end()
        return 0

    def _begin(self) -> None:
        self._open(self.position)
        if self._body is not None and self._body.digest is not None and self.position == 0:
            algorithm, expected = self._body.digest
            self._digest = hashlib.new(algorithm, usedforsecurity=False), expected

    def _open(self, offset: int) -> None:
        read = self._read_so_far
        if offset < self.position and not self._patience.restart:
            raise _no_restart_error("sends no strong ETag, so it cannot continue an object")
        try:
            body = self._connect(offset, read.version)
        except PastTheEnd as error:
            self._past_the_end(error)
            return
        self._body = body
        read.check(body.version, body.size, body.start)
        if body.start < self.position:
            self._skip_forward(body)

    def _skip_forward(self, body: Body) -> None:
        """Read a body that begins before the next byte up to that byte, and compare with the bytes read before."""
        if not (body.ranged or self._patience.restart):
            raise _no_restart_error("cannot send parts of an object")
        count = self._read_so_far.reread(body.start, body.read1)
        counters.add(f"{self._kind}.bytes_again", count)
        if body.start + count < self.position:
            raise _short_body_error(f"{self.position - body.start - count} bytes before byte {self.position}")

    def _check_end(self) -> None:
        assert self._body is not None
        if self.size is not None:
            if self.position < self.size:
                raise _short_body_error(f"{self.size - self.position} bytes before its end")
            if self.position > self.size:
                raise changed(self.url, self.position, f"its size was {self.size} and more bytes came")
            self._end()
        elif self._body.complete or self._patience.unverified:
            self._end()
        else:
            self._confirm_end()

    def _confirm_end(self) -> None:
        """Request the byte after the end of a body, if nothing else proves that the object ends there."""
        self._confirmations += 1
        limit = _CONFIRMATIONS + (self.position - self._read_so_far.start) // _BYTES_PER_CONFIRMATION
        if self._confirmations > limit:
            raise StoreError(
                f"the server did not say where the object ends in {limit} requests",
                hint="let the server send Content-Length, or the size in Content-Range",
            )
        self._drop()
        self._open(self.position)
        if self._body is not None and not self._body.ranged:
            raise StoreError(
                "the server sent a body without a length, so its end cannot be verified",
                hint="let the server send Content-Length or ranges, or accept it with Patience(unverified=True)",
            )

    def _past_the_end(self, error: PastTheEnd) -> None:
        size = error.size if error.size is not None else self.size
        if size is not None and size != self.position:
            if self.size is None or size == self.size:
                raise past_the_end(self.url, self.position, size)
            raise changed(self.url, self.position, f"its size was {self.size} and is now {size}")
        self._end()

    def _end(self) -> None:
        self._ended = True
        self._drop()
        if self._digest is not None and self._digest[0].hexdigest() != self._digest[1]:
            raise StoreError(
                f"the bytes do not match the {self._digest[0].name} digest that the server sent",
                hint="copy the object again; it was damaged on the server or on the way",
            )

    def _drop(self) -> None:
        body, self._body = self._body, None
        if body is not None:
            body.close()


def retryable(error: StoreError, retry_after: float | None = None) -> StoreError:
    """Mark an error as temporary.

    >>> retryable(StoreError("busy"), retry_after=2).retryable
    True
    """
    error.retryable = True
    if retry_after is not None:
        error.retry_after = retry_after  # type: ignore[attr-defined]  # set only if the server sent it
    return error


def _short_body_error(how: str) -> StoreError:
    return retryable(StoreError(f"the body ended {how}"))


def _no_restart_error(why: str) -> StoreError:
    return StoreError(f"the server {why}", hint="Patience(restart=True) reads it again from the start")
