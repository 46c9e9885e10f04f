"""Serve the given answers of a monitoring system over HTTP, and record the requests."""

from __future__ import annotations

import http.server
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import NamedTuple
from urllib.parse import parse_qsl, urlsplit


class Asked(NamedTuple):
    method: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    """Names in lower case."""
    body: bytes


class Answer(NamedTuple):
    body: bytes = b""
    status: int = 200


class Source:
    """Address of the server, and every request."""

    def __init__(self, port: int) -> None:
        self.address = f"http://127.0.0.1:{port}"
        self.asked: list[Asked] = []


@contextmanager
def answering(answer: Callable[[Asked], Answer]) -> Iterator[Source]:
    """Serve until the context ends. `answer` is called from threads."""

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _answer(self) -> None:
            url = urlsplit(self.path)
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            headers = {name.lower(): value for name, value in self.headers.items()}
            asked = Asked(self.command, url.path, dict(parse_qsl(url.query)), headers, body)
            source.asked.append(asked)
            reply = answer(asked)
            self.send_response(reply.status)
            self.send_header("Content-Length", str(len(reply.body)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(reply.body)

        do_GET = do_POST = do_HEAD = _answer  # noqa: N815  # the names http.server asks for

        def log_message(self, *_args: object) -> None:
            return

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    source = Source(server.server_address[1])
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield source
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
