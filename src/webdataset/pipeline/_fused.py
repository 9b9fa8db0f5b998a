"""Functions of one item, run in one loop; and the items that a loader that runs them on threads has in flight.

Both have the same progress, so a checkpoint that was saved with threads can be resumed without them, and vice versa.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from webdataset.errors import StateError
from webdataset.flow import DROP, EndOfStreamError, Json, Pass, Progress, Recall, Resumable, fuse

UPSTREAM: Final = object()  # for `InFlight.handed`: the origin is that of the progress before; None is an unknown one


class InFlight(Progress):
    """Items that were taken and whose results were not yielded, oldest first: only with threads, or after a failure."""

    def __init__(self) -> None:
        self.origins: deque[Json] = deque()
        self.again: deque[Any] = deque()
        self.handed: Json = UPSTREAM

    @property
    def origin(self) -> Json:
        """Where the item that was yielded last came from."""
        if self.handed is not UPSTREAM:
            return self.handed
        # Not through super(), which takes longer than everything else here; this is called once per sample.
        return self.upstream.origin if self.upstream is not None else None

    def save(self) -> Json:
        """The origins, if every item can be read again."""
        if None in self.origins:
            raise StateError(
                "an item whose function failed or still runs has an unknown origin and could not be read again",
                hint="use the state saved before it, or put the function where samples are read, before they are mixed",
            )
        return list(self.origins)

    def load(self, saved: Json, recall: Recall) -> None:
        """Read the items again; their functions are still to run."""
        self.origins = deque(saved)
        self.again = deque(recall(origin) for origin in saved)


@dataclass(frozen=True)
class Loop(Resumable):
    """The functions in a loop, in this thread.

    >>> list(Loop([abs, str])([-1, 2]))
    ['1', '2']
    """

    functions: Sequence[Callable[[Any], Any]]

    def start(self, during: Pass) -> InFlight:
        """Return the progress of a pass: nothing is in flight."""
        return InFlight()

    def run(self, items: Iterator[Any], at: InFlight, /) -> Iterator[Any]:
        """Yield the results of the items that were in flight, then of the others."""
        if not at.again:
            at.handed = UPSTREAM
        return _apply(fuse(self.functions), _before(items, at) if at.again else items, at)


def _apply(apply: Callable[[Any], Any], items: Iterator[Any], at: InFlight) -> Iterator[Any]:
    """Do the same as `flow.apply_each`, and keep an item whose function failed in flight: a resume tries it again."""
    busy = False
    try:
        for item in items:
            busy = True
            result = apply(item)
            busy = False
            if result is not DROP:
                yield result
    except EndOfStreamError:
        at.stopped = True
    except BaseException:
        if busy and not (at.upstream is not None and at.handed is UPSTREAM and at.upstream.take_back()):
            at.origins.appendleft(at.origin)
        raise


def _before(items: Iterator[Any], at: InFlight) -> Iterator[Any]:
    while at.again:
        item, at.handed = at.again[0], at.origins[0]
        del at.again[0], at.origins[0]  # not by a call: Ctrl-C comes when a call ends, and would lose the item
        yield item
    at.handed = UPSTREAM
    for item in items:  # not `yield from`, which would close the items when this loop is left
        yield item
