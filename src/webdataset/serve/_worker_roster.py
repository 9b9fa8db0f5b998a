"""`Roster`: the workers of a trainer: their connections, their offers, and whether they are alive.

There is no thread: messages are sent and read by the caller that takes an answer.
"""

from __future__ import annotations

import logging
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from webdataset.errors import FormatError, SpecError, StateError, StoreTimeout, WebDatasetError
from webdataset.stores import Closing

from ._batch_memory import BatchMemory
from ._curve_keys import Keys, as_keys, check_address
from ._messages import checked
from ._remote_worker import Answer, RemoteWorker, Standing
from ._serve_packages import load_zmq
from ._served_pipeline import Offer

logger = logging.getLogger(__name__)

# How long a trainer waits for messages before it checks its workers.
TICK_MS = 100
# A handshake has at least so many seconds.
_SOONEST_REOPEN = 1.0
# At most so many seconds between two checks of a deadline are counted.
_LONGEST_CHECK = 1.0

Addresses = Sequence[str] | Callable[[], Sequence[str]]


@dataclass(frozen=True)
class FleetOptions:
    """How a trainer communicates with its workers.

    Attributes:
        keys: this trainer's keys.
        insecure: connect without keys to addresses that are not loopback.
        patience: a worker that does not answer a ping for so many seconds is silent.
        timeout: an error is raised after so many seconds without any answer; None for no limit.
        buffer: how many bytes of items may be requested or received and not yet returned.
    """

    keys: Keys | None = None
    insecure: bool = False
    patience: float = 10.0
    timeout: float | None = 300.0
    buffer: int = 1 << 30


class Roster(Closing, ABC):
    """The workers at some addresses.

    Args:
        addresses: of workers, or a function that returns them; it is called again and again, so workers come and go.
        options: how to talk to them.
        expects: what they must serve; None accepts anything.
        digest: the digest of that.
    """

    def __init__(
        self, addresses: Addresses, options: FleetOptions, expects: Offer | None = None, digest: str | None = None
    ) -> None:
        self._addresses, self._options, self._expects, self._digest = addresses, options, expects, digest
        self._workers: dict[str, RemoteWorker] = {}
        self._updated = 0.0
        self._batch = 1
        self._memory = BatchMemory(options.buffer // 2)
        self._context = load_zmq().Context()
        self._context.max_sockets = 1 << 16  # three for each worker; the limit of descriptors comes first
        try:
            self._update_workers()
        except BaseException:
            self.close()
            raise

    @abstractmethod
    def _answered(self, worker: RemoteWorker, answer: Answer) -> None:
        """Process the answer to a request."""

    @abstractmethod
    def _take_back(self, worker: RemoteWorker, numbers: set[int] | None = None) -> None:
        """Take requests back from a worker; None takes all of them back."""

    def close(self) -> None:
        """Close all connections."""
        for worker in self._workers.values():
            worker.close()
        self._workers.clear()
        self._context.destroy(linger=100)

    def _ready(self) -> list[RemoteWorker]:
        return [worker for worker in self._workers.values() if worker.standing is Standing.READY]

    # --- messages -------------------------------------------------------------------------------------------------

    def _exchange_messages(self, wait_ms: int) -> None:
        """Read all messages and events; wait for one if there is none."""
        zmq = load_zmq()
        self._update_workers()
        poller = zmq.Poller()
        for worker in self._workers.values():
            poller.register(worker.socket, zmq.POLLIN)
            poller.register(worker.monitor, zmq.POLLIN)
        ready = dict(poller.poll(wait_ms))
        for worker in self._workers.values():
            # Events before messages: a message was sent over the connection that they announce.
            if (worker.monitor in ready or worker.socket in ready) and (lost := worker.note_events()) is not None:
                self._disconnect(worker, lost)
            if worker.socket in ready:
                self._read(worker)
            if worker.offer is None and worker.standing is not Standing.REFUSED and worker.tried == 0.0:
                worker.send_ping(self._batch)

    def _read(self, worker: RemoteWorker) -> None:
        try:
            while (answer := worker.receive(self._memory)) is not None:
                self._note(worker, answer)
        except (WebDatasetError, ValueError, TypeError, KeyError) as error:
            worker.refuse(f"its answer cannot be read: {error}")
            self._take_back(worker)

    def _note(self, worker: RemoteWorker, answer: Answer) -> None:
        if answer.kind == b"offer":
            self._welcome(worker, answer)
        elif answer.kind == b"pong":
            self._take_back(worker, set(worker.answered_ping(answer)))
            if worker.standing is Standing.SILENT and worker.offer is not None:
                worker.standing = Standing.READY
        elif answer.kind in {b"made", b"failed", b"refused", b"busy"}:
            self._answered(worker, answer)
        else:
            raise FormatError(f"the kind {answer.kind!r} is not known")

    def _welcome(self, worker: RemoteWorker, answer: Answer) -> None:
        try:
            offer = Offer.from_json(answer.header)
        except SpecError as error:  # of another version
            worker.refuse(error.what)
            return
        (digest,) = checked(answer.header, digest=str)
        if self._expects is not None and digest != self._digest:
            difference = self._expects.difference(offer) or "its code or options differ"
            worker.offer = offer
            worker.refuse(f"it serves something else: {difference}")
            return
        worker.welcome(offer, digest)

    # --- which workers are alive ----------------------------------------------------------------------------------

    def _check_workers(self) -> None:
        """Ping, while a trainer waits; a worker that does not answer in time loses its requests."""
        now, patience = time.monotonic(), self._options.patience
        for worker in self._workers.values():
            if worker.is_due_to_reopen(max(_SOONEST_REOPEN, patience)):
                worker.reopen(self._context, self._options.keys)
            if worker.standing is Standing.REFUSED:
                continue
            if now - worker.tried > patience / 4:
                worker.send_ping(self._batch)
            if worker.pinged and now - worker.pinged > patience:
                self._disconnect(worker, f"no answer for {patience:g} s")

    def _disconnect(self, worker: RemoteWorker, reason: str) -> None:
        if worker.standing is not Standing.REFUSED:
            if worker.standing is Standing.READY:
                logger.info("the worker %s is gone: %s", worker.address, reason)
            worker.standing, worker.reason = Standing.SILENT, reason
        self._take_back(worker)

    def _update_workers(self) -> None:
        now = time.monotonic()
        if self._workers and (not callable(self._addresses) or now - self._updated < self._options.patience / 4):
            return
        self._updated = now
        found = list(self._addresses() if callable(self._addresses) else self._addresses)
        for address in found:
            if address not in self._workers:
                check_address(address, self._options.keys, insecure=self._options.insecure)
                worker = RemoteWorker(address)
                worker.open(self._context, self._options.keys)
                self._workers[address] = worker
        for address in self._workers.keys() - set(found):
            worker = self._workers.pop(address)
            self._take_back(worker)
            worker.close()

    # --- the handshake --------------------------------------------------------------------------------------------

    def agree(self, batch: int = 1) -> tuple[Offer, str]:
        """The offer of all workers that can be reached, and its digest.

        Raises:
            StoreTimeout: no worker can be reached.
            StateError: two of them serve different things.
        """
        deadline, patience, self._batch = Deadline(self._options.timeout), Deadline(self._options.patience), batch
        while True:
            self._exchange_messages(TICK_MS)
            self._check_workers()
            open_ones = [w for w in self._workers.values() if w.standing is Standing.SILENT]
            waited = patience.is_over()
            if not open_ones or (self._ready() and waited):
                break
            if deadline.is_over() or (waited and all(worker.is_refusing for worker in open_ones)):
                raise self._no_answer()
        offers = [(worker, worker.offer) for worker in self._ready() if worker.offer is not None]
        if not offers:
            raise self._no_answer()
        first, offer = offers[0]
        for other, offered in offers:
            if other.digest != first.digest:
                difference = offer.difference(offered) or "their options differ"
                raise StateError(
                    f"the worker {other.address} differs from {first.address}: {difference}",
                    hint="start all workers with the same arguments, code and packages",
                )
        return offer, first.digest

    def stats(self) -> dict[str, dict[str, Any]]:
        """The counters of each worker, or the reason why it does not answer."""
        deadline = Deadline(self._options.timeout)
        pending = set(self._workers)
        while pending and not deadline.is_over():
            self._check_workers()
            self._exchange_messages(TICK_MS)
            pending = {w.address for w in self._workers.values() if not w.stats and w.standing is not Standing.REFUSED}
        return {w.address: w.stats or {"unreachable": w.reason} for w in self._workers.values()}

    def _no_answer(self) -> WebDatasetError:
        workers = self._workers.values()
        reasons = "; ".join(f"{worker.address} {worker.reason or worker.standing.value}" for worker in workers)
        if workers and all(worker.standing is Standing.REFUSED for worker in workers):
            return StateError(f"no worker can be used: {reasons}", hint="start workers with the same code and data")
        if self._ready():
            return StoreTimeout(
                f"no step was made for {self._options.timeout:g} s: {reasons}",
                hint="the workers answer; if a step takes so long, give connect() a longer timeout",
            )
        return StoreTimeout(
            f"no worker answers: {reasons}", hint="are they running, and are the addresses and keys right?"
        )


class Deadline:
    """A limit of seconds in which this process waited; None for no limit.

    It must be checked often. A long time between two checks (a machine that was suspended, a process that was stopped
    or got no CPU) counts as a second: answers may have arrived meanwhile, and are read first.
    """

    def __init__(self, seconds: float | None) -> None:
        self._seconds, self._waited, self._updated = seconds, 0.0, time.monotonic()

    def is_over(self) -> bool:
        """Whether the limit is exceeded."""
        now = time.monotonic()
        self._waited += min(now - self._updated, _LONGEST_CHECK)
        self._updated = now
        return self._seconds is not None and self._waited > self._seconds


def options_from(keys: Any, **given: Any) -> FleetOptions:
    """Options; `keys` may be the name of a file."""
    return FleetOptions(keys=as_keys(keys), **given)
