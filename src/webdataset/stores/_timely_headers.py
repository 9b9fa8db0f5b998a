"""HTTP connections with a time limit for all headers of a response together.

The timeout of a socket applies to the next byte. A server that sends one byte of its headers every second, or one `100
Continue` after the other, would never exceed it.
"""

from __future__ import annotations

import http.client
import time
from typing import Any

import urllib3
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.connectionpool import HTTPConnectionPool, HTTPSConnectionPool


class _HeaderLines:
    """The lines before the body; an error if they take longer than the limit after the first byte."""

    def __init__(self, file: Any, seconds: float | None) -> None:
        self._file, self._seconds = file, seconds
        self._end: float | None = None
        self.close = file.close

    def readline(self, limit: int = -1) -> bytes:
        line = b""
        while limit < 0 or len(line) < limit:
            piece = self._file.peek(1)  # waits once for the socket, if nothing is buffered
            self._check_time()
            if not piece:
                break
            end = piece.find(b"\n") + 1 or len(piece)
            line += self._file.read(end if limit < 0 else min(end, limit - len(line)))
            if line.endswith(b"\n"):
                break
        return line

    def _check_time(self) -> None:
        now = time.monotonic()
        if self._end is None:
            self._end = now + (self._seconds or float("inf"))
        elif now > self._end:
            raise TimeoutError(f"the headers took longer than {self._seconds:g} s")


class _TimelyResponse(http.client.HTTPResponse):
    def __init__(self, sock: Any, *args: Any, **kwargs: Any) -> None:
        super().__init__(sock, *args, **kwargs)
        self._seconds = sock.gettimeout()

    def begin(self) -> None:
        file: Any = self.fp
        lines: Any = _HeaderLines(file, self._seconds)
        self.fp = lines
        try:
            super().begin()
        finally:
            if self.fp is lines:
                self.fp = file


class _Connection(HTTPConnection):
    response_class = _TimelyResponse


class _TlsConnection(HTTPSConnection):
    response_class = _TimelyResponse


class _Pool(HTTPConnectionPool):
    ConnectionCls = _Connection


class _TlsPool(HTTPSConnectionPool):
    ConnectionCls = _TlsConnection


def with_timely_headers(manager: urllib3.PoolManager) -> urllib3.PoolManager:
    """The same manager, whose connections limit the time for the headers of a response to their read timeout.

    >>> with_timely_headers(urllib3.PoolManager()).connection_from_host("h").ConnectionCls.__name__
    '_Connection'
    """
    manager.pool_classes_by_scheme = {"http": _Pool, "https": _TlsPool}
    return manager
