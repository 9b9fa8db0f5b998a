"""A user's own opener `f(url, mode, bufsize)` as a store."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ._store import Store, skip

# The default of the public library, which handlers written for it expect.
_BUFSIZE = 8192


class HandlerStore(Store):
    """Opens with a function of the user; the object that it returns is not changed.

    >>> import io
    >>> HandlerStore(lambda url, mode, bufsize: io.BytesIO(b"abc")).open_read("x://y", 1).read()
    b'bc'
    """

    def __init__(self, function: Callable[..., Any], bufsize: int = _BUFSIZE) -> None:
        self.function, self.bufsize = function, bufsize

    def open_read(self, url: str, start: int = 0) -> Any:
        stream = self.function(url, "rb", self.bufsize)
        if start:
            try:
                skip(stream, start, url)
            except BaseException:
                stream.close()
                raise
        return stream

    def open_write(self, url: str) -> Any:
        return self.function(url, "wb", self.bufsize)
