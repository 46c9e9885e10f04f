"""An HTTP proxy that passes requests with the valid bearer token on, and answers the others with 401."""

from __future__ import annotations

import collections
import contextlib
import http.server
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from http import HTTPStatus


class TokenProxy(http.server.ThreadingHTTPServer):
    """Serves on `address` what `target` answers."""

    daemon_threads = True

    def __init__(self, address: str, target: str, token: str) -> None:
        super().__init__((address, 0), _Handler)
        self.target = target
        self.token = token
        """The only valid token; may be set at any time."""
        self.answers: collections.Counter[tuple[str, int]] = collections.Counter()
        """Number of answers by the token of the request and the status."""

    @property
    def port(self) -> int:
        """Return the port that it listens on."""
        return self.server_port


class _Handler(http.server.BaseHTTPRequestHandler):
    server: TokenProxy

    def do_GET(self) -> None:
        token = self.headers.get("Authorization", "").removeprefix("Bearer ")
        status, body = HTTPStatus.UNAUTHORIZED, b"{}"
        if token == self.server.token:
            try:
                with urllib.request.urlopen(self.server.target + self.path, timeout=10) as answer:
                    status, body = HTTPStatus(answer.status), answer.read()
            except urllib.error.HTTPError as error:
                status, body = HTTPStatus(error.code), error.read()
        self.server.answers[token, int(status)] += 1
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name in the base class
        """Log nothing."""


@contextlib.contextmanager
def running(address: str, target: str, token: str) -> Iterator[TokenProxy]:
    """Start a proxy on a free port, and end it."""
    with TokenProxy(address, target, token) as proxy:
        thread = threading.Thread(target=proxy.serve_forever, daemon=True)
        thread.start()
        try:
            yield proxy
        finally:
            proxy.shutdown()
            thread.join()
