"""Serve the pages on loopback until stopped, and refuse who may not request them.

A page of another origin in the same browser can send requests to loopback, and other users of the same machine can
connect to it. So only the own names are accepted as Host (against DNS rebinding), only GET and HEAD are served, and
`koordctl console` gives the one browser that brings the token a cookie that no other site sends.
"""

from __future__ import annotations

import hmac
import re
import secrets
import socket
from http import HTTPStatus
from http.cookies import CookieError, SimpleCookie
from typing import Final

import uvicorn
from starlette.datastructures import URL, Headers, MutableHeaders
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from component_base import listening

LOOPBACK: Final = "127.0.0.1"
_MOST_CONNECTIONS: Final = 64
_KEEP_ALIVE_SECONDS: Final = 10
_STOP_SECONDS: Final = 1


def listen(port: int) -> socket.socket:
    """Open the port on loopback; 0 takes any free one. Raises listening.CannotListen."""
    opened = listening.listen(LOOPBACK, port, purpose="the pages", fix="choose another port, or 0 for a free one")
    # Of its connections too. Without it a page on a kept connection waits 40 ms for the acknowledgement of its head.
    opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return opened


def server(app: Access) -> uvicorn.Server:
    """Return a server; `serve(sockets=[...])` runs it until a signal."""
    return uvicorn.Server(
        uvicorn.Config(
            app,
            lifespan="off",
            log_level="warning",
            access_log=False,
            server_header=False,
            limit_concurrency=_MOST_CONNECTIONS,
            timeout_keep_alive=_KEEP_ALIVE_SECONDS,
            timeout_graceful_shutdown=_STOP_SECONDS,
            ws="none",
            proxy_headers=False,
        )
    )


_COOKIE: Final = "koord_console_"
"""Begin of the name of the cookie: cookies do not know ports, so each console has a name of its own."""
TOKEN_PARAMETER: Final = "token"  # noqa: S105  # the name of a parameter
_HOST: Final = re.compile(r"(?:127\.0\.0\.1|localhost|\[::1\])(?::[0-9]{1,5})?")
_METHODS: Final = ("GET", "HEAD")
_HEADERS: Final = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    "Cache-Control": "no-store",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}
_ENTERED: Final = (
    '<!doctype html><html lang="en"><meta charset="utf-8"><title>Koord</title>'
    '<meta http-equiv="refresh" content="0;url=/"><p><a href="/">Open the console</a></p></html>'
)
"""A page, not a redirect: the browser sends a strict cookie only if this origin began the navigation."""


class Access:
    """Middleware that refuses what may not be requested. Without a token everybody who reaches the port may read."""

    def __init__(self, app: ASGIApp, token: str = "") -> None:
        self._app = app
        self._token = token
        self._needs_cookie = bool(token)
        self.cookie_name = _COOKIE + secrets.token_hex(4)
        self._cookie = secrets.token_urlsafe(32)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request, or refuse it."""
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self._app(scope, receive, send)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(_HEADERS)
            await send(message)

        answer = self._refusal(Request(scope))
        await (answer or self._app)(scope, receive, send_with_headers)

    def _refusal(self, request: Request) -> Response | None:
        hosts = request.headers.getlist("host")
        if len(hosts) != 1 or not _HOST.fullmatch(hosts[0]):
            return _text("the Host header is not 127.0.0.1 or localhost", HTTPStatus.BAD_REQUEST)
        if request.method not in _METHODS:
            return _text("this console is read-only: want GET", HTTPStatus.METHOD_NOT_ALLOWED, {"Allow": "GET, HEAD"})
        if not self._needs_cookie or self._has_cookie(request.headers):
            return None
        if request.method == "GET" and self._takes_token(request.url):
            entered = HTMLResponse(_ENTERED)
            entered.set_cookie(self.cookie_name, self._cookie, httponly=True, samesite="strict", path="/")
            return entered
        return _text(
            "this browser has not entered: open the address that koordctl console printed; it is valid once",
            HTTPStatus.FORBIDDEN,
        )

    def _has_cookie(self, headers: Headers) -> bool:
        try:
            cookie = SimpleCookie(headers.get("cookie", "")).get(self.cookie_name)
        except CookieError:
            return False
        return cookie is not None and _are_equal(cookie.value, self._cookie)

    def _takes_token(self, url: URL) -> bool:
        """Check the token of an address, which is valid once."""
        name, _, token = url.query.partition("=")
        if not self._token or name != TOKEN_PARAMETER or not _are_equal(token, self._token):
            return False
        self._token = ""
        return True


def _are_equal(one: str, other: str) -> bool:
    return hmac.compare_digest(one.encode("utf-8", "surrogateescape"), other.encode())


def _text(text: str, status: HTTPStatus, headers: dict[str, str] | None = None) -> Response:
    return PlainTextResponse(f"{text}\n", status, headers)
