"""The next shards, opened and read while the current one is used; same order, bounded memory."""

from __future__ import annotations

import threading
from collections import deque
from contextlib import closing
from typing import TYPE_CHECKING, Any, Self

from webdataset.errors import SpecError

from ._open import open_read
from ._stream import Stream

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

# One step of a reading thread: small enough that the first bytes are there soon, large enough to be few.
_PIECE = 256 << 10


class _Budget:
    """How many bytes may wait in memory, over all streams; the stream that is being used may always have one piece."""

    def __init__(self, limit: int) -> None:
        self.lock = threading.Lock()
        self.freed = threading.Condition(self.lock)
        self.limit, self.used = limit, 0

    def give_back(self, count: int) -> None:
        """Some bytes are used; the lock is held."""
        self.used -= count
        self.freed.notify_all()


class AheadStream(Stream):
    """One shard, filled by a thread of its own. `item` is what it was opened for."""

    def __init__(self, item: Any, opener: Callable[[Any], Any], budget: _Budget) -> None:
        super().__init__()
        self.item = item
        self.size: int | None = None
        self.version: str | None = None
        self._opener, self._budget = opener, budget
        self._filled = threading.Condition(budget.lock)
        self._pieces: deque[bytes] = deque()
        self._opened = self._ended = self._unwanted = self._in_use = False
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._fill, name="webdataset-ahead", daemon=True)
        self._thread.start()

    def wait_until_opened(self) -> None:
        """Wait; what went wrong with the opening is raised here."""
        with self._budget.lock:
            self._in_use = True
            self._budget.freed.notify_all()  # it may go on now even if the budget is spent
            self._filled.wait_for(lambda: self._opened or self._ended)
        if not self._opened:
            self.close()
            assert self._error is not None
            raise self._error

    def pull(self, size: int) -> bytes:
        with self._budget.lock:
            self._filled.wait_for(lambda: self._pieces or self._ended)
            if not self._pieces:
                if self._error is not None:
                    raise self._error
                return b""
            piece = self._pieces.popleft()
            if len(piece) > size:
                self._pieces.appendleft(piece[size:])
                piece = piece[:size]
            self._budget.give_back(len(piece))
        return piece

    def close(self) -> None:
        if not self.closed:
            with self._budget.lock:
                self._unwanted = True
                self._budget.give_back(sum(map(len, self._pieces)))
                self._pieces.clear()
            self._thread.join()
        super().close()

    def _fill(self) -> None:
        try:
            with closing(self._opener(self.item)) as source:
                self._note_opened(source)
                read = getattr(source, "read1", source.read)
                while self._may_go_on() and (piece := read(_PIECE)):
                    self._hand_over(piece)
        except BaseException as error:
            self._error = error
        finally:
            with self._budget.lock:
                self._ended = True
                self._filled.notify_all()

    def _note_opened(self, source: Any) -> None:
        self.size, self.version = getattr(source, "size", None), getattr(source, "version", None)
        with self._budget.lock:
            self._opened = True
            self._filled.notify_all()

    def _may_go_on(self) -> bool:
        budget = self._budget
        with budget.lock:
            budget.freed.wait_for(
                lambda: self._unwanted or budget.used + _PIECE <= budget.limit or (self._in_use and not self._pieces)
            )
            return not self._unwanted

    def _hand_over(self, piece: bytes) -> None:
        with self._budget.lock:
            if not self._unwanted:
                self._pieces.append(piece)
                self._budget.used += len(piece)
                self._filled.notify()


class ReadAhead:
    """An iterator of opened streams, in the order of their items; `depth` of them are read at the same time.

    >>> from webdataset import stores
    >>> for name in "ab":
    ...     with stores.open_write(f"memory://ahead/{name}") as stream:
    ...         _ = stream.write(name.encode() * 3)
    >>> with ReadAhead(["memory://ahead/a", "memory://ahead/b"]) as streams:
    ...     [stream.read() for stream in streams]
    [b'aaa', b'bbb']

    An item that cannot be opened raises in its turn, and iteration may go on with the next. A stream is closed when the
    next one is asked for. Items are taken from their iterator by the thread that iterates, never by another.

    Args:
        items: Addresses, or whatever `opener` takes.
        opener: Opens one item.
        budget_bytes: How many bytes may wait in memory, over all streams.
        depth: How many streams are open at once, the one in use included.
    """

    def __init__(
        self,
        items: Iterable[Any],
        opener: Callable[[Any], Any] = open_read,
        budget_bytes: int = 256 << 20,
        depth: int = 4,
    ) -> None:
        if depth < 1 or budget_bytes < 1:
            raise SpecError(f"depth={depth}, budget_bytes={budget_bytes}", hint="both must be at least 1")
        self._items: Iterator[Any] = iter(items)
        self._opener, self._depth = opener, depth
        self._budget = _Budget(budget_bytes)
        self._ahead: deque[AheadStream] = deque()
        self._current: AheadStream | None = None

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> AheadStream:
        self._finish_current()
        self._top_up(self._depth)
        if not self._ahead:
            raise StopIteration
        current = self._ahead.popleft()
        current.wait_until_opened()
        self._current = current
        return current

    def close(self) -> None:
        """End all threads and close all streams."""
        self._finish_current()
        while self._ahead:
            self._ahead.popleft().close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _finish_current(self) -> None:
        current, self._current = self._current, None
        if current is not None:
            current.close()

    def _top_up(self, wanted: int) -> None:
        while len(self._ahead) < wanted:
            try:
                item = next(self._items)
            except StopIteration:
                return
            self._ahead.append(AheadStream(item, self._opener, self._budget))


read_ahead = ReadAhead
