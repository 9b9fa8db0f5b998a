"""A user's own opener `f(url, mode, bufsize)` as a store."""

from __future__ import annotations

from collections.abc import Callable
from io import TextIOBase
from typing import Any, Self

from webdataset.errors import StoreError, Where

from ._store import Store, skip

# The default of the public library, which functions written for it expect.
_BUFSIZE = 8192


class HandlerStore(Store):
    """Opens with a function of the user; the object that it returns is wrapped only if a `with` block cannot close it.

    >>> import io
    >>> HandlerStore(lambda url, mode, bufsize: io.BytesIO(b"abc")).open_read("x://y", 1).read()
    b'bc'
    """

    def __init__(self, function: Callable[..., Any], bufsize: int = _BUFSIZE) -> None:
        self.function, self.bufsize = function, bufsize

    def open_read(self, url: str, start: int = 0) -> Any:
        stream = self._open(url, "rb", "read")
        skip(stream, start, url)
        return stream

    def open_write(self, url: str) -> Any:
        return self._open(url, "wb", "write")

    def _open(self, url: str, mode: str, verb: str) -> Any:
        stream = self.function(url, mode, self.bufsize)
        if not callable(getattr(stream, verb, None)) or isinstance(stream, TextIOBase):
            what = f"the opener of this address returned {type(stream).__name__}, expected a binary file with {verb}()"
            raise StoreError(what, Where(shard=url), hint="correct the function in stores.schemes")
        return stream if all(hasattr(type(stream), name) for name in ("__enter__", "close")) else _Closable(stream)


class _Closable:
    """A stream that a `with` block closes; after an exception it is aborted, if it can be."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def close(self) -> None:
        getattr(self._stream, "close", lambda: None)()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        (self.close if kind is None else getattr(self._stream, "abort", self.close))()
