"""The bytes of an HTTP response, read from its connection directly into the reader's memory.

urllib3 returns every piece as a new bytes object, through ten calls. If the body has a length and no chunks, the
connection is read directly instead, and urllib3's counters are updated. urllib3 reads the last bytes itself, sees the
end, and takes the connection back into its pool. Measured by benchmarks/transport.py on loopback: 1139 MB/s, and
822 MB/s without this file.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import urllib3

# Bytes that urllib3 reads itself: few, as they are copied once more; never none, or it would not see the end.
_LAST = 1 << 14


def wire(response: urllib3.BaseHTTPResponse) -> Callable[[memoryview], int]:
    """A `readinto` that returns as soon as there are bytes, or 0 if the response must be read through urllib3.

    >>> wire(object())(memoryview(bytearray(8)))
    0
    """
    theirs: Any = response
    plain: Any = getattr(theirs, "_fp", None)  # http.client's response; there is no public way to it
    connection = getattr(plain, "fp", None)
    readinto1 = getattr(connection, "readinto1", None)
    length, remaining = getattr(plain, "length", None), getattr(theirs, "length_remaining", None)
    # If any of this differs from CPython and urllib3 2, only speed is lost.
    if readinto1 is None or getattr(plain, "chunked", True) or not isinstance(length, int) or length != remaining:
        return lambda _view: 0

    # The connection's buffer holds what came with the headers. A larger read would wait for more, and lose these bytes
    # if nothing comes.
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
