"""`read`, `readinto` and `read1` of a stream that a user's function may have opened: it must have the first of them.

A wrapper that changes what it reads, to decrypt or to count it, may delegate all other names to the stream inside. A
class that replaces `read` may inherit the other methods. Their `readinto` and `read1` would bypass `read`, so they are
not used.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def find_readinto(stream: Any) -> Callable[[memoryview], int | None]:
    """The stream's own `readinto`, else one made of `read`.

    >>> import io
    >>> find_readinto(io.BytesIO(b"abc"))(memoryview(bytearray(2)))
    2
    """
    if _is_own(stream, "readinto"):
        found: Callable[[memoryview], int | None] = stream.readinto
        return found

    def readinto(view: memoryview) -> int:
        piece = stream.read(len(view)) or b""
        view[: len(piece)] = piece
        return len(piece)

    return readinto


def find_read1(stream: Any) -> Callable[[int], bytes | None]:
    """The stream's own `read1`, which returns what there is without waiting for more, else `read`.

    >>> import io
    >>> find_read1(io.BytesIO(b"abc"))(2)
    b'ab'
    """
    found: Callable[[int], bytes | None] = stream.read1 if _is_own(stream, "read1") else stream.read
    return found


class Watched:
    """A stream that calls a function with all bytes that are read from it, such as the `update` of a checksum.

    >>> import io
    >>> Watched(io.BytesIO(b"abc"), print).read(2)
    b'ab'
    b'ab'

    At the end the function is called with no bytes. It may raise an error.
    """

    def __init__(self, stream: Any, see: Callable[[Any], object]) -> None:
        self._stream, self._see = stream, see
        self._readinto = find_readinto(stream)

    def read(self, size: int, /) -> bytes:
        """Read the next bytes."""
        data: bytes = self._stream.read(size) or b""
        if data or size:
            self._see(data)
        return data

    def readinto(self, view: memoryview, /) -> int:
        """Read the next bytes into memory of the caller."""
        count = self._readinto(view) or 0
        if count or len(view):
            self._see(view[:count])
        return count

    def close(self) -> None:
        """Close the stream."""
        self._stream.close()


def _is_own(stream: Any, name: str) -> bool:
    """Whether the method is defined where `read` is, or nearer to the object than `read`."""
    for level in (stream, *type(stream).__mro__):
        defined = getattr(level, "__dict__", {})  # not `vars`: an object with slots has none
        if name in defined:
            return True
        if "read" in defined:
            break
    return False
