"""http and https: pooled connections, redirects, ranges; reading, writing by PUT, listing of index pages."""

from __future__ import annotations

import re
from base64 import b64decode
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import IO, TYPE_CHECKING
from urllib.parse import urljoin, urlsplit

from webdataset.errors import StoreError

from ._globs import prefix_of
from ._request import Request, request, urllib3_errors
from ._resuming_stream import Body, Patience, ResumingStream, persist
from ._same_object import is_strong
from ._store import PIECE, Stat, Store, checked_range, read_document, read_fully
from ._upload import SpooledUpload

if TYPE_CHECKING:
    import urllib3

# The answers of a server that does not support HEAD, or for an address that is signed for GET alone.
_NO_HEAD = (400, 403, 405, 501)
# Headers with a hash of the whole object.
_DIGESTS = (
    ("Repr-Digest", r"sha-256=:([^:]*):", "sha256"),
    ("x-goog-hash", r"md5=([\w+/=]+)", "md5"),
)


class HttpStore(Store):
    """Web servers.

    >>> HttpStore(patience=Patience(tries=3))
    HttpStore()
    """

    kind = "http"

    def __init__(self, patience: Patience | None = None) -> None:
        self.patience = patience or Patience()

    def target(self, url: str) -> Request:
        """The request for an address; stores that use HTTP under another scheme override this."""
        return Request.to(url)

    def open_read(self, url: str, start: int = 0) -> ResumingStream:
        return ResumingStream(
            url, lambda offset, version: self._body(url, offset, None, version), start, self.patience, self.kind
        )

    def read_range(
        self, url: str, start: int, length: int, version: str | None = None, size: int | None = None
    ) -> bytes:
        if length == 0:
            return b""

        def connect(offset: int, known: str | None) -> Body:
            return self._body(url, offset, start + length, known)

        with ResumingStream(url, connect, start, self.patience, self.kind, version, size) as stream:
            return checked_range(read_fully(stream, length), url, start, length)

    def stat(self, url: str) -> Stat:
        return persist(lambda: self._stat(url), url, self.patience, self.kind)

    def open_write(self, url: str) -> SpooledUpload:
        def send(spool: IO[bytes], size: int) -> None:
            persist(lambda: self._put(url, spool, size), url, self.patience, self.kind)

        return SpooledUpload(send)

    def list(self, prefix: str) -> Iterator[str]:
        """The links of an index page, as nginx, Apache, rclone and Python's own server write them."""
        from ._index_page import links

        folder = prefix[: prefix.rindex("/") + 1]
        with self.open_read(folder) as stream:
            page = read_document(stream, folder)
        found = (urljoin(folder, link) for link in links(page.decode("utf-8", "replace")))
        for url in dict.fromkeys(found):  # `a.tar` and `./a.tar` are the same
            if url.startswith(prefix) and not url.endswith("/"):
                yield url

    def glob(self, pattern: str) -> Iterator[str]:
        if "?" in prefix_of(pattern.replace("?", "*", 1)) or urlsplit(pattern).query:
            # A question mark in a web address begins a query: such an address names one object.
            return iter([pattern])
        return super().glob(pattern)

    def _body(self, url: str, start: int, stop: int | None, version: str | None) -> HttpBody:
        wanted = self.target(url)
        # Always a range: the answer then shows the size of the object and that ranges work.
        wanted = wanted.adding(Range=f"bytes={start}-{'' if stop is None else stop - 1}")
        if version is not None and is_strong(version):
            wanted = wanted.adding(**{"If-Range": version})
        response = request("GET", wanted)
        try:
            return HttpBody(response, start)
        except BaseException:
            response.close()
            raise

    def _stat(self, url: str) -> Stat:
        try:
            response = request("HEAD", self.target(url))
        except StoreError as error:
            if getattr(error, "status", None) not in _NO_HEAD:
                raise
        else:
            response.drain_conn()  # there is nothing to read; this returns the connection to its pool
            return Stat(_content_length(response), _version(response), _modification_time(response))
        body = self._body(url, 0, 1, None)
        try:
            return Stat(body.size, body.version, _modification_time(body.response))
        finally:
            body.close()

    def _put(self, url: str, spool: IO[bytes], size: int) -> None:
        spool.seek(0)
        wanted = self.target(url).adding(**{"Content-Length": str(size)})
        request("PUT", wanted, body=spool if size else b"").drain_conn()


class HttpBody(Body):
    """The body of one response, with what its headers say about the whole object."""

    def __init__(self, response: urllib3.BaseHTTPResponse, asked: int) -> None:
        self.response = response
        self._read1: Callable[..., bytes] = response.read1
        self.version, self.digest = _version(response), _digest(response)
        self.ranged = response.status == 206
        self.complete = bool(getattr(response, "chunked", False))
        if self.ranged:
            self.start, self.size = _content_range(response.headers.get("Content-Range", ""), asked)
        else:
            self.start, self.size = 0, _content_length(response)

    def read1(self, size: int) -> bytes:
        try:
            return self._read1(min(size, PIECE), decode_content=False)
        except Exception:  # entering the context manager for each piece would cost too much
            with urllib3_errors():
                raise

    def close(self) -> None:
        # If the body was read to its end, the connection is in the pool again; otherwise it is closed.
        self.response.close()


def _content_range(header: str, asked: int) -> tuple[int, int | None]:
    """`bytes 0-99/200` → 0, 200."""
    unit, _, rest = header.partition(" ")
    span, _, total = rest.partition("/")
    first, _, last = span.partition("-")
    if unit.strip().lower() != "bytes" or not (first.isdigit() and last.isdigit()):
        raise StoreError(f"the server sent a part with an invalid Content-Range: {header!r}")
    if int(first) != asked:
        raise StoreError(f"expected byte {asked}, the server sent byte {first}")
    return int(first), int(total) if total.isdigit() else None


def _content_length(response: urllib3.BaseHTTPResponse) -> int | None:
    length = response.headers.get("Content-Length", "")
    return int(length) if length.isdigit() else None


def _version(response: urllib3.BaseHTTPResponse) -> str | None:
    """The ETag; else the time of modification, as a weak one: an object can change twice in a second."""
    etag, modified = response.headers.get("ETag"), response.headers.get("Last-Modified")
    return etag or (f'W/"{modified}"' if modified else None)


def _digest(response: urllib3.BaseHTTPResponse) -> tuple[str, str] | None:
    """The hash of the whole object, which is sent with parts of it too: RFC 9530, and Google Cloud Storage."""
    headers = response.headers
    if headers.get("Content-Encoding") or headers.get("x-goog-stored-content-encoding", "identity") != "identity":
        return None
    for header, pattern, algorithm in _DIGESTS:
        found = re.search(pattern, headers.get(header, ""))
        with suppress(ValueError):
            if found:
                return algorithm, b64decode(found[1], validate=True).hex()
    return None


def _modification_time(response: urllib3.BaseHTTPResponse) -> float | None:
    from email.utils import parsedate_to_datetime  # rarely needed, and 10 ms of the first sample

    try:
        return parsedate_to_datetime(response.headers["Last-Modified"]).timestamp()
    except (KeyError, ValueError, TypeError):
        return None
