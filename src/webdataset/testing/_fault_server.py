"""A web server that breaks connections, stalls or sends wrong headers at chosen bytes, the same way every time."""

from __future__ import annotations

import hashlib
import threading
import time
from typing import TYPE_CHECKING

from webdataset.mutex import Mutex

from ._faults import Fault, Schedule
from ._web_server import LoopbackServer, reset, wanted_range

if TYPE_CHECKING:
    import ssl
    from http.server import BaseHTTPRequestHandler

# Small enough that a client reads along and little is lost in the kernel's buffers when a connection is reset.
_PIECE = 16 << 10


class _Served:
    """One object, the rest of its schedule, and how much of it was sent."""

    def __init__(self, data: bytes, schedule: Schedule) -> None:
        self.data, self.schedule = data, schedule
        self.faults = list(schedule.faults)
        self.status: str | None = None
        self.forever: str | None = None
        self.sent = self.requests = 0

    @property
    def etag(self) -> str:
        return f'"{hashlib.blake2b(self.data, digest_size=8).hexdigest()}"'


class FaultServer(LoopbackServer):
    """Serves objects under schedules of faults.

    >>> from urllib.request import urlopen
    >>> with FaultServer() as server:
    ...     url = server.add("a.tar", b"hello")
    ...     with urlopen(url) as response:
    ...         response.read()
    b'hello'

    Args:
        tls: Serve https with this context.
        latency: Seconds before each answer.
        bandwidth: Bytes per second of each connection; None for as fast as it goes.
    """

    def __init__(
        self, tls: ssl.SSLContext | None = None, *, latency: float = 0.0, bandwidth: float | None = None
    ) -> None:
        super().__init__(self._serve, tls)
        self._latency, self._bandwidth = latency, bandwidth
        self._objects: dict[str, _Served] = {}
        self._lock = Mutex()
        self._leaving = threading.Event()

    def add(self, name: str, data: bytes, schedule: Schedule | None = None) -> str:
        """Serve `data` under a name; returns the address."""
        self._objects[f"/{name}"] = _Served(data, schedule or Schedule())
        return self.url(name)

    def sent(self, name: str) -> int:
        """How many bytes of bodies were sent for this object."""
        return self._objects[f"/{name}"].sent

    def requests(self, name: str) -> int:
        """How many requests were made for this object."""
        return self._objects[f"/{name}"].requests

    def __exit__(self, *details: object) -> None:
        self._leaving.set()
        super().__exit__(*details)

    def _serve(self, handler: BaseHTTPRequestHandler) -> None:
        served = self._objects.get(handler.path.partition("?")[0])
        if served is None:
            _refuse(handler, 404)
            return
        if self._latency:
            self._leaving.wait(self._latency)
        with self._lock:
            served.requests += 1
            fault_kind, served.status = served.forever or served.status, None
        if fault_kind is not None:
            _answer_with_fault(handler, fault_kind)
            return
        self._send(handler, served)

    def _send(self, handler: BaseHTTPRequestHandler, served: _Served) -> None:
        data, size = served.data, len(served.data)
        asked = wanted_range(handler, size) if served.schedule.ranges else None
        if asked and handler.headers.get("If-Range", served.etag) != served.etag:
            asked = None
        if asked and asked[0] >= size:
            _refuse(handler, 416, {"Content-Range": f"bytes */{size}"})
            return
        start, stop = asked or (0, size)
        fault = self._next_fault(served, start, stop) if handler.command == "GET" else None
        _headers(handler, served, (start, stop), fault, partial=asked is not None)
        if handler.command == "GET":
            self._body(handler, served, data[start : fault.offset if fault else stop])
        if fault is not None:
            self._apply_fault(handler, served, fault)
        elif served.schedule.chunked and handler.command == "GET":
            handler.wfile.write(b"0\r\n\r\n")

    def _next_fault(self, served: _Served, start: int, stop: int) -> Fault | None:
        with self._lock:
            for number, fault in enumerate(served.faults):
                if start <= fault.offset <= stop:
                    return served.faults.pop(number)
        return None

    def _body(self, handler: BaseHTTPRequestHandler, served: _Served, data: bytes) -> None:
        chunked, began = served.schedule.chunked, time.monotonic()
        for at in range(0, len(data), _PIECE):
            piece = data[at : at + _PIECE]
            handler.wfile.write(b"%x\r\n%b\r\n" % (len(piece), piece) if chunked else piece)
            with self._lock:
                served.sent += len(piece)
            if self._bandwidth:
                self._leaving.wait(max(0.0, began + at / self._bandwidth - time.monotonic()))

    def _apply_fault(self, handler: BaseHTTPRequestHandler, served: _Served, fault: Fault) -> None:
        handler.close_connection = True
        if fault.kind == "stall":
            self._leaving.wait(30)
        elif fault.kind == "reset":
            # RST discards bytes that the client has not read yet; they would be counted as sent twice.
            self._leaving.wait(0.01)
            reset(handler.connection)
        elif fault.kind in {"loop", "gone"}:
            served.forever = fault.kind
        elif fault.kind == "changed":
            served.data = bytes(byte ^ 0xFF for byte in served.data)
        elif fault.kind in {"500", "503", "429", "redirect"}:
            served.status = fault.kind


def _headers(
    handler: BaseHTTPRequestHandler,
    served: _Served,
    span: tuple[int, int],
    fault: Fault | None,
    *,
    partial: bool,
) -> None:
    start, stop = span
    handler.send_response(206 if partial else 200)
    if partial:
        handler.send_header("Content-Range", f"bytes {start}-{stop - 1}/{len(served.data)}")
    if served.schedule.etags:
        handler.send_header("ETag", served.etag)
    kind = fault.kind if fault else ""
    if served.schedule.chunked and handler.command == "GET":
        handler.send_header("Transfer-Encoding", "chunked")
    elif kind == "no-length":
        handler.send_header("Connection", "close")
    elif kind == "short-length" and partial and fault:
        handler.send_header("Content-Length", str(fault.offset - start))
    elif kind == "long-length":
        handler.send_header("Content-Length", str(stop - start + 999))
    else:
        handler.send_header("Content-Length", str(stop - start))
    handler.end_headers()


def _answer_with_fault(handler: BaseHTTPRequestHandler, fault_kind: str) -> None:
    answers: dict[str, tuple[int, dict[str, str]]] = {
        "gone": (404, {}),
        "loop": (302, {"Location": handler.path}),
        "redirect": (307, {"Location": f"{handler.path}?again"}),
        "429": (429, {"Retry-After": "0"}),
    }
    _refuse(handler, *(answers.get(fault_kind) or (int(fault_kind), {})))


def _refuse(handler: BaseHTTPRequestHandler, status: int, headers: dict[str, str] | None = None) -> None:
    handler.send_response(status)
    for name, value in {"Content-Length": "0", **(headers or {})}.items():
        handler.send_header(name, value)
    handler.end_headers()
