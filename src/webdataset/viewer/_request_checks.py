"""Who may ask: one table of rules that every request passes before anything else looks at it.

The server listens on the loopback interface, but every program and every web page on this machine can send requests
there. So a request needs a cookie that only the page has. A token in the address is exchanged for it once. The name in
`Host` must be a loopback name (a foreign name that resolves to 127.0.0.1 is refused), and a request that a browser
sends for another site is refused by its `Origin` or `Sec-Fetch-Site`.
"""

from __future__ import annotations

import secrets
import threading
from collections.abc import Awaitable, Callable, MutableMapping
from http.cookies import CookieError, SimpleCookie
from typing import Any, Final
from urllib.parse import parse_qs

_NAMES: Final = ("127.0.0.1", "localhost")
_METHODS: Final = frozenset({"GET", "HEAD", "POST"})
_SAME_SITE: Final = frozenset({"", "same-origin", "none"})

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; media-src 'self'; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors {ancestors}"
)


class Tokens:
    """Tokens that are exchanged for a session once, and the sessions.

    >>> tokens = Tokens()
    >>> token = tokens.new()
    >>> session = tokens.exchange(token)
    >>> tokens.knows(session), tokens.exchange(token), tokens.knows("x")
    (True, None, False)
    """

    def __init__(self) -> None:
        self._tokens: set[str] = set()
        self._sessions: set[str] = set()
        self._lock = threading.Lock()

    def new(self) -> str:
        """A token for one use."""
        token = secrets.token_urlsafe(32)
        with self._lock:
            self._tokens.add(token)
        return token

    def exchange(self, token: str) -> str | None:
        """A session for a token; None if the token is unknown or was used before."""
        with self._lock:
            found = next((each for each in self._tokens if _equal(each, token)), None)
            if found is None:
                return None
            self._tokens.remove(found)
            session = secrets.token_urlsafe(32)
            self._sessions.add(session)
        return session

    def knows(self, session: str) -> bool:
        """Whether a session was handed out."""
        with self._lock:
            return any(_equal(each, session) for each in self._sessions)


def _equal(one: str, other: str) -> bool:
    return secrets.compare_digest(one.encode(), other.encode("utf-8", "replace"))


class CheckedApp:
    """An application after the checks, with security headers on every answer.

    Args:
        app: what answers requests that are allowed.
        tokens: who is allowed.
        port: where the server listens.
        embedded: whether notebooks on this machine may show the page in a frame.
    """

    def __init__(self, app: App, tokens: Tokens, port: int, *, embedded: bool = False) -> None:
        self._app, self._tokens, self._embedded = app, tokens, embedded
        self._hosts = {f"{name}:{port}" for name in _NAMES}
        self._origins = {f"http://{host}" for host in self._hosts}
        self._cookie = f"wds_view_{port}"  # cookies do not know ports
        ancestors = "'self' http://localhost:* http://127.0.0.1:*" if embedded else "'none'"
        self._headers = [
            (b"content-security-policy", _POLICY.format(ancestors=ancestors).encode()),
            (b"x-content-type-options", b"nosniff"),
            (b"referrer-policy", b"no-referrer"),
            (b"cross-origin-resource-policy", b"same-origin"),
            (b"cross-origin-opener-policy", b"same-origin"),
            (b"permissions-policy", b"camera=(), microphone=(), geolocation=()"),
            (b"cache-control", b"no-store"),
        ]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            return  # no web sockets

        async def send_checked(message: MutableMapping[str, Any]) -> None:
            if message["type"] == "http.response.start":
                own = {name.lower() for name, _ in message.get("headers", ())}
                more = [header for header in self._headers if header[0] not in own]
                message = {**message, "headers": [*message.get("headers", ()), *more]}
            await send(message)

        headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}
        refusal = self._refusal(scope["method"], headers)
        if refusal is not None:
            await _answer(send_checked, 403, refusal)
            return
        token = parse_qs(scope["query_string"].decode("latin-1")).get("token")
        if token and scope["path"] == "/" and scope["method"] == "GET":
            await self._exchange(token[0], headers, send_checked)
        elif not self._tokens.knows(self._session(headers)):
            await _answer(send_checked, 401, "Open the address that `wds view` printed: it contains a token.")
        elif self._is_foreign(headers):
            await _answer(send_checked, 403, "Requests of other sites are refused.")
        else:
            await self._app(scope, receive, send_checked)

    def _refusal(self, method: str, headers: dict[str, str]) -> str | None:
        """Why a request is refused whatever token it has."""
        if method not in _METHODS:
            return f"The method {method} is refused: this server only shows data."
        if headers.get("host", "") not in self._hosts:
            return "The host is refused. Open the address that `wds view` printed; through SSH, forward the same port."
        if headers.get("origin") not in {None, *self._origins}:
            return "Requests of other sites are refused."
        return None

    def _is_foreign(self, headers: dict[str, str]) -> bool:
        """Whether a browser sends the request for another site; a notebook's frame is one, where that is allowed."""
        framed = self._embedded and headers.get("sec-fetch-dest") == "iframe"
        return headers.get("sec-fetch-site", "") not in _SAME_SITE and not framed

    async def _exchange(self, token: str, headers: dict[str, str], send: Send) -> None:
        """Give a cookie for a token and go to the page without it, so that it stays in no history."""
        session = self._tokens.exchange(token)
        if session is None and not self._tokens.knows(self._session(headers)):
            await _answer(send, 403, "The token is wrong or was used before. Start `wds view` again for a new one.")
            return
        more = [(b"location", b"/")]
        if session is not None:
            cookie = f"{self._cookie}={session}; HttpOnly; SameSite=Strict; Path=/"
            more.append((b"set-cookie", cookie.encode()))
        await _answer(send, 303, "", more)

    def _session(self, headers: dict[str, str]) -> str:
        try:
            found = SimpleCookie(headers.get("cookie", "")).get(self._cookie)
        except CookieError:
            return ""
        return "" if found is None else found.value


async def _answer(send: Send, status: int, text: str, headers: list[tuple[bytes, bytes]] | None = None) -> None:
    start = [(b"content-type", b"text/plain; charset=utf-8"), *(headers or [])]
    await send({"type": "http.response.start", "status": status, "headers": start})
    await send({"type": "http.response.body", "body": text.encode()})
