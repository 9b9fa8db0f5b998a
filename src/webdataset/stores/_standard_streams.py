"""`-`: standard input and output."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ._byte_stream import Stream
from ._store import Store, skip
from ._system_errors import system_errors
from ._upload import Upload


class _Input(Stream):
    """Standard input; it stays open when the stream is closed, and no byte is read ahead."""

    buffered = 0

    def fill(self, view: memoryview) -> int:
        count: int = sys.stdin.buffer.readinto1(view)  # type: ignore[union-attr]  # it is a BufferedReader
        return count


class _Output(Upload):
    """Standard output: written bytes cannot be discarded, so `abort` only stops."""

    def write(self, data: Any, /) -> int:
        with _errors():
            return sys.stdout.buffer.write(data)

    def publish(self) -> None:
        with _errors():
            sys.stdout.buffer.flush()

    discard = publish


@contextmanager
def _errors() -> Iterator[None]:
    """Turn errors into typed errors, except `BrokenPipeError`: programs in a shell's pipeline end silently by it."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError:
        with system_errors("standard output"):
            raise


class StandardStore(Store):
    """The two standard streams of this process."""

    def open_read(self, url: str, start: int = 0) -> Stream:
        stream = _Input()
        skip(stream, start, url)
        return stream

    def open_write(self, url: str) -> Upload:
        return _Output()
