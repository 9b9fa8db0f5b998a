"""Writing an object: it is visible, complete, after `close()`, or never."""

from __future__ import annotations

import io
import os
import tempfile
import weakref
from abc import abstractmethod
from collections.abc import Callable
from contextlib import suppress
from typing import IO, Any, Self

from ._system_errors import system_errors

# Shards up to this size are kept in memory until their upload, larger ones in a temporary file.
_IN_MEMORY = 64 << 20


def close_or_abort(target: Any, kind: object, *_: object) -> None:
    """The `__exit__` of an object that a `with` block completes: close it, or abort it after an exception."""
    if kind is None:
        target.close()
    else:
        target.abort()


class Closing:
    """A base class for objects that a `with` block closes."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the object; subclasses define it."""
        raise NotImplementedError


class Upload(io.RawIOBase):
    """A write-only stream that publishes on `close()` and discards on `abort()`.

    Leaving a `with` block by an exception aborts, and so does deleting the last reference: an incomplete object is
    never published by accident.
    """

    _finished = False

    def __new__(cls, *_: Any, **__: Any) -> Self:
        """Register it, so that a forked child can disown it."""
        upload = super().__new__(cls)
        _under_way.add(upload)
        return upload

    def disown(self) -> None:
        """Called in a forked child: only the parent may publish, discard or flush the upload."""
        self._finished = True

    @abstractmethod
    def publish(self) -> None:
        """Make what was written visible."""

    @abstractmethod
    def discard(self) -> None:
        """Discard what was written."""

    def writable(self) -> bool:
        return True

    def close(self) -> None:
        self._finish(self.publish)

    def abort(self) -> None:
        """End without publishing."""
        self._finish(self.discard)

    def _finish(self, action: Callable[[], None]) -> None:
        if not self._finished:
            self._finished = True
            try:
                action()
            finally:
                super().close()

    __exit__ = close_or_abort

    def __del__(self) -> None:
        self.abort()


def point_nowhere(descriptor: int) -> None:
    """Replace a descriptor by the null device, so that a forked child cannot write to its parent's file."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, descriptor, inheritable=False)
    os.close(nowhere)


def _disown_all() -> None:
    for upload in list(_under_way):
        with suppress(OSError, ValueError):  # a closed file has no descriptor
            upload.disown()


_under_way: weakref.WeakSet[Upload] = weakref.WeakSet()
os.register_at_fork(after_in_child=_disown_all)


class SpooledUpload(Upload):
    """Collects the bytes and sends them at once: for stores that need the length of an object first."""

    def __init__(self, send: Callable[[IO[bytes], int], None]) -> None:
        self._send = send
        self._spool = tempfile.SpooledTemporaryFile(_IN_MEMORY)  # noqa: SIM115 - closed in publish and discard

    def write(self, data: Any, /) -> int:
        with system_errors(tempfile.gettempdir()):
            return self._spool.write(data)

    def publish(self) -> None:
        with self._spool as spool:
            size = spool.tell()
            spool.seek(0)
            self._send(spool, size)

    def discard(self) -> None:
        self._spool.close()

    def disown(self) -> None:
        super().disown()
        # Asking a spool in memory for its descriptor would write it to the disk.
        if self._spool._rolled:  # type: ignore[attr-defined]  # there is no public attribute for it
            point_nowhere(self._spool.fileno())
