"""`Worker`: makes the items of any steps for any trainer that requests them.

One thread sends and receives; a pool of threads makes items. Of each trainer, only its waiting requests are stored.
Their number is limited for each trainer and in all.
"""

from __future__ import annotations

import hashlib
import logging
import threading
import time
from collections import Counter, deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

from webdataset.arguments import require_count
from webdataset.errors import FormatError, SpecError, StoreError, WebDatasetError
from webdataset.mutex import Mutex
from webdataset.pipeline import DataPipeline
from webdataset.redact import redacted

from ._curve_keys import Keys, answer_zap, as_keys, as_worker, check_address
from ._item_cache import Made, MadeItems
from ._item_frames import encode_item
from ._make_steps import StepMaker
from ._message_parts import split
from ._messages import LARGEST_REQUEST, Request, checked, pack, unpack
from ._serve_packages import load_msgpack, load_zmq

logger = logging.getLogger(__name__)

# How often the thread that sends and receives checks whether it should stop.
_CHECK_EVERY_MS = 500


class Worker:
    """Serves an indexed pipeline.

    Args:
        dataset: the pipeline, or a function without arguments that makes it.
        address: where to listen; port `*` is any free one, and the attribute `address` then has its number.
        threads: how many steps are made at a time.
        keys: the file `worker.key`, or its keys; needed where others can reach the address.
        insecure: listen without keys there.
        cache: how many bytes of made items are kept for other trainers that read the same epoch.
        queue: how many requests may wait, of all trainers together.
    """

    def __init__(
        self,
        dataset: DataPipeline | Callable[[], DataPipeline],
        address: str = "tcp://127.0.0.1:*",
        *,
        threads: int = 1,
        keys: str | Path | Keys | None = None,
        insecure: bool = False,
        cache: int = 1 << 30,
        queue: int = 1024,
    ) -> None:
        zmq, self._keys = load_zmq(), as_keys(keys)
        load_msgpack()
        check_address(address, self._keys, insecure=insecure)
        for name, number, least in (("threads", threads, 1), ("queue", queue, 1), ("cache", cache, 0)):
            require_count("Worker", name, number, least=least)
        if isinstance(dataset, DataPipeline):
            self._maker = StepMaker(dataset, None, threads)
        else:
            self._maker = StepMaker(dataset(), dataset, threads)
        self._cache = MadeItems(cache)
        self._threads, self._queue = threads, queue
        self._held: dict[bytes, frozenset[int]] = {}  # of each trainer, the requests that have no answer yet
        self._answers: deque[tuple[bytes, int, list[list[Any]]]] = deque()  # each a message and the parts of it
        self._stopping, self._serving = threading.Event(), False
        self._thread: threading.Thread | None = None
        self._lock = Mutex()
        self._counts: Counter[str] = Counter()
        self._busy, self._began = 0.0, time.monotonic()
        self._context = zmq.Context()
        try:
            self._open(address)
        except BaseException:
            self._context.destroy(linger=0)
            raise

    def _open(self, address: str) -> None:
        zmq = load_zmq()
        self._zap = self._context.socket(zmq.REP) if self._keys is not None else None
        if self._zap is not None:
            self._zap.bind("inproc://zeromq.zap.01")
        self._socket = self._context.socket(zmq.ROUTER)
        if self._keys is not None:
            as_worker(self._socket, self._keys)
        self._socket.router_mandatory = 1
        self._socket.maxmsgsize = LARGEST_REQUEST
        self._socket.sndhwm = 0  # the number of requests bounds what is sent
        self._socket.ipv6 = "[" in address
        # The kernel's keepalive notices a host that is gone. A trainer that is busy would not answer ZeroMQ's own
        # heartbeat while its buffers are full; its kernel answers.
        self._socket.tcp_keepalive, self._socket.tcp_keepalive_idle = 1, 15
        self._socket.tcp_keepalive_intvl, self._socket.tcp_keepalive_cnt = 5, 3
        try:
            self._socket.bind(address)
        except zmq.ZMQError as error:
            raise StoreError(f"cannot listen at {address}: {error}", hint="choose another port or address") from error
        self.address: str = self._socket.last_endpoint.decode().rstrip("\0")
        self._woken = self._context.socket(zmq.PULL)
        self._woken.bind("inproc://answers")
        self._wake = self._context.socket(zmq.PUSH)
        self._wake.connect("inproc://answers")

    def start(self) -> Self:
        """Serve in a thread of its own."""
        self._thread = threading.Thread(target=self.serve, name="webdataset-serve", daemon=True)
        self._thread.start()
        return self

    def serve(self) -> None:
        """Serve until `stop` is called."""
        zmq, self._serving = load_zmq(), True
        poller = zmq.Poller()
        for socket in (self._socket, self._woken, self._zap):
            if socket is not None:
                poller.register(socket, zmq.POLLIN)
        try:
            with ThreadPoolExecutor(self._threads, "webdataset-make") as self._pool:
                try:
                    self._loop(poller)
                finally:
                    self._stopping.set()
                    self._pool.shutdown(cancel_futures=True)
        finally:
            self._maker.close()
            with self._lock:  # another thread may be waking this one
                self._context.destroy(linger=0)

    def _loop(self, poller: Any) -> None:
        while not self._stopping.is_set():
            ready = dict(poller.poll(_CHECK_EVERY_MS))
            if self._zap in ready:
                answer_zap(self._zap, self._keys)  # type: ignore[arg-type]  # there is no socket without keys
            if self._woken in ready:
                self._send_answers()
            if self._socket in ready:
                self._receive()

    def stop(self) -> None:
        """End `serve`: running requests are finished, waiting ones are dropped."""
        self._stopping.set()
        with self._lock:
            if not self._wake.closed:
                self._wake.send(b"")
        if self._thread is not None:
            self._thread.join()
        elif not self._serving:
            self._context.destroy(linger=0)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _receive(self) -> None:
        trainer, *message = self._socket.recv_multipart()
        try:
            kind, header, _ = unpack(message)
            (number,) = checked(header, number=int)
            answer = self._answer(trainer, kind, number, header)
        except (FormatError, SpecError) as error:
            logger.warning("a request was ignored: %s", error)
            return
        if answer is not None:
            self._send(trainer, [answer])

    def _answer(self, trainer: bytes, kind: bytes, number: int, header: dict[str, Any]) -> list[Any] | None:
        """The answer, if there is one at once; None if it follows later or there is none."""
        if kind == b"make":
            return self._accept(trainer, number, Request.from_json(header))
        if kind == b"hello":
            offer = self._maker.offer
            shown = replace(offer, identity=self._maker.identity(int(header.get("batch") or 1)))
            return pack(b"offer", {**shown.to_json(), "digest": offer.digest, "number": number})
        if kind == b"ping":
            return pack(b"pong", {"number": number, "held": list(self._held.get(trainer, ())), "stats": self.stats()})
        if kind == b"bye":
            self._set_held(trainer, frozenset())
            return None
        raise FormatError(f"not a message: the kind {kind!r} is not known")

    def _accept(self, trainer: bytes, number: int, request: Request) -> list[Any] | None:
        if request.expects != self._maker.offer.digest:
            return pack(b"refused", {"number": number})
        held = self._held.get(trainer, frozenset())
        if self._queued() >= self._queue or len(held) >= max(2, self._queue // 4):
            return pack(b"busy", {"number": number})
        self._set_held(trainer, held | {number})
        self._pool.submit(self._make, trainer, number, request)
        return None

    def _make(self, trainer: bytes, number: int, request: Request) -> None:
        """Make an answer; runs on the pool."""
        if number not in self._held.get(trainer, ()) or self._stopping.is_set():
            return
        began = time.monotonic()
        try:
            made = self._cache.get(self._key(request), lambda: self._encode(request))
            answer = list(split(b"made", {"number": number}, made.frames))
            self._count(items=request.steps, bytes=made.size)
        except Exception as error:  # of the user's functions and data: sent to the trainer
            answer = [pack(b"failed", {"number": number, **_error_as_json(error)})]
            self._count(failures=1)
        with self._lock:
            self._busy += time.monotonic() - began
            self._answers.append((trainer, number, answer))
            if not self._wake.closed:
                self._wake.send(b"")

    def _key(self, request: Request) -> bytes:
        marked = (request.epoch, request.batch, request.steps, request.ranks > 1, request.wire)
        return hashlib.blake2b(repr(marked).encode() + self._maker.positions(request), digest_size=16).digest()

    def _encode(self, request: Request) -> Made:
        tree, frames = encode_item(self._maker.make(request), request.wire)
        frames = [load_msgpack().packb(tree), *frames]
        self._count(made=request.steps)
        return Made(frames, sum(memoryview(frame).nbytes for frame in frames))

    def _send_answers(self) -> None:
        self._woken.recv()
        while self._answers:
            trainer, number, answer = self._answers.popleft()
            held = self._held.get(trainer, frozenset())
            if number in held:  # else the trainer is gone
                self._set_held(trainer, held - {number})
                self._send(trainer, answer)

    def _send(self, trainer: bytes, messages: list[list[Any]]) -> None:
        zmq = load_zmq()
        try:
            for message in messages:
                self._socket.send_multipart([trainer, *message], flags=zmq.NOBLOCK, copy=False)
        except zmq.ZMQError as error:  # disconnected: it sends its requests again over a new connection
            logger.debug("a trainer is gone: %s", error)
            self._set_held(trainer, frozenset())

    def _set_held(self, trainer: bytes, numbers: frozenset[int]) -> None:
        """Set the requests of a trainer that have no answer yet; without any, its entry is removed."""
        if numbers:
            self._held[trainer] = numbers
        else:
            self._held.pop(trainer, None)

    def _queued(self) -> int:
        return sum(map(len, list(self._held.values())))

    def _count(self, **more: int) -> None:
        with self._lock:
            self._counts.update(more)

    def stats(self) -> dict[str, Any]:
        """Counters since the start; rates are differences of two of these."""
        return {
            **{name: self._counts[name] for name in ("items", "made", "bytes", "failures")},
            "seconds": time.monotonic() - self._began,
            "busy": self._busy,
            "threads": self._threads,
            "queue": self._queued(),
            "trainers": len(self._held),
            "shared": self._cache.hits,
            "cached": self._cache.size,
        }


def _error_as_json(error: Exception) -> dict[str, str]:
    """An error for the trainer: its class and its message."""
    known = isinstance(error, WebDatasetError)
    return {
        "class": type(error).__name__,
        "what": redacted(str(error) if known else f"{type(error).__name__}: {error}")[:4000],
    }
