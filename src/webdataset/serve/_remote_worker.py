"""The trainer's side of one worker: its socket, its offer, its open requests, and whether it is alive."""

from __future__ import annotations

import itertools
import logging
import time
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from webdataset.errors import FormatError, SpecError

from ._batch_memory import BatchMemory
from ._curve_keys import Keys, as_trainer
from ._message_parts import Parts, is_part
from ._messages import LARGEST_HEADER, Request, checked, pack, unpack
from ._serve_packages import load_zmq
from ._served_pipeline import Offer

logger = logging.getLogger(__name__)

# A worker that is not ready gets a new socket after some time, twice as long each time, up to so many times as long:
# ZeroMQ itself abandons a connection whose other end once used another protocol, and waits long for a broken one.
_REOPEN_FACTOR = 8
# How long to wait for the next part of an answer before messages of other workers are read.
_NEXT_PART_MS = 1
# After so many handshakes with keys in a row that fail without a reason, the keys are wrong: a worker that is being
# killed causes fewer.
_SURE_OF_REFUSAL = 5


class Standing(Enum):
    """Whether a worker gets requests."""

    SILENT = "has not answered"
    READY = "is ready"
    REFUSED = "is refused"


@dataclass(frozen=True)
class Answer:
    """The answer of a worker to a request."""

    kind: bytes
    number: int
    header: dict[str, Any]
    frames: Any
    size: int


@dataclass(eq=False)
class RemoteWorker:
    """A worker at an address.

    Attributes:
        address: where it listens.
        standing: whether it gets requests.
        reason: why it gets none.
        offer: what it serves; None before it has sent its offer.
        asked: the requests that it has not answered, and when they were sent.
        is_slow: it gets one request at a time, until it has answered.
        refusals: handshakes that failed since the last one that succeeded.
    """

    address: str
    standing: Standing = Standing.SILENT
    reason: str = "no connection"
    offer: Offer | None = None
    digest: str = ""
    asked: dict[int, float] = field(default_factory=dict)
    is_slow: bool = False
    refusals: int = 0
    pinged: float = 0.0  # when the oldest ping without an answer was sent
    tried: float = 0.0  # when a hello or ping was last sent
    stats: dict[str, Any] = field(default_factory=dict)
    socket: Any = None
    monitor: Any = None
    _pings: dict[int, int] = field(default_factory=dict)
    _numbers: Any = field(default_factory=itertools.count)
    _receiving: tuple[Answer, Parts] | None = None  # an answer whose parts are being received
    _has_keys: bool = False
    _opened: float = 0.0
    _reopened: int = 0  # how many times since it was ready
    _logged_reason: str = ""  # the last reason for refusing it that was logged

    def open(self, context: Any, keys: Keys | None) -> None:
        """Begin to connect; ZeroMQ continues in the background."""
        zmq = load_zmq()
        self._opened = time.monotonic()
        self.socket = context.socket(zmq.DEALER)
        self._has_keys = keys is not None
        if keys is not None:
            as_trainer(self.socket, keys)
        self.socket.linger = 0
        self.socket.immediate = 1  # nothing is sent before there is a connection
        self.socket.rcvhwm = 4  # parts: the waiting ones stay in the cache of the CPU, and their memory is reused
        self.socket.rcvtimeo = _NEXT_PART_MS
        self.socket.maxmsgsize = LARGEST_HEADER
        self.socket.reconnect_ivl, self.socket.reconnect_ivl_max = 50, 500
        self.socket.ipv6 = "[" in self.address
        self.monitor = self.socket.get_monitor_socket(
            zmq.EVENT_HANDSHAKE_SUCCEEDED
            | zmq.EVENT_DISCONNECTED
            | zmq.EVENT_HANDSHAKE_FAILED_AUTH
            | zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL
            | zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL
        )
        try:
            self.socket.connect(self.address)
        except zmq.ZMQError as error:
            raise SpecError(f"cannot connect to {self.address}: {error}", hint="for example tcp://host:7880") from error

    def is_due_to_reopen(self, after: float) -> bool:
        """Whether it needs a new socket: it was not ready for so many seconds, or a multiple of them."""
        after *= min(2**self._reopened, _REOPEN_FACTOR)
        return self.standing is not Standing.READY and time.monotonic() - self._opened > after

    def reopen(self, context: Any, keys: Keys | None) -> None:
        """Connect again, with a new socket; its requests must have been taken back."""
        self._close_socket(linger=0)
        self.forget_asked()
        self._receiving = None
        self.offer, self.tried, self._reopened = None, 0.0, self._reopened + 1
        self.open(context, keys)

    def welcome(self, offer: Offer, digest: str) -> None:
        """Accept its offer: it is ready."""
        self.offer, self.digest = offer, digest
        self.standing, self.reason, self._reopened = Standing.READY, "", 0

    def ask(self, number: int, request: Request) -> bool:
        """Send a request; False if there is no connection."""
        if not self.send(b"make", {**request.to_json(), "number": number}):
            return False
        self.asked[number] = time.monotonic()
        return True

    def send_ping(self, batch: int = 1) -> None:
        """Send a hello, or a ping if its offer is known."""
        self.tried = time.monotonic()
        number = next(self._numbers)
        kind = b"hello" if self.offer is None else b"ping"
        newest = max(self.asked, default=-1)
        if self.send(kind, {"number": number, "batch": batch}):
            self._pings[number] = newest
            self.pinged = self.pinged or self.tried

    def send(self, kind: bytes, header: dict[str, Any]) -> bool:
        """Send a message; False if there is no connection."""
        zmq = load_zmq()
        try:
            self.socket.send_multipart(pack(kind, header), flags=zmq.NOBLOCK)
        except zmq.Again:
            return False
        return True

    def receive(self, memory: BatchMemory) -> Answer | None:
        """The next answer, if all of it has arrived. Its large frames are stored in `memory`.

        Raises:
            FormatError: the message is not an answer.
        """
        while (message := self._next_message()) is not None:
            self.pinged = 0.0
            if message:
                kind, header, frames = unpack(message)
                (number,) = checked(header, number=int)
                # An earlier answer that was being received was lost with its connection.
                parts = Parts(header, frames, memory)
                answer = Answer(kind, number, header, parts.frames, parts.size + sum(part.nbytes for part in message))
                self._receiving = answer, parts
            if self._receiving is not None and self._receiving[1].is_complete:
                answer, self._receiving = self._receiving[0], None
                return answer
        return None

    def _next_message(self) -> list[Any] | None:
        """The next message; empty if it was a part, which is stored in its frame; None if there is no message."""
        zmq = load_zmq()
        try:
            # The next part follows soon: waiting for it costs less than polling all workers first.
            first = self.socket.recv(zmq.NOBLOCK if self._receiving is None else 0)
        except zmq.Again:
            return None
        try:
            if is_part(first):
                self._take_part(first)
                return []
            rest = self.socket.recv_multipart(copy=False) if self.socket.get(zmq.RCVMORE) else []
            return [memoryview(first), *(frame.buffer for frame in rest)]
        finally:
            while self.socket.get(zmq.RCVMORE):  # the next message begins after it
                self.socket.recv()

    def _take_part(self, first: bytes) -> None:
        if self._receiving is None:  # the rest of an answer that was lost with its connection
            return
        target = self._receiving[1].place(first)
        if not self.socket.get(load_zmq().RCVMORE) or self.socket.recv_into(target) != target.nbytes:
            raise FormatError("a part has another size than the frame needs")

    def answered_ping(self, answer: Answer) -> list[int]:
        """Process the answer to a ping; returns the requests that the worker has lost.

        Messages of a worker arrive in order. A request that was sent before the ping, that has no answer when the ping
        has one, and that the worker does not hold, was lost with an earlier connection.
        """
        newest = self._pings.pop(answer.number, None)
        held, stats = checked(answer.header, held=list, stats=dict)
        self.stats = stats
        if newest is None:
            return []
        return [number for number in self.asked if number <= newest and number not in set(held)]

    def note_events(self) -> str | None:
        """Read the events of the connection; returns the reason if it is lost, else None."""
        zmq = load_zmq()
        from zmq.utils.monitor import parse_monitor_message

        lost = None
        while self.monitor.poll(0):
            found = parse_monitor_message(self.monitor.recv_multipart())
            event = found["event"]
            if event == zmq.EVENT_HANDSHAKE_SUCCEEDED:
                self.tried, self.refusals = 0.0, 0
                self.offer = None  # another process may listen there now
                self.standing, self.reason = Standing.SILENT, "connected, no answer yet"
            elif event == zmq.EVENT_DISCONNECTED:
                lost = lost or "the connection was closed"
            else:
                self.refusals += _SURE_OF_REFUSAL if _is_about_keys(event, found["value"]) else int(self._has_keys)
                lost = "the keys were not accepted" if self.is_refusing else "the connection was closed at once"
        return lost

    @property
    def is_refusing(self) -> bool:
        """Whether the keys of the worker and of this trainer do not match."""
        return self.refusals >= _SURE_OF_REFUSAL

    def forget_asked(self, numbers: set[int] | None = None) -> None:
        """Forget these requests; None forgets all, and the pings with them."""
        if numbers is not None:
            self.asked = {number: sent for number, sent in self.asked.items() if number not in numbers}
            return
        self.asked.clear()
        self._pings.clear()
        self.pinged = 0.0

    def refuse(self, reason: str) -> None:
        """Send it no requests until it connects again."""
        if self._logged_reason != reason:
            logger.warning("the worker %s is not used: %s", self.address, reason)
        self.standing, self.reason, self._logged_reason = Standing.REFUSED, reason, reason

    def close(self) -> None:
        """Cancel open requests and close the socket."""
        if self.socket is not None:
            if self.asked:
                self.send(b"bye", {"number": next(self._numbers)})
            self._close_socket(linger=100)

    def _close_socket(self, linger: int) -> None:
        self.socket.disable_monitor()
        self.monitor.close(0)
        self.socket.close(linger=linger)


def _is_about_keys(event: int, value: int) -> bool:
    """Whether a handshake failed because of keys, and will fail again."""
    zmq = load_zmq()
    return bool(event == zmq.EVENT_HANDSHAKE_FAILED_AUTH or value == zmq.PROTOCOL_ERROR_ZMTP_MECHANISM_MISMATCH)
