"""One HTTP request, and what its failures mean: the table of the transport's exceptions and of status codes."""

from __future__ import annotations

import re
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING
from urllib.parse import urljoin, urlsplit

from webdataset import config
from webdataset.errors import AccessDenied, ShardNotFound, SpecError, StoreError, StoreTimeout

from ._auth import secrets_for
from ._connection_pool import manager
from ._resuming_stream import PastTheEnd, retryable

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import IO

    import urllib3

_REDIRECTS = 10
# Too early, too many, timed out, and whatever a server says of itself when it is in trouble.
_PASSING = {408, 425, 429, 500, 502, 503, 504, 507, 509, 520, 521, 522, 523, 524, 529}


@dataclass(frozen=True, slots=True)
class Request:
    """Where to send a request, with which headers; `secret` names those that must not follow a redirect elsewhere."""

    url: str
    headers: dict[str, str] = field(default_factory=dict)
    secret: frozenset[str] = frozenset()

    @classmethod
    def to(cls, url: str, secrets: dict[str, str] | None = None) -> Request:
        """A request to an address, with the secrets that the user keeps for it, or those given."""
        plain, found = secrets_for(url) if secrets is None else (url, secrets)
        return cls(plain, dict(found), frozenset(name.lower() for name in found))

    def adding(self, **headers: str) -> Request:
        """The same with more headers."""
        return replace(self, headers={**self.headers, **headers})

    def moved(self, url: str) -> Request:
        """The same to another address; secrets stay behind when it is another host."""
        if urlsplit(url).netloc == urlsplit(self.url).netloc:
            return replace(self, url=url)
        return replace(self, url=url, headers={k: v for k, v in self.headers.items() if k.lower() not in self.secret})


def request(method: str, wanted: Request, body: IO[bytes] | bytes | None = None) -> urllib3.BaseHTTPResponse:
    """Ask once; the body of a good answer is not read yet, a bad answer is an error."""
    response = (
        _ask(method, wanted, body) if body is None or isinstance(body, bytes) else _ask_with(method, wanted, body)
    )
    if response.status >= 300:
        raise _bad(response)
    return response


def _ask_with(method: str, wanted: Request, body: IO[bytes]) -> urllib3.BaseHTTPResponse:
    """Follow redirects by hand: urllib3 does not rewind a file that it has sent to the first address."""
    for _ in range(_REDIRECTS):
        body.seek(0)
        response = _ask(method, wanted, body, redirects=0)
        location = response.headers.get("Location")
        if response.status not in {307, 308} or not location:
            return response
        response.drain_conn()
        wanted = wanted.moved(urljoin(wanted.url, location))
    raise StoreError("the server redirects in a circle", hint="check the address")


def _ask(
    method: str, wanted: Request, body: IO[bytes] | bytes | None, redirects: int = _REDIRECTS
) -> urllib3.BaseHTTPResponse:
    import urllib3

    hidden = frozenset({"authorization", "cookie", "proxy-authorization"}) | wanted.secret
    policy = urllib3.Retry(
        total=None,
        connect=0,
        read=0,
        status=0,
        other=0,
        redirect=redirects,
        remove_headers_on_redirect=hidden,
        respect_retry_after_header=False,
    )
    patience = config.read("WDS_TIMEOUT")
    # Bytes as they are stored: an encoding added on the way could not be resumed in the middle.
    headers = {"Accept-Encoding": "identity", "User-Agent": "webdataset", **wanted.headers}
    with explained():
        return manager(wanted.url).request(
            method,
            wanted.url,
            headers=headers,
            body=body,
            preload_content=False,
            decode_content=False,
            redirect=redirects > 0,
            retries=policy,
            timeout=urllib3.Timeout(connect=min(patience, 30), read=patience),
        )


@contextmanager
def explained() -> Iterator[None]:
    """Turn urllib3's exceptions into ours; a test checks that none is missing."""
    import urllib3.exceptions as theirs

    try:
        yield
    except theirs.MaxRetryError as error:
        raise meaning(error.reason or error) from error
    except (theirs.HTTPError, OSError, ValueError) as error:
        if isinstance(error, StoreError):
            raise
        raise meaning(error) from error


def meaning(error: BaseException) -> StoreError | SpecError:
    """What an exception of the transport means."""
    return _fault_of_the_request(error) or _fault_of_the_network(error)


def _fault_of_the_request(error: BaseException) -> StoreError | SpecError | None:
    """What trying again cannot heal."""
    import urllib3.exceptions as theirs

    if isinstance(error, theirs.SSLError) and "CERTIFICATE_VERIFY_FAILED" in str(error):
        return AccessDenied(
            f"the server's certificate is not trusted: {error}", hint="SSL_CERT_FILE names more authorities"
        )
    if isinstance(error, theirs.ResponseError) and "redirect" in str(error):
        return StoreError("the server redirects in a circle", hint="check the address")
    if isinstance(error, theirs.LocationValueError | theirs.URLSchemeUnknown):
        return SpecError(f"this is not a web address: {error}", hint="write http(s)://host/path")
    return None


def _fault_of_the_network(error: BaseException) -> StoreError:
    import urllib3.exceptions as theirs

    if isinstance(error, theirs.ProxyError) and error.original_error is not None:
        return retryable(StoreError(f"the proxy does not work: {error.original_error}", hint="check HTTPS_PROXY"))
    if isinstance(error, theirs.NameResolutionError):
        return retryable(StoreError(f"the host name is not known: {error}", hint="check the address and the network"))
    if isinstance(error, theirs.NewConnectionError):  # which urllib3 counts among the time-outs
        return retryable(StoreError(f"no connection: {error}", hint="check host and port, and whether the server runs"))
    if isinstance(error, theirs.TimeoutError | TimeoutError):
        return StoreTimeout("the server did not answer in time", hint="WDS_TIMEOUT sets the seconds to wait")
    return retryable(StoreError(f"the connection failed: {error}"))


def _bad(response: urllib3.BaseHTTPResponse) -> StoreError:
    """What a status code means; the connection is given up."""
    status, excerpt = response.status, _excerpt(response)
    error = _by_status(status, f"the server says {status} {response.reason or ''}".rstrip() + excerpt)
    if isinstance(error, PastTheEnd):
        found = re.fullmatch(r"bytes \*/(\d+)", response.headers.get("Content-Range", ""))
        error.size = int(found[1]) if found else None
    if status in _PASSING:
        retryable(error, _seconds(response.headers.get("Retry-After")))
    error.status = status  # type: ignore[attr-defined]  # asked for by stores that know a second way
    return error


def _by_status(status: int, what: str) -> StoreError:
    if status in {404, 410}:
        return ShardNotFound(what, hint="check the address")
    if status in {401, 403, 407}:
        return AccessDenied(
            what, hint="give credentials by ~/.netrc, WDS_HTTP_HEADERS or user:password@ in the address"
        )
    if status == 416:
        return PastTheEnd(what)
    if status in {408, 504}:
        return StoreTimeout(what)
    if 300 <= status < 400:
        return StoreError(what, hint="the redirect leads nowhere: check the address")
    return StoreError(what, hint="check the address and what the server allows")


def _excerpt(response: urllib3.BaseHTTPResponse) -> str:
    """The first words of an error page: servers say there what they mind."""
    try:
        words = response.read(300, decode_content=False).decode("utf-8", "replace")
    except Exception:  # the status alone must do
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
