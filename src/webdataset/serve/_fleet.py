"""`Fleet`: all workers of a trainer. In: requests. Out: answers, in the order of the requests.

Open requests are limited: for each worker by the number that it makes at a time, for all by their bytes. The requests
of a worker that is disconnected, silent, faulty or late are sent to others. An item is the same from any worker.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from webdataset import errors
from webdataset.errors import FormatError, StageError, WebDatasetError

from ._item_frames import decode_item
from ._messages import Request
from ._remote_worker import Answer, RemoteWorker, Standing
from ._serve_packages import load_msgpack
from ._worker_roster import TICK_MS, Deadline, Roster

# A request is late when it takes so many times as long as usual, and at least so many seconds.
_LATE_FACTOR, _LATE_SECONDS = 4.0, 1.0
# So many times as many requests are open as workers have at a time: a worker continues while a slower one makes the
# next item. 4 instead of 1 halves the time that trainers wait (benchmarks/serve.py --simulate).
_AHEAD = 4


@dataclass(eq=False)
class _Slot:
    """A request, the workers that it was sent to, and its result."""

    request: Request
    workers: list[RemoteWorker] = field(default_factory=list)
    failed_at: set[str] = field(default_factory=set)
    items: list[Any] | None = None
    error: Exception | None = None
    size: int = 0

    @property
    def is_done(self) -> bool:
        return self.items is not None or self.error is not None


class Fleet(Roster):
    """All workers of a trainer. In: requests. Out: answers, in the order of the requests."""

    def __init__(self, *args: Any) -> None:
        self._slots: dict[int, _Slot] = {}
        self._next = 0
        self.last_size = 0  # of the answer that was yielded last, in bytes
        self._spans: deque[float] = deque(maxlen=64)
        self._sizes: deque[tuple[int, int]] = deque(maxlen=64)  # of answers: bytes, steps
        super().__init__(*args)

    # --- answers in order -----------------------------------------------------------------------------------------

    def ordered(self, requests: Iterable[Request]) -> Iterator[list[Any]]:
        """The items of each request, in the order of the requests.

        Raises:
            WebDatasetError: a step cannot be made, or there is no worker.
        """
        waiting, first = iter(requests), self._next
        more = True
        while True:
            while more and self._has_room():
                request = next(waiting, None)
                more = request is not None
                if request is not None:
                    self._slots[self._next] = _Slot(request)
                    self._next += 1
            if first == self._next and not more:
                return
            self._exchange_messages(0)
            self._assign()
            if self._slots and not self._slots[first].is_done:
                self._wait_for(first)
            slot = self._slots.pop(first)
            first += 1
            if slot.error is not None:
                raise slot.error
            assert slot.items is not None
            self.last_size = slot.size
            yield slot.items

    def _wait_for(self, first: int) -> None:
        deadline = Deadline(self._options.timeout)
        last = len(self._slots)
        while not self._slots[first].is_done:
            self._exchange_messages(TICK_MS)
            self._check_workers()
            self._ask_again_if_late(first)
            self._assign()
            done = sum(slot.is_done for slot in self._slots.values())
            if done != last:
                last, deadline = done, Deadline(self._options.timeout)
            if deadline.is_over():
                raise self._no_answer()

    def _has_room(self) -> bool:
        """Whether one more request may be open: limits are a multiple of what workers may have, and `buffer` bytes."""
        ready = self._ready()
        most = _AHEAD * sum(map(_most_requests, ready)) if self._sizes else 2 * len(ready)
        held = sum(slot.request.steps for slot in self._slots.values()) * self._bytes_of_a_step()
        return len(self._slots) < max(1, most) and (len(self._slots) < 2 or held < self._options.buffer)

    def _bytes_of_a_step(self) -> float:
        return sum(size for size, _ in self._sizes) / max(1, sum(steps for _, steps in self._sizes))

    # --- which worker gets a request ------------------------------------------------------------------------------

    def _assign(self) -> None:
        """Send the requests that no worker has, the earliest first, to the workers with the fewest requests."""
        for number, slot in self._slots.items():
            if slot.is_done or slot.workers:
                continue
            if not self._ask(number, slot):
                return

    def _ask(self, number: int, slot: _Slot) -> bool:
        able = [
            worker
            for worker in self._ready()
            if len(worker.asked) < _most_requests(worker) and worker not in slot.workers
        ]
        able.sort(key=lambda worker: (worker.address in slot.failed_at, len(worker.asked) / _most_requests(worker)))
        for worker in able:
            if worker.ask(number, slot.request):
                slot.workers.append(worker)
                return True
        return False

    def _ask_again_if_late(self, first: int) -> None:
        """If the next answer is late, send its request to another worker too, and give the late one fewer requests."""
        slot, now = self._slots[first], time.monotonic()
        usual = sum(self._spans) / len(self._spans) if self._spans else self._options.patience
        for worker in slot.workers:
            since = now - worker.asked.get(first, now)
            if since > max(_LATE_SECONDS, _LATE_FACTOR * usual) and len(slot.workers) < 2 and self._ask(first, slot):
                worker.is_slow = True
                return

    def _answered(self, worker: RemoteWorker, answer: Answer) -> None:
        asked, slot = worker.asked.pop(answer.number, None), self._slots.get(answer.number)
        if asked is None:  # the request was taken back
            return
        if slot is None or slot.is_done:  # another worker was faster
            worker.is_slow = False
            return
        if answer.kind == b"made":
            slot.items, slot.size = _decoded(answer, slot.request), answer.size
            self._spans.append(time.monotonic() - asked)
            self._sizes.append((answer.size, slot.request.steps))
            worker.is_slow = False
            return
        if worker in slot.workers:
            slot.workers.remove(worker)
        if answer.kind == b"refused":
            worker.offer, worker.standing, worker.reason, worker.tried = None, Standing.SILENT, "it changed", 0.0
            self._take_back(worker)
        elif answer.kind == b"failed":
            slot.failed_at.add(worker.address)
            if not [other for other in self._ready() if other.address not in slot.failed_at]:
                slot.error = _as_error(answer.header, worker.address)

    def _take_back(self, worker: RemoteWorker, numbers: set[int] | None = None) -> None:
        """Give the requests of this worker to others."""
        worker.forget_asked(numbers)
        for number, slot in self._slots.items():
            if worker in slot.workers and (numbers is None or number in numbers):
                slot.workers.remove(worker)


def _most_requests(worker: RemoteWorker) -> int:
    """The limit of requests of a worker: twice the number that it makes at a time, so that it never waits."""
    return 1 if worker.is_slow or worker.offer is None else 2 * max(1, min(worker.offer.threads, 256))


def _decoded(answer: Answer, request: Request) -> list[Any]:
    if not answer.frames:
        raise FormatError("an answer has no items")
    packed, *frames = answer.frames
    try:
        tree = load_msgpack().unpackb(packed, strict_map_key=False)
    except Exception as error:  # it raises several kinds, also of its own
        raise FormatError(f"the items cannot be read: {error}") from error
    items = decode_item(tree, frames, request.wire)
    if not isinstance(items, list):
        raise FormatError("an answer is not a list of items")
    return items


def _as_error(header: dict[str, Any], address: str) -> Exception:
    """An error of the class that the error of the worker had."""
    name, what = str(header.get("class")), str(header.get("what"))
    found = getattr(errors, name, None)
    simple = (
        isinstance(found, type) and issubclass(found, WebDatasetError) and found.__init__ is WebDatasetError.__init__
    )
    kind = found if simple else StageError
    return kind(f"{what} (on the worker {address})")  # type: ignore[misc]
