"""Groups of messages: a worker sends several at once where items are small and come quickly. Their order is unchanged.

torch requests every message of a worker through one queue and receives it through another. That wakes four threads, and
takes as long as making a hundred small samples.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator
from typing import TYPE_CHECKING

from webdataset.pipeline import EpochCounter

if TYPE_CHECKING:
    from ._worker import Message

_MEASURED = 0.05  # seconds from the first group on in which items are counted, to choose the size
_QUICK = 0.02  # seconds in which the items of a group should be made
_SLOW = 0.2  # seconds of waiting for a group after which groups are given up
LONGEST = 0.1  # seconds after which a worker sends a group that is not full
_MOST = 16  # messages in a group
_LARGEST = 4 << 20  # bytes of a group


class GroupSize:
    """How many messages are sent at once. The loader chooses the number, the workers read it.

    It changes at most twice: when the rate of items has been measured, and back to 1 if items become slow or large.
    After a change one worker may send larger groups than another, and its items wait in the loader, so changes must be
    few.
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
        """Note a group that the loader received.

        Args:
            group: its messages.
            waited: how many seconds the loader waited for it.
        """
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
        if now - self._began > _MEASURED:
            each = (now - self._began) / self._items
            chosen = min(_MOST, int(_QUICK / each), _LARGEST * self._items // max(1, self._bytes))
            self._shared.set(max(1, chosen))
            self._final = chosen <= 1


def in_turns(groups: Iterator[list[Message]], workers: int, turn: int, size: GroupSize) -> Iterator[Message]:
    """Yield the messages of all workers, one item of each in turn, beginning with worker `turn`.

    Args:
        groups: the groups as they arrive, in any order of the workers.
        workers: how many workers there are.
        turn: the worker whose item comes first.
        size: is informed of every group that arrives.
    """
    waiting: list[deque[Message]] = [deque() for _ in range(workers)]
    live = deque(range(workers))
    live.rotate(-turn)
    while live:
        arrived = waiting[live[0]]
        while not arrived:
            began = time.perf_counter()
            group = next(groups, None)
            if group is None:
                return
            size.note(group, time.perf_counter() - began)
            waiting[group[0].worker].extend(group)
        message = arrived.popleft()
        if message.is_last:
            live.popleft()
        elif message.content is not None:
            live.rotate(-1)
        yield message
