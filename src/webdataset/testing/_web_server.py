"""A web server on a free port of the loopback interface, for the duration of a `with` block."""

from __future__ import annotations

import socket
import socketserver
import struct
import threading
from contextlib import suppress
from http.server import BaseHTTPRequestHandler
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable


class _Listener(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = False
    block_on_close = True
    # A test may open many connections at once; the default of 5 makes the kernel drop some for a second.
    request_queue_size = 128

    def get_request(self) -> tuple[Any, Any]:
        """Accept a connection; with a small send buffer, the server is only little ahead of the client."""
        connection, address = super().get_request()
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 64 << 10)
        return connection, address

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore errors of a connection: tests break connections on purpose."""


class LoopbackServer:
    """Answers requests with `respond(handler)` on threads of its own; everything is closed at the end of the block.

    >>> def respond(handler):
    ...     handler.send_response(204)
    ...     handler.end_headers()
    >>> with LoopbackServer(respond) as server:
    ...     server.url("a.tar").startswith("http://127.0.0.1:")
    True
    """

    def __init__(self, respond: Callable[[BaseHTTPRequestHandler], None], tls: ssl.SSLContext | None = None) -> None:
        self._respond, self._tls = respond, tls
        self._open: set[socket.socket] = set()

    def url(self, path: str) -> str:
        """The address of a path on this server."""
        return f"{'https' if self._tls else 'http'}://127.0.0.1:{self.port}/{path}"

    @property
    def port(self) -> int:
        """The port of the server."""
        return int(self._listener.server_address[1])

    def __enter__(self) -> Self:
        self._listener = _Listener(("127.0.0.1", 0), self._handler())
        self._thread = threading.Thread(target=self._listener.serve_forever, args=(0.01,), daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.shutdown()
        self._thread.join()
        for connection in list(self._open):
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        self._listener.server_close()

    def _secured(self, connection: socket.socket) -> socket.socket:
        assert self._tls is not None
        secured = self._tls.wrap_socket(connection, server_side=True, do_handshake_on_connect=False)
        try:
            secured.do_handshake()
        except BaseException:
            secured.close()
            raise
        return secured

    def _handler(server) -> type[BaseHTTPRequestHandler]:  # noqa: N805 - the handlers' own self is inside
        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True  # a body that follows its headers waits 40 ms otherwise

            def setup(self) -> None:
                if server._tls is not None:
                    self.request = server._secured(self.request)
                server._open.add(self.request)
                super().setup()

            def finish(self) -> None:
                server._open.discard(self.request)
                with suppress(OSError), self.request:
                    super().finish()

            def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class calls it so
                pass

            def _answer(self) -> None:
                server._respond(self)

            do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = do_PATCH = _answer  # noqa: N815 - the base class calls them so

        return Handler


def reset(connection: socket.socket) -> None:
    """Break a connection with RST instead of FIN, as after a crash or by a middlebox."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()


def wanted_range(handler: BaseHTTPRequestHandler, size: int) -> tuple[int, int] | None:
    """The (start, stop) that a request asks for, or None for the whole object."""
    header = handler.headers.get("Range", "")
    if not header.startswith("bytes="):
        return None
    first, _, last = header.removeprefix("bytes=").partition("-")
    if not first:
        return max(0, size - int(last)), size
    return int(first), min(int(last) + 1, size) if last else size
