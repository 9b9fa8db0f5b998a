"""Which requests are answered: checks that every request passes first.

The server listens on the loopback interface, but every program and every web page on this machine can send requests
there. So a request needs a cookie that only the page has. A token in the address is exchanged for it once. The name in
`Host` must be a loopback name (a foreign name that resolves to 127.0.0.1 is refused), and a request that a browser
sends for another site is refused by its `Origin` or `Sec-Fetch-Site`.
"""

from __future__ import annotations

import secrets
from typing import Final

from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from webdataset.mutex import Mutex

_NAMES: Final = ("127.0.0.1", "localhost")
_METHODS: Final = frozenset({"GET", "HEAD", "POST"})
_SAME_SITE: Final = frozenset({"", "same-origin", "none"})
_OTHER_SITES: Final = "Requests of other sites are refused."

_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; media-src 'self'; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors {ancestors}"
)


class Tokens:
    """Tokens that are exchanged for a session once, and the sessions.

    >>> tokens = Tokens()
    >>> token = tokens.new()
    >>> session = tokens.exchange(token)
    >>> tokens.has_session(session), tokens.exchange(token), tokens.has_session("x")
    (True, None, False)
    """

    def __init__(self) -> None:
        self._tokens: set[str] = set()
        self._sessions: set[str] = set()
        self._lock = Mutex()

    def new(self) -> str:
        """A new token for one use."""
        token = secrets.token_urlsafe(32)
        with self._lock:
            self._tokens.add(token)
        return token

    def exchange(self, token: str) -> str | None:
        """A session for a token; None if the token is unknown or was used before."""
        with self._lock:
            found = next((each for each in self._tokens if _is_equal(each, token)), None)
            if found is None:
                return None
            self._tokens.remove(found)
            session = secrets.token_urlsafe(32)
            self._sessions.add(session)
        return session

    def has_session(self, session: str) -> bool:
        """Whether this is the secret of a session."""
        with self._lock:
            return any(_is_equal(each, session) for each in self._sessions)


def _is_equal(one: str, other: str) -> bool:
    return secrets.compare_digest(one.encode(), other.encode("utf-8", "replace"))


class CheckedApp:
    """An application with checks before it, and with security headers on every answer.

    Args:
        app: the application that answers allowed requests.
        tokens: the tokens and sessions that are allowed.
        port: where the server listens.
        embedded: whether notebooks on this machine may show the page in a frame.
    """

    def __init__(self, app: ASGIApp, tokens: Tokens, port: int, *, embedded: bool) -> None:
        self._app, self._tokens, self._embedded = app, tokens, embedded
        self._hosts = {f"{name}:{port}" for name in _NAMES}
        self._origins = {f"http://{host}" for host in self._hosts}
        self._cookie = f"wds_view_{port}"  # cookies are shared by all ports
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

        async def send_checked(message: Message) -> None:
            if message["type"] == "http.response.start":
                own = {name.lower() for name, _ in message.get("headers", ())}
                more = [header for header in self._headers if header[0] not in own]
                message = {**message, "headers": [*message.get("headers", ()), *more]}
            await send(message)

        answer = self._own_answer(Request(scope)) or self._app
        await answer(scope, receive, send_checked)

    def _own_answer(self, request: Request) -> Response | None:
        """The answer to a request that does not reach the application."""
        refusal = self._refusal(request)
        if refusal is not None:
            return PlainTextResponse(refusal, 403)
        is_known = self._tokens.has_session(request.cookies.get(self._cookie, ""))
        token = request.query_params.get("token")
        if token and request.scope["path"] == "/" and request.method == "GET":
            return self._exchange(token, is_known=is_known)
        if not is_known:
            return PlainTextResponse("Open the address that `wds view` printed: it contains a token.", 401)
        return PlainTextResponse(_OTHER_SITES, 403) if self._is_foreign(request) else None

    def _refusal(self, request: Request) -> str | None:
        """Why a request is refused even with a valid token; None if it is not."""
        if request.method not in _METHODS:
            return f"The method {request.method} is refused: this server only shows data."
        if request.headers.get("host", "") not in self._hosts:
            return "The host is refused. Open the address that `wds view` printed; through SSH, forward the same port."
        return None if request.headers.get("origin") in {None, *self._origins} else _OTHER_SITES

    def _is_foreign(self, request: Request) -> bool:
        """Whether a browser sends the request for another site; a notebook's frame is one, where that is allowed."""
        framed = self._embedded and request.headers.get("sec-fetch-dest") == "iframe"
        return request.headers.get("sec-fetch-site", "") not in _SAME_SITE and not framed

    def _exchange(self, token: str, *, is_known: bool) -> Response:
        """Give a cookie for a token and go to the page without it, so that it stays in no history."""
        session = self._tokens.exchange(token)
        if session is None and not is_known:
            text = "The token is wrong or was used before. Start `wds view` again for a new one."
            return PlainTextResponse(text, 403)
        response = RedirectResponse("/", 303)
        if session is not None:
            response.set_cookie(self._cookie, session, httponly=True, samesite="Strict", path="/")
        return response
