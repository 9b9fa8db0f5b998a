"""The bytes of an HTTP response straight from its connection into the reader's memory.

urllib3 hands out every piece as fresh bytes, through ten calls. Between the head of a response and its last bytes there
is nothing for it to do, if the body has a length and no chunks; so the connection is read directly, and urllib3 is told
how much. It reads the last bytes itself, sees the end, and takes the connection back into its pool.
"""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    import urllib3

# What is left to urllib3. Small, as it is copied once more; never nothing, or it would not see the end.
_LAST = 1 << 14


def wire(response: urllib3.BaseHTTPResponse) -> Callable[[memoryview], int]:
    """A `readinto` that returns as soon as there are bytes, or 0 where the ordinary way must be taken.

    >>> wire(object())(memoryview(bytearray(8)))
    0
    """
    theirs: Any = response
    plain: Any = getattr(theirs, "_fp", None)  # http.client's response; there is no public way to it
    connection = getattr(plain, "fp", None)
    readinto1 = getattr(connection, "readinto1", None)
    length, remaining = getattr(plain, "length", None), getattr(theirs, "length_remaining", None)
    # Where any of this is not as CPython and urllib3 2 have it, nothing is lost but speed.
    if readinto1 is None or getattr(plain, "chunked", True) or not isinstance(length, int) or length != remaining:
        return lambda _view: 0

    # What came along with the head waits in the connection's buffer. A call with more room than that has would wait for
    # more to come, and lose it if nothing does.
    most = io.DEFAULT_BUFFER_SIZE

    def readinto(view: memoryview) -> int:
        nonlocal most
        room = min(most, plain.length - _LAST)
        if room <= 0 or plain.fp is not connection:
            return 0
        most = length
        count: int = readinto1(view if len(view) <= room else view[:room])
        plain.length -= count
        theirs.length_remaining -= count
        return count

    return readinto
