"""The program of a broker process: answers requests until its client closes the pipe or ends."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from typing import Any

from webdataset.child_processes import end_with_lifeline

from ._broker import receive, send
from ._registry import store_for
from ._store import Stat


def serve(lifeline: int) -> None:
    """Answer requests until there are no more."""
    end_with_lifeline(lifeline)
    source, target = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # output that a library prints must not be mixed with the answers
    requests = _Requests()
    with suppress(EOFError):
        while True:
            verb, *arguments = receive(source)
            try:
                answer = (True, getattr(requests, verb)(*arguments))
            except Exception as error:  # raised in the client
                answer = (False, error)
            send(target, answer)


class _Requests:
    """One method per request; a broker has at most one stream open."""

    stream: Any = None

    def open_read(self, url: str, start: int) -> tuple[int | None, str | None]:
        self.stream = store_for(url).open_read(url, start)
        return getattr(self.stream, "size", None), getattr(self.stream, "version", None)

    def read(self, size: int) -> bytes:
        piece: bytes = self.stream.read1(size)
        return piece

    def open_write(self, url: str) -> None:
        self.stream = store_for(url).open_write(url)

    def write(self, data: bytes) -> int:
        count: int = self.stream.write(data)
        return count

    def publish(self) -> None:
        stream, self.stream = self.stream, None
        stream.close()

    def drop(self) -> None:
        stream, self.stream = self.stream, None
        if stream is not None:
            getattr(stream, "abort", stream.close)()

    def read_range(self, url: str, start: int, length: int, version: str | None, size: int | None) -> bytes:
        return store_for(url).read_range(url, start, length, version, size)

    def stat(self, url: str) -> Stat:
        return store_for(url).stat(url)

    def list(self, prefix: str) -> list[str]:
        return list(store_for(prefix).list(prefix))
