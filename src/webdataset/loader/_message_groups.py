"""Messages of a worker travel together where items are small and come quickly; their order stays the same.

torch asks a worker for every single message through one queue and brings it through another. That wakes four threads,
and takes as long as it takes to make a hundred small samples.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator
from typing import TYPE_CHECKING

from webdataset.pipeline import EpochCounter

if TYPE_CHECKING:
    from ._worker import Message

_WATCHED = 0.05  # seconds from the first group on, in which items are counted
_QUICK = 0.02  # seconds in which the items of a group may come
_SLOW = 0.2
LONGEST = 0.1  # seconds after which a worker sends a group that is not full
_MOST = 16  # messages in a group
_LARGEST = 4 << 20  # bytes of a group


class GroupSize:
    """How many messages travel together. The loader chooses it, the workers read it.

    It changes twice at most: once it is known how quickly items come, and back if they become slow or large. A worker
    that has sent larger groups than another one has its items wait in the loader, so changes must be few.
    """

    def __init__(self) -> None:
        self._shared = EpochCounter()  # a number that processes share
        self._shared.set(1)
        self._began: float | None = None
        self._items = self._bytes = 0
        self._final = False

    def __int__(self) -> int:
        return self._shared.peek()

    def note(self, group: list[Message], waited: float) -> None:
        """The loader got a group, and waited so long for it."""
        if self._final:
            return
        size, now = sum(message.size for message in group), time.perf_counter()
        if int(self) > 1:
            if waited > _SLOW or size > 4 * _LARGEST:
                self._shared.set(1)
                self._final = True
            return
        if self._began is None:
            self._began = now
            return
        self._items, self._bytes = self._items + len(group), self._bytes + size
        if now - self._began > _WATCHED:
            each = (now - self._began) / self._items
            chosen = min(_MOST, int(_QUICK / each), _LARGEST * self._items // max(1, self._bytes))
            self._shared.set(max(1, chosen))
            self._final = chosen <= 1


def in_turns(groups: Iterator[list[Message]], workers: int, turn: int, size: GroupSize) -> Iterator[Message]:
    """The messages of all workers, one item of each in turn, beginning with worker `turn`.

    Args:
        groups: what the workers send, in any order of the workers.
        workers: how many there are.
        turn: whose item comes first.
        size: told how the groups come.
    """
    waiting: list[deque[Message]] = [deque() for _ in range(workers)]
    live = deque(range(workers))
    live.rotate(-turn)
    while live:
        mine = waiting[live[0]]
        while not mine:
            began = time.perf_counter()
            group = next(groups, None)
            if group is None:
                return
            size.note(group, time.perf_counter() - began)
            waiting[group[0].worker].extend(group)
        message = mine.popleft()
        if message.is_last:
            live.popleft()
        elif message.content is not None:
            live.rotate(-1)
        yield message
