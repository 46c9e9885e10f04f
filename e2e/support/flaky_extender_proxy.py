"""HTTP proxy between kube-scheduler and its extender that is slow or returns nonsense, on demand."""

from __future__ import annotations

import http.client
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit


class FlakyExtenderProxy:
    """An HTTP server that forwards calls, without faults at first."""

    def __init__(self) -> None:
        self.extender_address: str = ""
        """Where calls are passed on to."""
        self.delay_seconds = 0.0
        """How long an answer is held back."""
        self.answers: dict[str, tuple[int, bytes]] = {}
        """Status and body that calls of a verb are response instead of being passed on."""
        line = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                status, content = line.answers.get(self.path[1:]) or line.pass_on(self.path, body)
                time.sleep(line.delay_seconds)
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, *_: object) -> None:
                """Keep quiet."""

        class Server(ThreadingHTTPServer):
            def handle_error(self, *_: object) -> None:
                """Ignore errors: callers close slow connections."""

        self._server = Server(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        self._thread.start()

    @property
    def address(self) -> str:
        """Return the URL for kube-scheduler."""
        return f"http://127.0.0.1:{self._server.server_port}"

    def pass_on(self, path: str, body: bytes) -> tuple[int, bytes]:
        """Forward a call and return the extender's status and body."""
        connection = http.client.HTTPConnection(urlsplit(self.extender_address).netloc, timeout=10)
        try:
            connection.request("POST", path, body, {"Content-Type": "application/json"})
            response = connection.getresponse()
            return response.status, response.read()
        finally:
            connection.close()

    def recover(self) -> None:
        """End all faults."""
        self.delay_seconds, self.answers = 0.0, {}

    def close(self) -> None:
        """Take no more calls."""
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()
