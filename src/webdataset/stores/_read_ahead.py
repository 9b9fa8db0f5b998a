"""Opens and reads the next shards while the current one is used; same order, bounded memory."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Any, Self

from webdataset.arguments import require_count
from webdataset.mutex import Mutex
from webdataset.read_methods import find_read1, find_readinto

from ._byte_stream import Stream
from ._open import open_read
from ._resuming_stream import abandonable
from ._upload import Closing

# Bytes per read of a thread: small enough that the first ones arrive soon, large enough that there are few.
_PIECE = 256 << 10

# Reading ahead does not help if a store sends this many bytes a second to one reader: the threads would only alternate
# with the consumer. Measured by benchmarks/transport.py on loopback, 240 MB: 0.15 s of processor time and 1139 MB/s
# without the threads, 0.33 s and 931 MB/s with them.
_FAST = 200e6
# Seconds of waiting for bytes after which the speed of a store is measured.
_MEASURED = 0.05


class _Shared:
    """State that all streams share: the lock, the limit of bytes in memory, and whether the stores are slow.

    The stream in use may always have one piece, even if the limit is reached.
    """

    slow = False

    def __init__(self, limit: int) -> None:
        self.lock = Mutex()
        self.changed = threading.Condition(self.lock)
        self.limit, self.used = limit, 0
        self._bytes, self._seconds = 0, 0.0

    def release(self, count: int) -> None:
        """Note that bytes were consumed; the lock is held."""
        self.used -= count
        self.changed.notify_all()

    def note_waiting(self, count: int, seconds: float) -> None:
        """Note that the consumer note_waiting `seconds` for `count` bytes of the stream in use."""
        self._bytes += count
        self._seconds += seconds
        if self._bytes >= _FAST * _MEASURED:
            self._bytes, self._seconds = 0, 0.0
        elif self._seconds >= _MEASURED and not self.slow:
            with self.lock:
                self.slow = True
                self.changed.notify_all()


class AheadStream(Stream):
    """One shard, opened by a thread of its own. `item` is what it was opened for.

    From a slow store the thread reads ahead. From a fast one the consumer reads the opened source directly, so that no
    byte passes through another thread.
    """

    def __init__(self, item: Any, opener: Callable[[Any], Any], shared: _Shared) -> None:
        super().__init__()
        self.item = item
        self.size: int | None = None
        self.version: str | None = None
        self._opener, self._shared = opener, shared
        self._filled = threading.Condition(shared.lock)
        self._pieces: deque[memoryview] = deque()
        self._source: Any = None
        self._ended = self._in_use = self._is_direct = self._buffering = False
        self._cancelled = threading.Event()
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="webdataset-ahead", daemon=True)
        self._thread.start()

    def begin(self) -> None:
        """Make this the stream in use: wait until it is opened. An error in opening it is raised here."""
        with self._shared.lock:
            self._in_use = True
            self._shared.changed.notify_all()  # it may continue now even if the limit is reached
            self._filled.wait_for(lambda: self._source is not None or self._ended)
            # A thread that has started to read reads the shard to its end.
            self._is_direct = not (self._shared.slow or self._pieces or self._ended)
            self._shared.changed.notify_all()
        if self._is_direct:
            self._thread.join()
        elif self._source is None:
            self.close()
            assert self._error is not None
            raise self._error

    def read(self, size: int | None = -1, /) -> bytes:
        if not self._is_direct or self._buffering:
            return super().read(size)
        began = time.perf_counter()
        piece: bytes = self._source.read(size) or b""
        self._shared.note_waiting(len(piece), time.perf_counter() - began)
        self.position += len(piece)
        self._read_position += len(piece)
        return piece

    def readinto(self, buffer: Any, /) -> int:
        if not self._is_direct or self._buffering:
            return super().readinto(buffer)
        count = self._from_source(memoryview(buffer))
        self.position += count
        self._read_position += count
        return count

    def fill(self, view: memoryview) -> int:
        if self._is_direct:
            self._buffering = True  # from now on the buffer may hold bytes that come before those of the source
            return self._from_source(view)
        with self._shared.lock:
            self._filled.wait_for(lambda: self._pieces or self._ended)
            if not self._pieces:
                if self._error is not None:
                    raise self._error
                return 0
            waiting = self._pieces.popleft()
            count = min(len(waiting), len(view))
            if count < len(waiting):
                self._pieces.appendleft(waiting[count:])
            self._shared.release(count)
        view[:count] = waiting[:count]
        return count

    def _from_source(self, view: memoryview) -> int:
        began = time.perf_counter()
        count = self._readinto(view) or 0
        self._shared.note_waiting(count, time.perf_counter() - began)
        return count

    def close(self) -> None:
        if not self.closed:
            with self._shared.lock:
                self._cancelled.set()
                self._shared.release(sum(map(len, self._pieces)))
                self._pieces.clear()
            self._thread.join()
            if self._is_direct:
                self._source.close()
        super().close()

    def _run(self) -> None:
        try:
            with abandonable(self._cancelled):
                self._open_and_read()
        except BaseException as error:
            self._error = error
        finally:
            with self._shared.lock:
                self._ended = not self._is_direct
                self._filled.notify_all()

    def _open_and_read(self) -> None:
        source = self._opener(self.item)
        try:
            self._note_opened(source)
            if self._is_read_by_thread():
                self._read_ahead(source)
        finally:
            if not self._is_direct:
                source.close()

    def _note_opened(self, source: Any) -> None:
        self.size, self.version = getattr(source, "size", None), getattr(source, "version", None)
        with self._shared.lock:
            self._source, self._readinto = source, find_readinto(source)
            self._filled.notify_all()

    def _is_read_by_thread(self) -> bool:
        """Wait until it is known whether this thread reads, or the consumer."""
        with self._shared.lock:
            self._shared.changed.wait_for(lambda: self._is_direct or self._cancelled.is_set() or self._shared.slow)
            return not self._is_direct

    def _read_ahead(self, source: Any) -> None:
        read = find_read1(source)
        while self._wait_for_memory() and (piece := read(_PIECE)):
            self._append(piece)

    def _wait_for_memory(self) -> bool:
        """Wait until another piece may be read; False if the stream was closed."""
        shared = self._shared
        with shared.lock:
            shared.changed.wait_for(
                lambda: (
                    self._cancelled.is_set()
                    or shared.used + _PIECE <= shared.limit
                    or (self._in_use and not self._pieces)
                )
            )
            return not self._cancelled.is_set()

    def _append(self, piece: bytes) -> None:
        with self._shared.lock:
            if not self._cancelled.is_set():
                self._pieces.append(memoryview(piece))
                self._shared.used += len(piece)
                self._filled.notify()


class ReadAhead(Closing):
    """An iterator of opened streams, in the order of their items; `depth` of them are read at the same time.

    >>> from webdataset import stores
    >>> for name in "ab":
    ...     with stores.open_write(f"memory://ahead/{name}") as stream:
    ...         _ = stream.write(name.encode() * 3)
    >>> with ReadAhead(["memory://ahead/a", "memory://ahead/b"]) as streams:
    ...     [stream.read() for stream in streams]
    [b'aaa', b'bbb']

    An item that cannot be opened raises when it is next, and iteration may continue after it. A stream is closed when
    the next one is requested. Only the thread that iterates takes items from their iterator.

    Args:
        items: Addresses, or any values that `opener` takes.
        opener: Opens one item.
        budget_bytes: The limit of bytes in memory, over all streams.
        depth: How many streams are open at once, the one in use included.
        skip: Items for which this is true are not opened; `None` takes their place.
    """

    def __init__(
        self,
        items: Iterable[Any],
        opener: Callable[[Any], Any] = open_read,
        budget_bytes: int = 256 << 20,
        depth: int = 4,
        skip: Callable[[Any], bool] | None = None,
    ) -> None:
        require_count("ReadAhead", "depth", depth, least=1)
        require_count("ReadAhead", "budget_bytes", budget_bytes, least=1)
        self._items: Iterator[Any] = iter(items)
        self._opener, self._depth, self._skip = opener, depth, skip
        self._shared = _Shared(budget_bytes)
        self._ahead: deque[Any] = deque()  # what `start` returned; None for an item that is skipped
        self._current: Any = None

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Any:
        self._finish_current()
        for item in islice(self._items, self._depth - len(self._ahead)):
            skipped = self._skip is not None and self._skip(item)
            self._ahead.append(None if skipped else self.start(item))
        if not self._ahead:
            raise StopIteration
        ahead = self._ahead.popleft()
        if ahead is not None:
            self._current = self.begin(ahead)
        return self._current

    def start(self, item: Any) -> Any:
        """Begin to open an item, and do not wait for it."""
        return AheadStream(item, self._opener, self._shared)

    def begin(self, ahead: Any) -> Any:
        """The stream of the next item; wait until it is opened."""
        ahead.begin()
        return ahead

    def drop(self, ahead: Any) -> None:
        """Close a stream that will not be read."""
        ahead.close()

    def close(self) -> None:
        """End all threads and close all streams."""
        self._finish_current()
        while self._ahead:
            ahead = self._ahead.popleft()
            if ahead is not None:
                self.drop(ahead)

    def _finish_current(self) -> None:
        current, self._current = self._current, None
        if current is not None:
            current.close()
