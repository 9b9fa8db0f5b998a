"""http and https: pooled connections, redirects, ranges; reading, writing by PUT, listing of index pages."""

from __future__ import annotations

from typing import IO, TYPE_CHECKING
from urllib.parse import urljoin, urlsplit

from webdataset.errors import StoreError

from ._globs import prefix_of
from ._request import Request, explained, request
from ._resuming_stream import Body, Patience, ResumingStream, persist
from ._store import PIECE, Stat, Store, checked_range, read_fully
from ._upload import SpooledUpload
from ._wire import wire

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import urllib3

# What a server answers that does not want HEAD, or signed the address for GET alone.
_NO_HEAD = (400, 403, 405, 501)


class HttpStore(Store):
    """Web servers.

    >>> HttpStore(patience=Patience(tries=3))
    HttpStore()
    """

    kind = "http"

    def __init__(self, patience: Patience | None = None) -> None:
        self.patience = patience or Patience()

    def target(self, url: str, method: str = "GET") -> Request:
        """What to ask for an address; stores that speak HTTP under another scheme override this."""
        return Request.to(url)

    def open_read(self, url: str, start: int = 0) -> ResumingStream:
        return ResumingStream(
            url, lambda offset, version: self._body(url, offset, None, version), start, self.patience, self.kind
        )

    def read_range(self, url: str, start: int, length: int) -> bytes:
        if length == 0:
            return b""

        def connect(offset: int, version: str | None) -> Body:
            return self._body(url, offset, start + length, version)

        with ResumingStream(url, connect, start, self.patience, self.kind) as stream:
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
            page = stream.read()
        for link in links(page.decode("utf-8", "replace")):
            url = urljoin(folder, link)
            if url.startswith(prefix) and not url.endswith("/"):
                yield url

    def glob(self, pattern: str) -> Iterator[str]:
        if "?" in prefix_of(pattern.replace("?", "*", 1)) or urlsplit(pattern).query:
            # A question mark in a web address begins a query: such an address names one object.
            return iter([pattern])
        return super().glob(pattern)

    def _body(self, url: str, start: int, stop: int | None, version: str | None) -> HttpBody:
        wanted = self.target(url)
        # A range even from 0: the answer shows the full size beside the length of the body, and that ranges work.
        wanted = wanted.adding(Range=f"bytes={start}-{'' if stop is None else stop - 1}")
        if version is not None and not version.startswith("W/"):
            wanted = wanted.adding(**{"If-Range": version})
        response = request("GET", wanted)
        try:
            return HttpBody(response, start)
        except BaseException:
            response.close()
            raise

    def _stat(self, url: str) -> Stat:
        try:
            response = request("HEAD", self.target(url, "HEAD"))
        except StoreError as error:
            if getattr(error, "status", None) not in _NO_HEAD:
                raise
        else:
            response.drain_conn()  # there is nothing to read, but that is how the connection gets back into its pool
            return _described(response, response.headers.get("Content-Length"))
        body = self._body(url, 0, 1, None)
        try:
            return Stat(body.size, body.version, _time(body.response))
        finally:
            body.close()

    def _put(self, url: str, spool: IO[bytes], size: int) -> None:
        spool.seek(0)
        wanted = self.target(url, "PUT").adding(**{"Content-Length": str(size)})
        request("PUT", wanted, body=spool if size else b"").drain_conn()


class HttpBody(Body):
    """The body of one response, with what its headers say about the whole object."""

    def __init__(self, response: urllib3.BaseHTTPResponse, asked: int) -> None:
        self.response = response
        self._read1: Callable[..., bytes] = response.read1
        self._wire = wire(response)
        self.version = response.headers.get("ETag") or response.headers.get("Last-Modified")
        self.ranged = response.status == 206
        self.complete = bool(getattr(response, "chunked", False))
        if self.ranged:
            self.start, self._stop, self.size = _content_range(response.headers.get("Content-Range", ""), asked)
        else:
            self.start, self._stop = 0, None
            length = response.headers.get("Content-Length", "")
            self.size = int(length) if length.isdigit() else None

    def read1(self, size: int) -> bytes:
        try:
            return self._read1(min(size, PIECE), decode_content=False)
        except Exception:  # told apart by the table of exceptions, which costs too much for every piece
            with explained():
                raise

    def readinto(self, view: memoryview) -> int:
        try:
            count = self._wire(view)
        except Exception:
            with explained():
                raise
        return count or super().readinto(view)

    def close(self) -> None:
        # Given back to the pool already if it was read to its end; otherwise the connection is of no more use.
        self.response.close()


def _content_range(header: str, asked: int) -> tuple[int, int | None, int | None]:
    """`bytes 0-99/200` → 0, 100, 200."""
    unit, _, rest = header.partition(" ")
    span, _, total = rest.partition("/")
    first, _, last = span.partition("-")
    if unit.strip().lower() != "bytes" or not (first.isdigit() and last.isdigit()):
        raise StoreError(f"the server sent part of an object without saying which (Content-Range: {header!r})")
    if int(first) != asked:
        raise StoreError(f"byte {asked} was asked for and the server sent byte {first}")
    return int(first), int(last) + 1, int(total) if total.isdigit() else None


def _described(response: urllib3.BaseHTTPResponse, length: str | None) -> Stat:
    version = response.headers.get("ETag") or response.headers.get("Last-Modified")
    return Stat(int(length) if length and length.isdigit() else None, version, _time(response))


def _time(response: urllib3.BaseHTTPResponse) -> float | None:
    from email.utils import parsedate_to_datetime  # rarely needed, and 10 ms of the first sample

    try:
        return parsedate_to_datetime(response.headers["Last-Modified"]).timestamp()
    except (KeyError, ValueError, TypeError):
        return None
