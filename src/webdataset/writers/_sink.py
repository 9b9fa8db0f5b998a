"""Bytes in, one published object out: gathered, compressed, and visible only when it is complete."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from itertools import groupby
from typing import Any

from webdataset.errors import SpecError, StoreError, Where
from webdataset.redact import redacted
from webdataset.stores import as_address, open_write

from ._compress_archive import find_compression, open_compressor
from ._writer_lock import WriterLock

logger = logging.getLogger(__name__)

# Small blocks are gathered into writes of this size: one call into the stream instead of several per sample.
_GATHER = 256 * 1024

# Joining copies, so blocks from this size on are written as they are: a local file gathers them without a copy.
_LARGE = 4 * 1024


class Sink:
    """The target of an archive: a path or URL that the sink publishes, or a stream that its owner closes.

    >>> import io
    >>> stream = io.BytesIO()
    >>> sink = Sink(stream, compress=None)
    >>> sink.write([b"some ", b"bytes"], 10)
    >>> sink.close()
    >>> stream.getvalue(), sink.state
    (b'some bytes', 'closed')
    """

    state = "new"

    def __init__(self, target: Any, compress: bool | str | None) -> None:
        named: Any = as_address(target) if isinstance(target, os.PathLike) else target
        self.owned = isinstance(named, str)
        if not self.owned and not callable(getattr(named, "write", None)):
            raise SpecError(f"{target!r} cannot be written to", hint="give a path, a URL or a binary stream")
        kind = find_compression(named, compress)
        self._compressor = open_compressor(kind) if kind else None
        self._blocks: list[bytes] = []
        self._gathered = 0
        self._failure: BaseException | None = None
        self.watch: Callable[[bytes], None] | None = None  # called with all bytes as they are stored
        self._process = os.getpid()
        self.name: str | None = named if self.owned else getattr(named, "name", None)
        self.stream = self._open(named) if self.owned else named
        self.state = "open"

    def _open(self, url: str) -> Any:
        self._lock = WriterLock(url)
        try:
            return open_write(url)
        except BaseException:
            self._lock.release()
            raise

    def require_open(self) -> None:
        """Raise if the archive is closed."""
        if self.state != "open":
            raise StoreError(f"the archive is {self.state}", Where(shard=self.name), hint="open another writer")

    def write(self, blocks: list[bytes], size: int) -> None:
        """Write blocks of `size` bytes in total, now or together with later ones."""
        self._blocks += blocks
        self._gathered += size
        if self._gathered >= _GATHER:
            self._guarded(self._drain)

    def close(self) -> None:
        """Write what is left and publish; more calls do nothing."""
        if self.state == "open":
            self._guarded(self._complete)
            self.state = "closed"
            if self.owned:
                self._lock.release()
        elif self._failure is not None:
            failure, self._failure = self._failure, None
            raise StoreError(
                f"the archive was not published, because writing it failed before: {failure}",
                Where(shard=self.name),
                hint="fix the cause and write it again",
            ) from failure

    def abort(self) -> None:
        """Discard everything that has not been published."""
        if self.state != "open":
            return
        self.state = "discarded"
        self._blocks.clear()
        if self.owned:
            try:
                # A target without `abort`, such as a named pipe, is only closed: its bytes were sent already.
                getattr(self.stream, "abort", self.stream.close)()
            finally:
                self._lock.release()

    def __del__(self) -> None:
        # A forked child has a copy of its parent's sink and must not discard the parent's file.
        if self.state == "open" and self._process == os.getpid():
            name = redacted(str(self.name or self.stream))
            logger.warning("%s was never closed, so it is discarded; write in a with block", name)
            self.abort()

    def _guarded(self, action: Callable[[], None]) -> None:
        """Run an action; discard the archive if it fails: a part of a block may have been written."""
        try:
            action()
        except BaseException as error:
            self._failure = error
            self.abort()
            raise

    def _complete(self) -> None:
        self._drain()
        if self._compressor is not None:
            self._put(self._compressor.flush())
        if self.owned:
            self.stream.close()
        elif callable(getattr(self.stream, "flush", None)):
            self.stream.flush()

    def _drain(self) -> None:
        blocks, self._blocks, self._gathered = self._blocks, [], 0
        for is_large, run in groupby(blocks, lambda block: len(block) >= _LARGE):
            for part in run if is_large else [b"".join(run)]:
                self._put(part if self._compressor is None else self._compressor.compress(part))

    def _put(self, data: bytes) -> None:
        if self.watch is not None:
            self.watch(data)
        while data:
            written = self.stream.write(data)
            if not isinstance(written, int):
                return  # some streams do not say how much they wrote; these write all
            if written == 0:
                raise StoreError(
                    "the stream does not accept more bytes",
                    Where(shard=self.name),
                    hint="check the limits of the target",
                )
            data = data[written:]  # raw streams may write less than they are given
