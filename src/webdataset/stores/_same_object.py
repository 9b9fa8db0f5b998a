"""Whether bytes of two requests belong to the same object: the rule for streams and for the cache.

Two responses belong to one version of an object if one of these holds:

1. Both carry the same strong validator: an ETag without the prefix `W/`, as web servers and cloud stores send it.
2. All bytes that were read before are read again, and their CRC-32 is the same.

A weak ETag or a modification time (here `W/"…"`) proves nothing, because two versions may share it. If it differs, the
object has changed. If neither rule holds, joining the bytes is an error.

A look-up by index reads each range once, so rule 2 cannot hold. Every answer is compared with the version and the size
that the shard had when it was opened, if the server sends them; the headers of members and their offsets are compared
with the index. So a replaced object is noticed if its validator, its size or its layout differs. If all three are the
same, which can happen without validators, the bytes of the new object are returned.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from typing import Any

from webdataset.errors import StoreError, Where

_PIECE = 1 << 20


def is_strong(version: str | None) -> bool:
    """Whether equal versions mean equal bytes.

    >>> is_strong('"5d41"'), is_strong('W/"5d41"'), is_strong(None)
    (True, False, False)
    """
    return version is not None and not version.startswith("W/")


class BytesRead:
    """The bytes of an object that were read so far, and the check that further bytes belong to it.

    >>> read = BytesRead("https://h/a.tar")
    >>> read.check('"v1"', 100, offset=0)
    >>> read.add(b"hello")
    >>> read.join_at
    5
    >>> read.check('"v2"', 100, offset=5)
    Traceback (most recent call last):
    webdataset.errors.StoreError: the object changed while it was read: its version was "v1" and is now "v2" – ...

    Args:
        url: For error messages.
        start: The first byte that is read.
        version: The version that the object must have, if it is known already.
        size: Its size, likewise.
    """

    def __init__(self, url: str, start: int = 0, version: str | None = None, size: int | None = None) -> None:
        self.url, self.start, self.position = url, start, start
        self.version, self.size = version, size
        self._checksum = 0

    @property
    def join_at(self) -> int:
        """The offset of the next request: the next byte if the version is strong, else the first byte that was read."""
        return self.position if is_strong(self.version) else self.start

    def add(self, piece: Any) -> None:
        """Note bytes that were returned to the reader."""
        if not is_strong(self.version):
            self._checksum = zlib.crc32(piece, self._checksum)
        self.position += len(piece)

    def check(self, version: str | None, size: int | None, offset: int) -> None:
        """Raise unless a response for the bytes from `offset` on can belong to the object."""
        for name, before, now in (("version", self.version, version), ("size", self.size, size)):
            if before is not None and now is not None and before != now:
                raise changed(self.url, self.position, f"its {name} was {before} and is now {now}")
        if (version != self.version) if is_strong(self.version) else (offset > self.start):
            raise unproven(self.url, self.position)
        if self.position == self.start:  # a later version does not apply to the bytes read before
            self.version = self.version or version
        self.size = size if self.size is None else self.size

    def reread(self, offset: int, read: Callable[[int], bytes]) -> int:
        """Read everything from `offset` up to `position` again and compare it; returns the number of bytes."""
        checksum, missing = 0, self.position - offset
        unknown = self.start - offset  # a server without ranges begins at 0, before the first byte that was read
        while missing > 0:
            piece = read(min(missing, unknown if unknown > 0 else _PIECE, _PIECE))
            if not piece:
                break
            checksum = 0 if unknown > 0 else zlib.crc32(piece, checksum)
            unknown, missing = unknown - len(piece), missing - len(piece)
        if not missing and not is_strong(self.version) and checksum != self._checksum:
            raise changed(self.url, self.position, "its first bytes are different")
        return self.position - offset - missing


def changed(url: str, offset: int, how: str) -> StoreError:
    """The error for an object that was replaced while it was read.

    >>> print(changed("https://h/a.tar", 512, "its etag is new"))
    the object changed while it was read: its etag is new – https://h/a.tar, byte 512 – read it again from the start
    """
    return StoreError(
        f"the object changed while it was read: {how}",
        Where(shard=url, offset=offset),
        hint="read it again from the start",
    )


def unproven(url: str, offset: int) -> StoreError:
    """The error for bytes that may belong to another version of the object.

    >>> print(unproven("https://h/a.tar", 512).what)
    the server does not say which version of the object it sends, so these bytes cannot be joined with the earlier ones
    """
    return StoreError(
        "the server does not say which version of the object it sends, so these bytes cannot be joined with the earlier"
        " ones",
        Where(shard=url, offset=offset),
        hint="read it again from the start, or let the server send a strong ETag",
    )
