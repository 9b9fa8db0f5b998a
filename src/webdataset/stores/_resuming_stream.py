"""Streams that survive: the one place that waits, tries again, and goes on from the next byte.

A transport hands out a `Body` for an offset. `ResumingStream` reads it; after any fault it asks for a new body from the
next byte, checks that it belongs to the same version of the object, and goes on. What the reader sees is every byte
once, or one typed error that names shard and offset.
"""

from __future__ import annotations

import logging
import random
import threading
import time
import zlib
from abc import ABC, abstractmethod
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from webdataset import config
from webdataset.errors import SpecError, StoreError, Where, add_where
from webdataset.redact import redacted

from ._byte_stream import Stream
from ._counters import counters
from ._store import PIECE, past_the_end

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_log = logging.getLogger(__name__)
_jitter = random.Random()
_here = threading.local()

# Counters are told after so many bytes.
_REPORTED = 8 << 20
# Of an object without a version, so many bytes are asked for again after a fault and compared with what came before.
_OVERLAP = 512
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Patience:
    """How long to go on trying.

    >>> Patience(tries=3).tries
    3

    Args:
        tries: Failures in a row, without a byte in between, before giving up; None takes `WDS_RETRIES`.
        first: Seconds before the first retry; each further one waits twice as long, with jitter.
        longest: The longest such wait.
        asked: The longest `Retry-After` of a server that is obeyed.
        faults: Failures of one stream altogether.
        restart: A server that cannot send ranges is read again from the start and skipped forward; False refuses it.
        unverified: Accept a body whose end nothing vouches for (no length, no chunks, no ranges).
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
            raise SpecError(f"{self} is not possible", hint="none of its numbers may be negative")


class Backoff:
    """Waits longer after each failure in a row, and gives up when patience ends."""

    def __init__(self, patience: Patience, url: str, kind: str = "store") -> None:
        self._patience, self._url, self._kind = patience, url, kind
        self._tries = config.read("WDS_RETRIES") if patience.tries is None else patience.tries
        self._in_a_row = self._faults = 0

    def progressed(self) -> None:
        """Something arrived: the next failure is a first one again."""
        self._in_a_row = 0

    def failed(self, error: StoreError, offset: int | None = None) -> None:
        """Wait before the next try, or raise."""
        add_where(error, shard=redacted(self._url), offset=offset)
        if not error.retryable:
            raise error
        self._in_a_row += 1
        self._faults += 1
        wait = self._wait(error)
        if self._in_a_row > self._tries or self._faults > self._patience.faults or wait > self._patience.asked:
            raise self._surrender(error, wait) from error
        counters.add(f"{self._kind}.retries")
        _log.info("%s; trying again in %.2g s (%d)", error, wait, self._in_a_row)
        abandoned: threading.Event | None = getattr(_here, "abandoned", None)
        if abandoned is None:
            pause(wait)
        elif abandoned.wait(wait):
            raise StoreError("nobody wants these bytes any more", error.where) from error

    def _wait(self, error: StoreError) -> float:
        asked: float | None = getattr(error, "retry_after", None)
        if asked is not None:
            return asked
        doubled = self._patience.first * 2.0 ** min(self._in_a_row - 1, 30)
        return min(doubled, self._patience.longest) * _jitter.uniform(0.5, 1.0)

    def _surrender(self, error: StoreError, wait: float) -> StoreError:
        why = f"asked to wait {wait:.0f} s" if wait > self._patience.asked else f"gave up after {self._in_a_row} tries"
        final = type(error)(f"{error.what} ({why})", error.where, hint=error.hint or "check the server and the network")
        final.retryable = False
        return final


def pause(seconds: float) -> None:
    """Sleep; the only place of the package that does.

    >>> pause(0)
    """
    if seconds > 0:
        time.sleep(seconds)


@contextmanager
def abandonable(event: threading.Event) -> Iterator[None]:
    """Inside, this thread's waiting for a place to recover ends, by an error, when the event is set.

    >>> event = threading.Event()
    >>> event.set()
    >>> with abandonable(event):
    ...     Backoff(Patience(first=1000), "https://h/a.tar").failed(retryable(StoreError("busy")))
    Traceback (most recent call last):
    webdataset.errors.StoreError: nobody wants these bytes any more – https://h/a.tar
    """
    _here.abandoned = event
    try:
        yield
    finally:
        _here.abandoned = None


def persist(action: Callable[[], T], url: str, patience: Patience, kind: str) -> T:
    """Do something until it works or patience ends.

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
    """The place says that the object ends before the offset asked for; `size` is what it says, if it does."""

    size: int | None = None


class Body(ABC):
    """What a transport sends for one request.

    `start` is the offset of its first byte (0 when the place ignored the wish), `size` that of the whole object,
    `version` what identifies its contents, `ranged` whether the place has shown that it can send parts, `complete`
    whether the end of this body is certain without `size`.
    """

    start: int = 0
    size: int | None = None
    version: str | None = None
    ranged: bool = False
    complete: bool = False

    @abstractmethod
    def read1(self, size: int) -> bytes:
        """The next bytes, b"" at the end; raises a `StoreError`, retryable or not."""

    def readinto(self, view: memoryview) -> int:
        """The same into memory that is there already; a transport that can do that without a copy overrides it."""
        piece = self.read1(len(view))
        view[: len(piece)] = piece
        return len(piece)

    @abstractmethod
    def close(self) -> None:
        """Give the connection up."""


class ResumingStream(Stream):
    """Every byte from `start` on, once, in order, whatever happens to the connections.

    Args:
        url: For messages.
        connect: `connect(offset, version)` opens a body; the version lets the place refuse a changed object.
        start: The first byte wanted.
        patience: When to give up.
        kind: The name of the store in the counters.
    """

    def __init__(
        self,
        url: str,
        connect: Callable[[int, str | None], Body],
        start: int = 0,
        patience: Patience | None = None,
        kind: str = "store",
    ) -> None:
        super().__init__(start)
        self.url, self.size, self.version = url, None, None
        self._connect, self._kind = connect, kind
        self._patience = patience or Patience()
        self._backoff = Backoff(self._patience, url, kind)
        self._body: Body | None = None
        self._ended = False
        # The checksum of bytes 0 to position, and the last bytes before it: kept where the version cannot tell whether
        # a new body belongs to the same object.
        self._checksum: int | None = None
        self._tail = b""
        self._first = True
        self._bytes, self._seconds = 0, 0.0
        self._retry(self._open)
        counters.add(f"{kind}.opened")

    size: int | None
    version: str | None

    def fill(self, view: memoryview) -> int:
        began = time.perf_counter()
        count = 0 if self._ended else self._retry(lambda: self._read(view))
        self._backoff.progressed()
        if self._checksum is not None or self.version is None:
            self._remember(view[:count])
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
            self._open()
        while not self._ended:
            assert self._body is not None
            count = self._body.readinto(view)
            if count:
                return count
            self._at_the_end()
        return 0

    def _open(self) -> None:
        try:
            body = self._connect(self.position - len(self._tail), self.version)
        except PastTheEnd as error:
            self._past_the_end(error)
            return
        self._body = body
        self._recognise(body)
        if body.start != self.position:
            self._skip_forward(body)

    def _recognise(self, body: Body) -> None:
        """The new body must be of the object that the first one was of."""
        if self._first:
            self._first = False
            self.size, self.version = body.size, body.version
            if self.position == 0 and not (body.ranged and body.version):
                self._checksum = 0
            return
        for before, now in ((self.version, body.version), (self.size, body.size)):
            if before is not None and now is not None and before != now:
                raise changed(self.url, self.position, f"{before} became {now}")
        self.size = body.size if self.size is None else self.size

    def _remember(self, piece: memoryview) -> None:
        if self._checksum is not None:
            self._checksum = zlib.crc32(piece, self._checksum)
        if self.version is None:
            self._tail = (self._tail + bytes(piece[-_OVERLAP:]))[-_OVERLAP:]

    def _skip_forward(self, body: Body) -> None:
        """The body begins before the byte we want: read up to there, and compare with what we had."""
        if not (body.ranged or self._patience.restart):
            raise StoreError(
                "the server cannot send parts of an object", hint="Patience(restart=True) reads it again from the start"
            )
        checksum, missing, tail = 0, self.position - body.start, b""
        while missing > 0:
            piece = body.read1(min(missing, PIECE))
            if not piece:
                raise _short(f"{missing} bytes before byte {self.position}")
            checksum, missing = zlib.crc32(piece, checksum), missing - len(piece)
            tail = (tail + piece)[-_OVERLAP:]
            counters.add(f"{self._kind}.bytes_again", len(piece))
        if not tail.endswith(self._tail) or (body.start == 0 and self._checksum not in {None, checksum}):
            raise changed(self.url, self.position, "its beginning is not what it was")
        if body.start == 0:
            self._checksum = checksum

    def _at_the_end(self) -> None:
        assert self._body is not None
        if self.size is not None:
            if self.position < self.size:
                raise _short(f"{self.size - self.position} bytes before its end")
            if self.position > self.size:
                raise changed(self.url, self.position, f"more bytes came than the {self.size} announced")
            self._end()
        elif self._body.complete or self._patience.unverified:
            self._end()
        else:
            self._confirm()

    def _confirm(self) -> None:
        """Nothing vouches for this end. Ask for the byte after it."""
        self._drop()
        self._open()
        if self._body is not None and not self._body.ranged:
            raise StoreError(
                "the server sent a body without a length, and nothing tells whether this is its end",
                hint="let the server send Content-Length or ranges, or accept it with Patience(unverified=True)",
            )

    def _past_the_end(self, error: PastTheEnd) -> None:
        size = error.size if error.size is not None else self.size
        if size is not None and size != self.position:
            if self._first or size == self.size:
                raise past_the_end(self.url, self.position, size)
            raise changed(self.url, self.position, f"it now ends at {size}")
        self._end()

    def _end(self) -> None:
        self._ended = True
        self._drop()

    def _drop(self) -> None:
        body, self._body = self._body, None
        if body is not None:
            body.close()


def changed(url: str, offset: int, how: str) -> StoreError:
    """The error for an object that was replaced while it was read.

    >>> print(changed("https://h/a.tar", 512, "its etag is new"))
    the object changed while it was read: its etag is new – https://h/a.tar, byte 512 – read it again from the start
    """
    return StoreError(
        f"the object changed while it was read: {how}",
        Where(shard=redacted(url), offset=offset),
        hint="read it again from the start",
    )


def retryable(error: StoreError, retry_after: float | None = None) -> StoreError:
    """Mark an error as one that may pass.

    >>> retryable(StoreError("busy"), retry_after=2).retryable
    True
    """
    error.retryable = True
    if retry_after is not None:
        error.retry_after = retry_after  # type: ignore[attr-defined]  # only errors of servers that asked for it have it
    return error


def _short(how: str) -> StoreError:
    return retryable(StoreError(f"the body ended {how}"))
