"""One HTTP request with its redirects, and the errors for exceptions of urllib3 and for status codes.

Redirects are followed here and not by urllib3, for every method alike: a redirect is data that a server sent. It leads
to http or https only. Credentials are sent on to the same scheme, host and port, or from http to https of the same
host; never to another host, and never from https to http.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cache
from typing import IO, TYPE_CHECKING, Any, TypeVar
from urllib.parse import urljoin

from webdataset import config
from webdataset.address import Address, Birth
from webdataset.errors import AccessDenied, ShardNotFound, SpecError, StoreError, StoreTimeout
from webdataset.redact import redacted

from ._auth import secrets_for
from ._connection_pool import manager
from ._parse_address import origin, refuse_malformed, scheme_of
from ._resuming_stream import PASSING_STATUSES, PastTheEnd, retryable
from ._store import read_document
from ._trust import check

if TYPE_CHECKING:
    import urllib3

T = TypeVar("T")

P = TypeVar("P")

_REDIRECTS = 10
_PAGES = 10_000  # of 1,000 names each, as servers send them
_MOVED = {301, 302, 303, 307, 308}
_MOVED_WITH_BODY = {307, 308}  # the others may turn a PUT into a GET
_ALWAYS_SECRET = frozenset({"authorization", "cookie", "proxy-authorization"})
_HEADER_NAME = re.compile(r"[!#-9;-~]+")
_HEADER_VALUE = re.compile(r"[\t -~\x80-\xff]*")
# The body of a redirect that is read to keep its connection.
_SMALL = 64 << 10


@dataclass(frozen=True, slots=True)
class Request:
    """The address and headers of a request; `secret` names the headers that must not follow a redirect elsewhere."""

    url: str
    headers: dict[str, str] = field(default_factory=dict)
    secret: frozenset[str] = frozenset()

    @classmethod
    def to(cls, url: str, secrets: dict[str, str] | None = None) -> Request:
        """A request to an address, with the stored credentials for it, or those given."""
        plain, found = secrets_for(url) if secrets is None else (url, secrets)
        return cls(plain, dict(found), frozenset(name.lower() for name in found))

    def adding(self, **headers: str) -> Request:
        """The same with more headers."""
        return replace(self, headers={**self.headers, **headers})

    def moved(self, location: str) -> Request:
        """The same request to the target of a redirect, without the credentials if it is another host."""
        refuse_malformed(location, "https")
        url = Address(urljoin(self.url, location), Birth.REDIRECT, self.url)
        check(url, scheme_of(url))
        if _may_forward_credentials(self.url, url):
            return replace(self, url=url)
        kept = {name: value for name, value in self.headers.items() if name.lower() not in self.secret | _ALWAYS_SECRET}
        return replace(self, url=url, headers=kept)


def request(method: str, wanted: Request, body: IO[bytes] | bytes | None = None) -> urllib3.BaseHTTPResponse:
    """Send a request and follow redirects. The body of a good answer is not read yet; a bad answer is an error."""
    for _ in range(_REDIRECTS + 1):
        if body is not None and not isinstance(body, bytes):
            body.seek(0)
        response = _send(method, wanted, body)
        location = response.headers.get("Location")
        if not location or response.status not in (_MOVED if method in {"GET", "HEAD"} else _MOVED_WITH_BODY):
            if response.status >= 300:
                raise _status_error(response)
            return response
        _release(response)
        wanted = wanted.moved(location)
    raise StoreError(f"more than {_REDIRECTS} redirects", hint="check the address")


def request_list(
    wanted: Request, read: Callable[[Any, Mapping[str, str]], T], variable: str, body: bytes | None = None
) -> T:
    """Request a list of objects; returns `read(json, headers)` of the answer.

    Args:
        wanted: the request.
        read: may assume that the JSON is such a list; the exceptions that it raises otherwise become a typed error.
        variable: the environment variable with the address of the server, for the error.
        body: the body of the request.
    """
    with urllib3_errors(), request("GET", wanted, body=body) as response:
        data, headers = read_document(response, wanted.url), response.headers
    try:
        return read(json.loads(data), headers)
    except (ValueError, RecursionError) as error:
        raise retryable(StoreError("the server sent a list of objects that is not JSON")) from error
    except (LookupError, TypeError, AttributeError) as error:
        raise StoreError("expected a list of objects, got something else", hint=f"check {variable}") from error


def every_page(request_page: Callable[[P], tuple[list[str], P | None]], first: P) -> Iterator[str]:
    """All names in a list that a server sends in pages.

    >>> list(every_page(lambda page: ([f"{page}.tar"], page + 1 if page < 3 else None), 1))
    ['1.tar', '2.tar', '3.tar']

    Args:
        request_page: returns the names on a page, and the next page if there is one.
        first: the first page.
    """
    page = first
    for _ in range(_PAGES):
        names, following = request_page(page)
        yield from names
        if not following:
            return
        page = following
    raise StoreError(f"the list of objects has more than {_PAGES:,} pages", hint="list a smaller folder")


def _may_forward_credentials(source: str, target: str) -> bool:
    """Whether credentials may be sent on: to the same origin, or from http to https of the same host."""
    upgraded = source.startswith("http://") and origin(f"https{source[4:]}") == origin(target)
    return upgraded or origin(source) == origin(target)


def _release(response: urllib3.BaseHTTPResponse) -> None:
    """Return the connection to its pool if the body is small, else close it; the page of a redirect has any length."""
    length = response.headers.get("Content-Length", "")
    if length.isdigit() and int(length) <= _SMALL:
        response.drain_conn()
    response.close()


def _send(method: str, wanted: Request, body: IO[bytes] | bytes | None) -> urllib3.BaseHTTPResponse:
    import urllib3

    _redact_logs()
    patience = config.read("WDS_TIMEOUT")
    # Bytes as they are stored: a stream with a transfer encoding could not be resumed.
    headers = {"Accept-Encoding": "identity", "User-Agent": "webdataset", **wanted.headers}
    _refuse_malformed_headers(headers)
    refuse_malformed(wanted.url, "http")  # an endpoint from the environment was not checked yet
    with urllib3_errors():
        return manager(wanted.url).request(
            method,
            str(wanted.url),
            headers=headers,
            body=body,
            preload_content=False,
            decode_content=False,
            redirect=False,
            retries=False,
            timeout=urllib3.Timeout(connect=min(patience, 30), read=patience),
        )


def _refuse_malformed_headers(headers: Mapping[str, str]) -> None:
    """Raise an error without the value, which the error of Python's own library would show."""
    for name, value in headers.items():
        if not _HEADER_NAME.fullmatch(name) or not _HEADER_VALUE.fullmatch(value):
            shown = repr(name) if _HEADER_NAME.fullmatch(name) else "of another name"
            raise SpecError(
                f"the header {shown} has a line end or another character that no header can have",
                hint="check WDS_HTTP_HEADERS, HF_TOKEN and AIS_AUTHN_TOKEN",
            )


@cache
def _redact_logs() -> None:
    """Redact urllib3's log records: at level DEBUG they contain the path and query of every request."""
    for name in ("connectionpool", "poolmanager", "util.retry"):
        logging.getLogger(f"urllib3.{name}").addFilter(_without_secrets)


def _without_secrets(record: logging.LogRecord) -> bool:
    record.msg, record.args = redacted(record.getMessage()), None
    return True


@contextmanager
def urllib3_errors() -> Iterator[None]:
    """Turn exceptions of urllib3 into typed errors; a test checks that none is missing."""
    from urllib3 import exceptions

    try:
        yield
    except exceptions.MaxRetryError as error:
        raise meaning(error.reason or error) from error
    except (exceptions.HTTPError, OSError, ValueError) as error:
        if isinstance(error, StoreError):
            raise
        raise meaning(error) from error


def meaning(error: BaseException) -> StoreError | SpecError:
    """The error for an exception of urllib3."""
    return _permanent_error(error) or _network_error(error)


def _permanent_error(error: BaseException) -> StoreError | SpecError | None:
    """Errors that a retry cannot fix."""
    from urllib3 import exceptions

    if isinstance(error, exceptions.SSLError) and "CERTIFICATE_VERIFY_FAILED" in str(error):
        return AccessDenied(
            f"the server's certificate is not trusted: {error}", hint="name its authority in SSL_CERT_FILE"
        )
    if isinstance(error, exceptions.ResponseError) and "redirect" in str(error):
        return StoreError("too many redirects", hint="check the address")
    if isinstance(error, exceptions.LocationValueError | exceptions.URLSchemeUnknown):
        return SpecError(f"malformed web address: {error}", hint="write http(s)://host/path")
    return None


def _network_error(error: BaseException) -> StoreError:
    from urllib3 import exceptions

    if isinstance(error, exceptions.ProxyError) and error.original_error is not None:
        return retryable(StoreError(f"the proxy failed: {error.original_error}", hint="check HTTPS_PROXY"))
    if isinstance(error, exceptions.NameResolutionError):
        return retryable(StoreError(f"unknown host name: {error}", hint="check the address and the network"))
    if isinstance(error, exceptions.NewConnectionError):  # which urllib3 counts among the time-outs
        what = str(error).partition("Failed to establish a new connection: ")[2] or str(error)
        return retryable(StoreError(f"no connection: {what}", hint="check host and port, and whether the server runs"))
    if isinstance(error, exceptions.TimeoutError | TimeoutError):
        return StoreTimeout("the server did not answer in time", hint="WDS_TIMEOUT sets the seconds to wait")
    return retryable(StoreError(f"the connection failed: {error}"))


def _status_error(response: urllib3.BaseHTTPResponse) -> StoreError:
    """The error for a status code; the connection is closed."""
    status, excerpt = response.status, _excerpt(response)
    error = _by_status(status, f"the server answered {status} {response.reason or ''}".rstrip() + excerpt)
    if isinstance(error, PastTheEnd):
        found = re.fullmatch(r"bytes \*/(\d+)", response.headers.get("Content-Range", ""))
        error.size = int(found[1]) if found else None
    if status in PASSING_STATUSES:
        retryable(error, _seconds(response.headers.get("Retry-After")))
    error.status = status  # type: ignore[attr-defined]  # read by stores that have a second way to request
    return error


def _by_status(status: int, what: str) -> StoreError:
    if status in {404, 410}:
        return ShardNotFound(what, hint="check the address")
    if status in {401, 403, 407}:
        return AccessDenied(
            what,
            hint="give credentials by ~/.netrc, WDS_HTTP_HEADERS or user:password@ in the address; for shards of a "
            "description they are sent only to the host of the description",
        )
    if status == 416:
        return PastTheEnd(what)
    if status in {408, 504}:
        return StoreTimeout(what)
    if 300 <= status < 400:
        return StoreError(what, hint="the redirect cannot be followed: check the address")
    return StoreError(what, hint="check the address and the permissions on the server")


def _excerpt(response: urllib3.BaseHTTPResponse) -> str:
    """The first words of an error page, which contain the reason of the server."""
    try:
        words = response.read(300, decode_content=False).decode("utf-8", "replace")
    except Exception:  # the status alone is enough
        words = ""
    finally:
        response.close()
    plain = " ".join(re.sub(r"<[^>]*>", " ", words).split())
    return f": {plain[:160]}" if plain else ""


def _seconds(header: str | None) -> float | None:
    """`Retry-After` is a number of seconds or a date."""
    from email.utils import parsedate_to_datetime  # rarely needed, and 10 ms of the first sample

    if header is None:
        return None
    if header.strip().isdigit():
        return float(header)
    import time

    try:
        return max(0.0, parsedate_to_datetime(header).timestamp() - time.time())
    except (ValueError, TypeError):
        return None
