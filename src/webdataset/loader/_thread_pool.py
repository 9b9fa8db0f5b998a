"""Per-item functions on threads, in order: the results do not depend on the number of threads.

The items in flight are this stage's progress, saved as origins. One thread, that of the consumer, takes items from
upstream and yields the results; the pool only runs the functions. So the stages before and after run in one thread.
The unit of work is a chunk: neighbouring items that together take some milliseconds.
"""

from __future__ import annotations

import contextvars
import threading
import time
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Self

from webdataset.flow import DROP, EndOfStreamError, Pass, Resumable, fuse, turn
from webdataset.mutex import Mutex
from webdataset.pipeline import InFlight, Loop

from ._item_sizes import size_of, size_of_many
from ._meter import Meter
from ._prefetch import POOL, runs_in
from ._thread_choice import ThreadChoice

# Passing a task to a thread and its result back wakes two threads, which wait for the GIL: with a task per photo that
# took 100 µs of the photo's 1,470 µs, with six photos in a task almost nothing.
_TASK_SECONDS = 0.008
_LARGEST_CHUNK = 128  # items: those in flight are part of a checkpoint, which must not become large


@dataclass(slots=True)
class _Chunk:
    """Neighbouring items on their way through the functions."""

    items: list[Any]
    size: int
    before: _Chunk | None = None  # the chunk before this one, until this one is the oldest
    results: list[Any] = field(default_factory=list)
    failure: BaseException | None = None
    seconds: float = 0.0
    on_processor: float = 0.0
    done: Future[None] = field(default_factory=Future)

    def wait_for_turn(self) -> None:
        """Wait until all items before those of this chunk went through the functions.

        Raises:
            EndOfStreamError: one of those items ended the stream.
        """
        before = self.before
        while before is not None:
            before.done.result()  # no deadlock: that chunk was submitted earlier, so it does not wait for this one
            if before.failure is not None:
                raise EndOfStreamError
            before = before.before


class Pool:
    """The threads that all groups of functions of a pass share; they exist while one of the groups runs.

    >>> list(Pool(2, memory=1 << 20).stage([str])(range(3)))
    ['0', '1', '2']

    Args:
        threads: how many; "auto" leaves the number to the pool.
        memory: how many bytes of items may be in flight in one group, though one chunk always may.
    """

    def __init__(self, threads: int | str, *, memory: int, meter: Meter | None = None) -> None:
        self.wanted, self.memory, self.meter = threads, memory, meter or Meter()
        self.spent = 0.0  # seconds spent in `next_chunk` of any group: upstream of a group there may be another one
        self._groups = 0
        self._executor: ThreadPoolExecutor | None = None
        self._lock = Mutex()

    def stage(self, functions: Sequence[Callable[[Any], Any]]) -> Threaded:
        """Return the stage that runs these functions, for `RunOptions.fused`."""
        return Threaded(self, fuse(functions))

    @contextmanager
    def executor(self, threads: int) -> Iterator[ThreadPoolExecutor]:
        """Use the threads in a block; they are started by the first group and ended by the last one that leaves."""
        with self._lock:
            self._groups += 1
            if self._executor is None:
                self._executor = ThreadPoolExecutor(threads, thread_name_prefix=POOL)
            executor = self._executor
        try:
            yield executor
        finally:
            with self._lock:
                self._groups -= 1
                last = self._groups == 0
                if last:
                    self._executor = None
            if last:
                executor.shutdown(wait=not runs_in(POOL), cancel_futures=True)


def _apply(chunk: _Chunk, function: Callable[[Any], Any], stopped: threading.Event) -> None:
    started, ran = time.perf_counter(), time.thread_time()
    turn.set(chunk.wait_for_turn)
    try:
        for item in chunk.items:
            if stopped.is_set():
                raise EndOfStreamError  # no handler is called after the end
            chunk.results.append(function(item))
    except BaseException as failure:  # raised by the consumer's thread, after the results before it
        chunk.failure = failure
    chunk.items.clear()
    chunk.size = size_of_many(chunk.results)
    chunk.seconds, chunk.on_processor = time.perf_counter() - started, time.thread_time() - ran


@dataclass(frozen=True, eq=False)
class Threaded(Resumable):
    """A group of per-item functions, run by a pool."""

    pool: Pool
    function: Callable[[Any], Any]

    def start(self, during: Pass) -> InFlight:
        """Return the progress of a pass: nothing is in flight."""
        return InFlight()

    def run(self, items: Iterator[Any], at: InFlight, /) -> Iterator[Any]:
        """Yield the results in the order of the items."""
        choice = ThreadChoice(self.pool.wanted)
        while (yield from (self._on_threads if choice.threads else self._in_place)(items, at, choice)):
            pass

    def _in_place(self, items: Iterator[Any], at: InFlight, choice: ThreadChoice) -> Generator[Any, None, bool]:
        """Yield results made in the consumer's thread; return True if threads are to continue, False at the end."""
        meter, size, began = self.pool.meter, 1, time.perf_counter()
        while True:
            clock = _Clock(self.function)
            inside, ended = yield from _first(size, Loop((clock,)).run(items, at))
            more, count = 0.0, 0
            if not ended and not choice.is_trial:  # from now on only an eighth of the items is timed
                more, ended = yield from _first(7 * size, Loop((self.function,)).run(items, at))
                count = 7 * size
            scale = 1 + count / max(1, clock.items)
            meter.add("functions in place", clock.seconds * scale, count=clock.items + count)
            meter.add("read", inside + more - clock.seconds * scale, count=clock.items + count)
            meter.choice = str(choice)
            if ended:  # there may have been no item, so do not measure
                return False
            began, before = time.perf_counter(), began
            if choice.in_place(items=clock.items + count, seconds=clock.seconds * scale, wall=began - before):
                meter.choice = str(choice)
                return True
            size = min(_LARGEST_CHUNK, 2 * size)

    def _on_threads(self, items: Iterator[Any], at: InFlight, choice: ThreadChoice) -> Generator[Any, None, bool]:
        """Yield results made by threads; return True to continue in place or on more threads, False at the end."""
        pool = self.pool
        with pool.executor(choice.threads) as executor, _Window(self, executor, items, at, choice) as window:
            while (chunk := window.next_chunk()) is not None:
                for result in chunk.results:
                    at.handed = at.origins.popleft()
                    if result is not DROP:
                        yield result
                if isinstance(chunk.failure, EndOfStreamError):
                    at.stopped = True
                    at.origins.clear()
                    return False
                if chunk.failure is not None:
                    raise chunk.failure
                window.note(chunk)
            return not window.ended


class _Clock:
    """A function whose calls are counted and timed."""

    def __init__(self, function: Callable[[Any], Any]) -> None:
        self._function = function
        self.items, self.seconds = 0, 0.0

    def __call__(self, item: Any) -> Any:
        began = time.perf_counter()
        result = self._function(item)
        self.seconds += time.perf_counter() - began
        self.items += 1
        return result


def _first(count: int, results: Iterator[Any]) -> Generator[Any, None, tuple[float, bool]]:
    """Yield the first `count` results; return how many seconds making them took, and whether there are no more."""
    making, started = 0.0, time.perf_counter()
    for result in results:
        making += time.perf_counter() - started
        yield result
        started = time.perf_counter()
        count -= 1
        if not count:
            return making, False
    return making + time.perf_counter() - started, True


class _Window:
    """The chunks in flight, and the stream that their items come from."""

    def __init__(
        self,
        stage: Threaded,
        executor: ThreadPoolExecutor,
        items: Iterator[Any],
        at: InFlight,
        choice: ThreadChoice,
    ) -> None:
        self._choice, self._changed = choice, False
        self._function, self._items, self._at = stage.function, items, at
        self._pool, self._meter = stage.pool, stage.pool.meter
        self._executor, self._context = executor, contextvars.copy_context()
        self._stopped = threading.Event()
        self._chunks: deque[_Chunk] = deque()
        self._most = 2 * choice.threads + 2
        self._noted = time.perf_counter()  # when the results of the last chunk were yielded
        self._chunk_size = 1
        self._result_size = 0  # bytes of the result of an item
        self.ended = False
        self._error: BaseException | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        for chunk in self._chunks:
            chunk.done.cancel()

    def next_chunk(self) -> _Chunk | None:
        """Return the oldest chunk when it is done; None at the end. Raise an error of the stream after its items."""
        began, before = time.perf_counter(), self._pool.spent
        try:
            return self._oldest()
        finally:
            self._pool.spent = before + time.perf_counter() - began

    def _oldest(self) -> _Chunk | None:
        self._add_chunk()  # in place of the one that is returned, so that as many stay in flight
        while self._chunks and not self._chunks[0].done.done() and self._add_chunk():
            pass
        if not self._chunks:
            error, self._error = self._error, None  # its traceback refers to this frame
            if error is not None:
                raise error
            return None
        chunk = self._chunks.popleft()
        with self._meter.timing("wait for functions"):
            chunk.done.result()
        chunk.before = None
        self._meter.add("functions", chunk.seconds, count=len(chunk.results))
        self._meter.add("functions on a processor", chunk.on_processor, count=len(chunk.results))
        self._adapt(chunk)
        return chunk

    def note(self, chunk: _Chunk) -> None:
        """Note that the results of a chunk were yielded."""
        before, self._noted = self._noted, time.perf_counter()
        if not self._changed:
            self._changed = self._choice.on_threads(
                items=len(chunk.results),
                seconds=chunk.seconds,
                on_processor=chunk.on_processor,
                wall=self._noted - before,
            )
            self._meter.choice = str(self._choice)

    def _adapt(self, chunk: _Chunk) -> None:
        """Choose the size of the next chunks by the time and the bytes of this one's results."""
        per_item = chunk.seconds / max(1, len(chunk.results))
        # Halved at most: after one small result among large ones, a large chunk would take too much memory.
        self._result_size = max(chunk.size // max(1, len(chunk.results)), self._result_size // 2)
        wanted = min(_LARGEST_CHUNK, int(_TASK_SECONDS / max(per_item, 1e-9)), 2 * self._chunk_size)
        self._chunk_size = self._fitting(wanted, self._result_size)

    def _fitting(self, wanted: int, size: int) -> int:
        """Return how many of the wanted items of this size fit into a chunk: at least one."""
        return max(1, min(wanted, self._pool.memory // self._most // max(1, size)))

    def _add_chunk(self) -> bool:
        """Take a chunk from the stream if it fits into the limits; return whether there may be another one."""
        if self.ended or self._changed or (self._chunks and not self._fits()):
            return False
        chunk = _Chunk([], 0, self._chunks[-1] if self._chunks else None)
        began, before = time.perf_counter(), self._pool.spent
        try:
            self._take(chunk)
        except Exception as error:  # raised after the items before it; Ctrl-C is not caught
            self._error, self.ended = error, True
        self._meter.add("read", time.perf_counter() - began - (self._pool.spent - before), count=len(chunk.items))
        if chunk.items:
            context = self._context.copy()  # so that `world.current()` in the thread is that of the consumer
            chunk.done = self._executor.submit(context.run, _apply, chunk, self._function, self._stopped)
            self._chunks.append(chunk)
        return not self.ended

    def _take(self, chunk: _Chunk) -> None:
        at, items, upstream = self._at, chunk.items, self._at.upstream
        while at.again and len(items) < self._chunk_size:
            items.append(at.again.popleft())  # its origin is in `at.origins` already
        most = self._chunk_size
        while len(items) < most:
            try:
                items.append(next(self._items))
            except StopIteration:
                self.ended = True
                break
            at.origins.append(upstream.origin if upstream is not None else None)
            if len(items) == 1:
                most = self._fitting(most, size_of(items[0]))
        # Count the results from now on: a hundred photos are small until they are decoded.
        chunk.size = max(size_of_many(items), len(items) * self._result_size)

    def _fits(self) -> bool:
        if len(self._chunks) >= self._most:
            return False
        return sum(chunk.size for chunk in self._chunks) < self._pool.memory
