"""The interface of a store: one kind of storage that can be read, and perhaps written and listed.

A store is also callable as `store(url, mode, bufsize)`, the form in which the public library's scheme table is used.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from webdataset.errors import SpecError, StoreError, Where

from ._globs import matches, prefix_of
from ._same_object import BytesRead

# Large enough that calls cost little, small enough for a core's cache.
PIECE = 1 << 20
# The largest description, index or list of objects: a server could send one without an end.
LARGEST_DOCUMENT = 1 << 30


@dataclass(frozen=True, slots=True)
class Stat:
    """Size, validator and time of change of a stored object; unknown parts are None.

    >>> Stat(size=1024, etag='"5d41"').size
    1024
    """

    size: int | None = None
    etag: str | None = None
    mtime: float | None = None


class Store(ABC):
    """One kind of storage. Only `open_read` must be implemented; the other methods raise an error by default."""

    @abstractmethod
    def open_read(self, url: str, start: int = 0) -> Any:
        """A binary stream of the bytes from `start` on; its end is verified, or it raises."""

    def open_write(self, url: str) -> Any:
        """A binary stream whose bytes are seen at `url` after `close()`, or never (`abort()`)."""
        raise self.cannot("be written to", url)

    def stat(self, url: str) -> Stat:
        """Size, etag and time of change, if the store has them."""
        raise self.cannot("tell the size of an object", url)

    def list(self, prefix: str) -> Iterator[str]:
        """All URLs that begin with `prefix`, at any depth."""
        raise self.cannot("be listed", prefix)

    def read_range(
        self, url: str, start: int, length: int, version: str | None = None, size: int | None = None
    ) -> bytes:
        """Exactly the bytes `start` to `start + length`; an error if there are fewer, or of another version or size."""
        with self.open_read(url, start) as stream:
            if hasattr(stream, "version"):
                BytesRead(url, start, version, size).check(stream.version, getattr(stream, "size", None), start)
            data: bytes = read_fully(stream, length)
        return checked_range(data, url, start, length)

    def glob(self, pattern: str) -> Iterator[str]:
        """The URLs that match a pattern of `_globs`."""
        test = matches(pattern)
        return (url for url in self.list(prefix_of(pattern)) if test(url))

    def cannot(self, do_what: str, url: str) -> StoreError:
        """The error for an operation that this kind of storage does not support."""
        return StoreError(
            f"{type(self).__name__} cannot {do_what}", Where(shard=url), hint="use another kind of address"
        )

    def __call__(self, url: str, mode: str = "rb", bufsize: int = -1) -> Any:
        """Open in the form of the public library's scheme handlers."""
        if mode == "rb":
            return self.open_read(url)
        if mode == "wb":
            return self.open_write(url)
        raise SpecError(f"the mode {mode!r} is not known", Where(shard=url), hint='use "rb" or "wb"')

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


def read_fully(stream: Any, length: int) -> bytes:
    """Read until there are `length` bytes or the stream ends; single reads may return less.

    >>> import io
    >>> read_fully(io.BytesIO(b"abcdef"), 4)
    b'abcd'
    """
    pieces, missing = [], length
    while missing > 0:
        piece = stream.read(missing)
        if not piece:
            break
        pieces.append(piece)
        missing -= len(piece)
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


def read_document(stream: Any, url: str) -> bytes:
    """All bytes of a stream; an error if they are more than a document can have.

    >>> import io
    >>> read_document(io.BytesIO(b"abc"), "a.json")
    b'abc'
    """
    pieces, size = [], 0
    while piece := stream.read(PIECE):
        pieces.append(piece)
        size += len(piece)
        if size > LARGEST_DOCUMENT:
            raise StoreError(
                f"a description, index or list of more than {LARGEST_DOCUMENT:,} bytes is not read",
                Where(shard=url),
                hint="check the address; divide the dataset if it is right",
            )
    return b"".join(pieces)


def skip(stream: Any, count: int, url: str) -> None:
    """Read and discard `count` bytes. If the stream is shorter or fails, it is closed and an error is raised.

    >>> import io
    >>> stream = io.BytesIO(b"abcdef")
    >>> skip(stream, 4, "memory://x")
    >>> stream.read()
    b'ef'
    """
    missing = count
    try:
        while missing > 0:
            piece = stream.read(min(missing, PIECE))
            if not piece:
                raise past_the_end(url, count, count - missing)
            missing -= len(piece)
    except BaseException:
        stream.close()
        raise


def checked_range(data: bytes, url: str, start: int, length: int) -> bytes:
    """The data, if it has the requested length; else an error.

    >>> checked_range(b"ab", "a.tar", 0, 2)
    b'ab'
    """
    if len(data) != length:
        raise past_the_end(url, start + length, start + len(data))
    return data


def past_the_end(url: str, wanted: int, size: int) -> StoreError:
    """The error for a range that reaches past the end of the object."""
    return StoreError(
        f"expected at least {wanted} bytes, the object has {size}",
        Where(shard=url, offset=size),
        hint="rebuild its index, or copy it again",
    )
