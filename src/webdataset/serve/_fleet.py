"""`Fleet`: all workers of a trainer. Requests go in, answers come out in the order of the requests.

Requests in flight are bounded: for each worker by what it can make at a time, in all by their bytes. A worker that is gone,
silent, faulty or late loses its requests to others. Which worker makes an item does not change the item.

There is no thread. Whoever takes an answer does the talking, so time counts against a worker only while a trainer waits.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

from webdataset import errors
from webdataset.errors import FormatError, SpecError, StageError, StateError, StoreTimeout, WebDatasetError

from ._curve_keys import Keys, as_keys, check_address
from ._item_frames import decode_item
from ._messages import Request
from ._offer import Offer
from ._remote_worker import Answer, RemoteWorker, Standing, offer_of
from ._serve_extra import load_msgpack, load_zmq

logger = logging.getLogger(__name__)

_TICK_MS = 100
# A request is late when it takes so many times as long as usual, and at least so many seconds.
_LATE_FACTOR, _LATE_SECONDS = 4.0, 1.0


@dataclass(frozen=True)
class FleetOptions:
    """How a trainer talks to its workers.

    Attributes:
        keys: this trainer's keys.
        insecure: connect without keys to addresses that are not loopback.
        patience: a worker that does not answer a ping for so many seconds is silent.
        timeout: an error is raised after so many seconds without any answer; None waits for ever.
        buffer: how many bytes may be in flight and waiting for their turn.
        largest: the largest frame that is accepted, in bytes.
    """

    keys: Keys | None = None
    insecure: bool = False
    patience: float = 10.0
    timeout: float | None = 300.0
    buffer: int = 1 << 30
    largest: int = 1 << 32


@dataclass(eq=False)
class _Slot:
    """A request, who was asked, and what came of it."""

    request: Request
    at: list[RemoteWorker] = field(default_factory=list)
    failed_at: set[str] = field(default_factory=set)
    items: list[Any] | None = None
    error: Exception | None = None
    size: int = 0

    @property
    def is_done(self) -> bool:
        return self.items is not None or self.error is not None


class Fleet:
    """The workers at some addresses.

    Args:
        addresses: of workers, or a function that returns them; it is called again and again, so workers may come and go.
        options: how to talk to them.
        expects: the digest of what they must serve; None accepts what the first of them says.
    """

    def __init__(
        self,
        addresses: Sequence[str] | Callable[[], Sequence[str]],
        options: FleetOptions,
        expects: Offer | None = None,
        digest: str | None = None,
    ) -> None:
        self._addresses, self._options, self._expects, self._digest = addresses, options, expects, digest
        self._workers: dict[str, RemoteWorker] = {}
        self._slots: dict[int, _Slot] = {}
        self._next = 0
        self._spans: deque[float] = deque(maxlen=64)
        self._sizes: deque[int] = deque(maxlen=64)
        self._looked = 0.0
        self._batch = 1
        self._context = load_zmq().Context()
        try:
            self._look_for_workers()
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close all connections."""
        for worker in self._workers.values():
            worker.close()
        self._workers.clear()
        self._context.destroy(linger=100)

    # --- answers in order -----------------------------------------------------------------------------------------

    def ordered(self, requests: Iterable[Request]) -> Iterator[list[Any]]:
        """The items of each request, in the order of the requests.

        Raises:
            WebDatasetError: a step cannot be made, or there is no worker.
        """
        waiting, first = iter(requests), self._next
        more = True
        while True:
            while more and len(self._slots) < self._most_slots():
                request = next(waiting, None)
                more = request is not None
                if request is not None:
                    self._slots[self._next] = _Slot(request)
                    self._next += 1
            if first == self._next and not more:
                return
            self._talk(0)
            self._assign()
            if self._slots and not self._slots[first].is_done:
                self._wait_for(first)
            slot = self._slots.pop(first)
            first += 1
            if slot.error is not None:
                raise slot.error
            assert slot.items is not None
            yield slot.items

    def _wait_for(self, first: int) -> None:
        deadline = _Deadline(self._options.timeout)
        last = len(self._slots)
        while not self._slots[first].is_done:
            self._talk(_TICK_MS)
            self._check_lives()
            self._ask_again_if_late(first)
            self._assign()
            done = sum(slot.is_done for slot in self._slots.values())
            if done != last:
                last, deadline = done, _Deadline(self._options.timeout)
            if deadline.is_over:
                raise self._nobody_answers()

    def _most_slots(self) -> int:
        """How many requests may be open: as many as workers can make, within the bytes that may be held."""
        most = sum(_credit(worker) for worker in self._ready()) or 1
        if not self._sizes:
            return max(1, min(most, 2 * len(self._ready())))
        return max(2, min(most, int(self._options.buffer * len(self._sizes) / max(1, sum(self._sizes)))))

    # --- who is asked ---------------------------------------------------------------------------------------------

    def _ready(self) -> list[RemoteWorker]:
        return [worker for worker in self._workers.values() if worker.standing is Standing.READY]

    def _assign(self) -> None:
        """Ask for what is not being made, the earliest first, the worker with the fewest requests first."""
        for number, slot in self._slots.items():
            if slot.is_done or slot.at:
                continue
            if not self._ask(number, slot):
                return

    def _ask(self, number: int, slot: _Slot) -> bool:
        able = [worker for worker in self._ready() if len(worker.asked) < _credit(worker) and worker not in slot.at]
        able.sort(key=lambda worker: (worker.address in slot.failed_at, len(worker.asked) / _credit(worker)))
        for worker in able:
            if worker.ask(number, slot.request):
                slot.at.append(worker)
                return True
        return False

    def _ask_again_if_late(self, first: int) -> None:
        """If what comes next is late, ask another worker too, and expect less of the late one."""
        slot, now = self._slots[first], time.monotonic()
        usual = sum(self._spans) / len(self._spans) if self._spans else self._options.patience
        for worker in slot.at:
            since = now - worker.asked.get(first, now)
            if since > max(_LATE_SECONDS, _LATE_FACTOR * usual) and len(slot.at) < 2 and self._ask(first, slot):
                worker.is_slow = True
                return

    # --- talking --------------------------------------------------------------------------------------------------

    def _talk(self, wait_ms: int) -> None:
        """Read all messages and events; wait for one if there is none."""
        zmq = load_zmq()
        self._look_for_workers()
        poller = zmq.Poller()
        for worker in self._workers.values():
            poller.register(worker.socket, zmq.POLLIN)
            poller.register(worker.monitor, zmq.POLLIN)
        ready = dict(poller.poll(wait_ms))
        for worker in self._workers.values():
            if worker.socket in ready:
                self._read(worker)
            if worker.monitor in ready:
                lost = worker.note_events()
                if lost is not None:
                    self._lose(worker, lost)
            if worker.offer is None and worker.standing is not Standing.REFUSED and worker.tried == 0.0:
                worker.find_out(self._batch)

    def _read(self, worker: RemoteWorker) -> None:
        try:
            while (answer := worker.receive()) is not None:
                self._note(worker, answer)
        except (WebDatasetError, ValueError, TypeError, KeyError) as error:
            worker.refuse(f"it answered something that is not understood: {error}")
            self._give_back(worker)

    def _note(self, worker: RemoteWorker, answer: Answer) -> None:
        if answer.kind == b"offer":
            self._welcome(worker, answer)
        elif answer.kind == b"pong":
            for number in worker.answered_ping(answer):
                self._unask(worker, number)
            if worker.standing is Standing.SILENT and worker.offer is not None:
                worker.standing = Standing.READY
        elif answer.kind in {b"made", b"failed", b"refused", b"busy"}:
            asked = worker.asked.pop(answer.number, None)
            if asked is not None:
                self._finish(worker, answer, asked)
        else:
            raise FormatError(f"the kind {answer.kind!r} is not known")

    def _finish(self, worker: RemoteWorker, answer: Answer, asked: float) -> None:
        slot = self._slots.get(answer.number)
        if slot is None or slot.is_done:  # another worker was quicker
            worker.is_slow = False
            return
        if answer.kind == b"made":
            slot.items = _decoded(answer, slot.request)
            self._spans.append(time.monotonic() - asked)
            self._sizes.append(answer.size)
            worker.is_slow = False
            return
        if worker in slot.at:
            slot.at.remove(worker)
        if answer.kind == b"refused":
            worker.offer, worker.standing, worker.reason, worker.tried = None, Standing.SILENT, "it changed", 0.0
            self._give_back(worker)
        elif answer.kind == b"failed":
            slot.failed_at.add(worker.address)
            if not [other for other in self._ready() if other.address not in slot.failed_at]:
                slot.error = _as_error(answer.header, worker.address)

    def _welcome(self, worker: RemoteWorker, answer: Answer) -> None:
        try:
            offer, digest = offer_of(answer)
        except SpecError as error:
            worker.refuse(error.what)
            return
        worker.offer, worker.digest = offer, digest
        if self._expects is not None and digest != self._digest:
            difference = self._expects.difference(offer) or "its code or options differ"
            worker.refuse(f"it serves something else: {difference}")
            return
        worker.standing, worker.reason = Standing.READY, ""

    # --- who is alive ---------------------------------------------------------------------------------------------

    def _check_lives(self) -> None:
        """Ping, while a trainer waits; a worker that does not answer in time loses its requests."""
        now, patience = time.monotonic(), self._options.patience
        for worker in self._workers.values():
            if worker.standing is Standing.REFUSED:
                continue
            if now - worker.tried > patience / 4:
                worker.find_out(self._batch)
            if worker.pinged and now - worker.pinged > patience:
                self._lose(worker, f"no answer for {patience:g} s")

    def _lose(self, worker: RemoteWorker, reason: str) -> None:
        if worker.standing is not Standing.REFUSED:
            if worker.standing is Standing.READY:
                logger.info("the worker %s is gone: %s", worker.address, reason)
            worker.standing, worker.reason = Standing.SILENT, reason
        self._give_back(worker)

    def _give_back(self, worker: RemoteWorker) -> None:
        """Let others make what this worker was asked for."""
        worker.forget_asked()
        for slot in self._slots.values():
            if worker in slot.at:
                slot.at.remove(worker)

    def _unask(self, worker: RemoteWorker, number: int) -> None:
        worker.asked.pop(number, None)
        slot = self._slots.get(number)
        if slot is not None and worker in slot.at:
            slot.at.remove(worker)

    def _look_for_workers(self) -> None:
        now = time.monotonic()
        if self._workers and (not callable(self._addresses) or now - self._looked < self._options.patience / 4):
            return
        self._looked = now
        found = list(self._addresses() if callable(self._addresses) else self._addresses)
        for address in found:
            if address not in self._workers:
                check_address(address, self._options.keys, insecure=self._options.insecure)
                worker = RemoteWorker(address)
                worker.open(self._context, self._options.keys, self._options.largest)
                self._workers[address] = worker
        for address in self._workers.keys() - set(found):
            worker = self._workers.pop(address)
            self._give_back(worker)
            worker.close()

    # --- the handshake --------------------------------------------------------------------------------------------

    def agree(self, batch: int = 1) -> tuple[Offer, str]:
        """What all workers that can be reached serve, and its digest.

        Raises:
            StoreTimeout: no worker can be reached.
            StateError: two of them serve different things.
        """
        deadline, patience, self._batch = _Deadline(self._options.timeout), _Deadline(self._options.patience), batch
        while True:
            self._talk(_TICK_MS)
            for worker in self._workers.values():
                if worker.offer is None and time.monotonic() - worker.tried > self._options.patience / 4:
                    worker.find_out(batch)
            open_ones = [w for w in self._workers.values() if w.standing is Standing.SILENT]
            if not open_ones or (self._ready() and patience.is_over):
                break
            if deadline.is_over or (patience.is_over and all("keys" in w.reason for w in open_ones)):
                raise self._nobody_answers()
        ready = self._ready()
        if not ready:
            raise self._nobody_answers()
        for other in ready[1:]:
            if other.digest != ready[0].digest:
                assert ready[0].offer is not None
                assert other.offer is not None
                difference = ready[0].offer.difference(other.offer) or "their options differ"
                raise StateError(
                    f"the worker {other.address} differs from {ready[0].address}: {difference}",
                    hint="start all workers with the same arguments, code and packages",
                )
        assert ready[0].offer is not None
        return ready[0].offer, ready[0].digest

    def stats(self) -> dict[str, dict[str, Any]]:
        """What each worker counted, or why it does not answer."""
        deadline = _Deadline(self._options.timeout)
        pending = set(self._workers)
        while pending and not deadline.is_over:
            for worker in self._workers.values():
                if worker.address in pending and time.monotonic() - worker.tried > self._options.patience / 4:
                    worker.find_out()
            self._talk(_TICK_MS)
            pending = {w.address for w in self._workers.values() if not w.stats and w.standing is not Standing.REFUSED}
        return {w.address: w.stats or {"unreachable": w.reason} for w in self._workers.values()}

    def _nobody_answers(self) -> WebDatasetError:
        workers = self._workers.values()
        reasons = "; ".join(f"{worker.address} {worker.reason or worker.standing.value}" for worker in workers)
        if workers and all(worker.standing is Standing.REFUSED for worker in workers):
            return StateError(f"no worker can be used: {reasons}", hint="start workers with the same code and data")
        return StoreTimeout(
            f"no worker answers: {reasons}", hint="are they running, and are the addresses and keys right?"
        )


@dataclass
class _Deadline:
    seconds: float | None
    began: float = field(default_factory=time.monotonic)

    @property
    def is_over(self) -> bool:
        return self.seconds is not None and time.monotonic() - self.began > self.seconds


def _credit(worker: RemoteWorker) -> int:
    """How many requests a worker may have at a time: twice what it makes at a time, so that it never waits."""
    return 1 if worker.is_slow or worker.offer is None else 2 * max(1, min(worker.offer.threads, 256))


def _decoded(answer: Answer, request: Request) -> list[Any]:
    packed = answer.header.get("items")
    if not isinstance(packed, bytes):
        raise FormatError("an answer has no items")
    try:
        tree = load_msgpack().unpackb(packed, strict_map_key=False)
    except Exception as error:  # it raises several kinds, also of its own
        raise FormatError(f"the items cannot be read: {error}") from error
    items = decode_item(tree, answer.frames, request.wire)
    if not isinstance(items, list):
        raise FormatError("an answer is not a list of items")
    return items


def _as_error(header: dict[str, Any], address: str) -> Exception:
    """The error of a worker, as one of the same class here."""
    name, what = str(header.get("class")), str(header.get("what"))
    found = getattr(errors, name, None)
    simple = (
        isinstance(found, type) and issubclass(found, WebDatasetError) and found.__init__ is WebDatasetError.__init__
    )
    kind = found if simple else StageError
    return kind(f"{what} (on the worker {address})")  # type: ignore[misc, operator, no-any-return]


def options_from(keys: Any, **given: Any) -> FleetOptions:
    """Options, with keys also from the name of a file."""
    return FleetOptions(keys=as_keys(keys), **given)
