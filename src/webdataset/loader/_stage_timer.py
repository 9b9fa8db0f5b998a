"""A closer look: how long every stage takes, measured item by item. Costs about a microsecond per stage and item."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

from ._meter import Meter, timed

READER, STREAM, FUNCTION = "reader ", "stream ", "function "
ON_PROCESSOR = "on a processor: "  # the same functions, without the time in which they waited


class Watch:
    """Times streams and functions; what `Running` calls `watch`.

    >>> watch = Watch(Meter())
    >>> list(watch.stream("range", iter(range(3)))), watch.function("abs", abs)(-1)
    ([0, 1, 2], 1)
    >>> dict(watch.meter.counts)
    {'stream range': 3, 'function abs': 1, 'on a processor: function abs': 1}
    """

    def __init__(self, meter: Meter) -> None:
        self.meter = meter
        self._lock = threading.Lock()

    def stream(self, name: str, items: Iterator[Any], *, reads: bool = False) -> Iterator[Any]:
        """The items; the time includes that of the streams before."""
        return timed(items, self.meter, (READER if reads else STREAM) + name)

    def function(self, name: str, function: Callable[[Any], Any]) -> Callable[[Any], Any]:
        """The function; it may run in many threads."""
        meter, key, lock = self.meter, FUNCTION + name, self._lock
        meter.add(key, 0.0, count=0)  # so that the names stand in the order of the stages

        def timed_function(item: Any) -> Any:
            started, ran = time.perf_counter(), time.thread_time()
            try:
                return function(item)
            finally:
                seconds, on_processor = time.perf_counter() - started, time.thread_time() - ran
                with lock:
                    meter.add(key, seconds)
                    meter.add(ON_PROCESSOR + key, on_processor)

        return timed_function
