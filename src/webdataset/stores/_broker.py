"""A helper process that reads and writes object stores for a forked process.

obstore runs threads of its own, which do not survive a fork: in a child of a process that has used it (a DataLoader
worker, for example), every call would hang. Such a child starts a helper process, the broker, and sends it requests
over pipes: one request, one answer. A broker serves one stream at a time and is reused for the next.

A broker ends with the process that started it, also in the middle of a request (`webdataset.child_processes`).
"""

from __future__ import annotations

import os
import pickle
import struct
import sys
import weakref
from collections.abc import Iterator
from contextlib import suppress
from typing import IO, Any

from webdataset.child_processes import Lifeline, reap, start
from webdataset.errors import StoreError
from webdataset.mutex import Mutex

from ._byte_stream import Stream
from ._store import PIECE, Stat, Store
from ._upload import Upload

_PROGRAM = "import sys; sys.path[:] = {path!r}; from webdataset.stores._broker_server import serve; serve({lifeline})"

_idle: list[Broker] = []
_brokers: weakref.WeakSet[Broker] = weakref.WeakSet()
_lock = Mutex()


class Broker:
    """The client: `ask(verb, *args)` returns the answer, or raises the error of the broker."""

    def __init__(self) -> None:
        import subprocess

        self._lifeline = Lifeline()
        program = _PROGRAM.format(path=sys.path, lifeline=self._lifeline.child_end)
        try:
            self._process = start(
                [sys.executable, "-c", program],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                pass_fds=[self._lifeline.child_end],
            )
        finally:
            self._lifeline.started()
        _brokers.add(self)

    def ask(self, *request: Any) -> Any:
        """One request, one answer."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            if self.closed:
                raise EOFError
            send(self._process.stdin, request)
            good, answer = receive(self._process.stdout)
        except (OSError, EOFError) as error:
            self.close()
            raise StoreError("the broker process for object stores ended", hint="see its messages above") from error
        except BaseException:  # an interrupt: the answer to this request must not be read as that of the next one
            self.close()
            raise
        if not good:
            raise answer
        return answer

    def close(self) -> None:
        """End the broker."""
        self._process.kill()
        reap(self._process)
        self._close_pipes()
        self._lifeline.close()

    @property
    def closed(self) -> bool:
        """Whether the broker has ended."""
        return self._process.returncode is not None

    def forget(self) -> None:
        """In a forked child: close our copies of the parent's pipes."""
        self._close_pipes()
        self._process.returncode = 0  # it is a child of the parent

    def _close_pipes(self) -> None:
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            with suppress(OSError):
                pipe.close()


class BrokeredStore(Store):
    """The interface of a store, served by a broker."""

    def open_read(self, url: str, start: int = 0) -> Stream:
        return _BrokeredStream(url, start)

    def open_write(self, url: str) -> Upload:
        return _BrokeredUpload(url)

    def read_range(
        self, url: str, start: int, length: int, version: str | None = None, size: int | None = None
    ) -> bytes:
        data: bytes = _ask_once("read_range", url, start, length, version, size)
        return data

    def stat(self, url: str) -> Stat:
        found: Stat = _ask_once("stat", url)
        return found

    def list(self, prefix: str) -> Iterator[str]:
        return iter(_ask_once("list", prefix))


class _BrokeredStream(Stream):
    def __init__(self, url: str, start: int) -> None:
        super().__init__(start)
        self._broker: Broker | None = take_broker()
        try:
            self.size, self.version = self._broker.ask("open_read", url, start)
        except BaseException:
            self._end()
            raise

    def fill(self, view: memoryview) -> int:
        assert self._broker is not None
        piece: bytes = self._broker.ask("read", min(len(view), PIECE))
        view[: len(piece)] = piece
        return len(piece)

    def close(self) -> None:
        self._end()
        super().close()

    def _end(self) -> None:
        broker, self._broker = self._broker, None
        if broker is not None:
            return_broker(broker)


class _BrokeredUpload(Upload):
    def __init__(self, url: str) -> None:
        self._finished = True  # until there is a broker to give back
        self._broker = take_broker()
        self._finished = False
        try:
            self._broker.ask("open_write", url)
        except BaseException:
            self.abort()
            raise

    def write(self, data: Any, /) -> int:
        count: int = self._broker.ask("write", bytes(data))
        return count

    def publish(self) -> None:
        try:
            self._broker.ask("publish")
        finally:
            return_broker(self._broker)

    def discard(self) -> None:
        return_broker(self._broker)


def take_broker() -> Broker:
    """An idle broker, or a new one."""
    with _lock:
        if _idle:
            return _idle.pop()
    return Broker()


def return_broker(broker: Broker) -> None:
    """Return a broker to the idle ones; its stream is closed."""
    if broker.closed:
        return
    try:
        broker.ask("drop")
    except Exception:  # of closing a stream that is not read any more
        broker.close()
    else:
        with _lock:
            _idle.append(broker)


def close_brokers() -> None:
    """End all idle brokers.

    >>> close_brokers()
    """
    with _lock:
        brokers, _idle[:] = list(_idle), []
    for broker in brokers:
        broker.close()


def _ask_once(*request: Any) -> Any:
    broker = take_broker()
    try:
        return broker.ask(*request)
    finally:
        return_broker(broker)


def send(pipe: IO[bytes], message: Any) -> None:
    """Write one message."""
    data = pickle.dumps(message)
    pipe.write(struct.pack("<Q", len(data)))
    pipe.write(data)
    pipe.flush()


def receive(pipe: IO[bytes]) -> Any:
    """Read one message, or raise EOFError."""
    head = pipe.read(8)
    if len(head) < 8:
        raise EOFError
    return pickle.loads(pipe.read(struct.unpack("<Q", head)[0]))  # noqa: S301 - from a process that we started


def _after_fork() -> None:
    global _lock  # noqa: PLW0603 - the parent's lock may have been held by a thread that does not exist here
    _lock = Mutex()
    for broker in list(_brokers):  # those with an open stream too
        broker.forget()
    _brokers.clear()
    _idle.clear()


os.register_at_fork(after_in_child=_after_fork)
