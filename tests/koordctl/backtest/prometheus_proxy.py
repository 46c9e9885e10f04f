"""HTTP or HTTPS in front of a Prometheus, or in place of one: counts, slows down and changes the results."""

import contextlib
import http.server
import json
import threading
import urllib.error
import urllib.parse
import urllib.request
from dataclasses import dataclass, field

EMPTY = json.dumps({"status": "success", "data": []}).encode()


@dataclass
class Proxy:
    """`change` is given path, parameters and the result's status and body, and returns status and body."""

    upstream: str | None = None
    change: object = None
    before: object = None
    asked: list = field(default_factory=list)
    url: str = ""

    def queries(self, path="query_range"):
        return [parameters for of, parameters in self.asked if of == path]

    def answer(self, path, body):
        parameters = dict(urllib.parse.parse_qsl(body.decode()))
        name = path.rpartition("/")[2]
        self.asked.append((name, parameters))
        if self.before:
            self.before(name, parameters)
        status, content = 200, EMPTY
        if self.upstream:
            try:
                with urllib.request.urlopen(f"{self.upstream}{path}", body, timeout=60) as reply:
                    status, content = reply.status, reply.read()
            except urllib.error.HTTPError as error:
                status, content = error.code, error.read()
        return self.change(name, parameters, status, content) if self.change else (status, content)


@contextlib.contextmanager
def serving(proxy, tls=None, token=None):
    """Serve a proxy; with `token` every other one is refused."""

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def do_POST(self):
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if token and self.headers["Authorization"] != f"Bearer {token}":
                status, content = 401, b"Unauthorized"
            else:
                status, content = proxy.answer(self.path, body)
            self.send_response(status)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_):
            pass

    class Server(http.server.ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, *_):
            """Ignore clients that were killed, and those that do not trust the certificate."""

    with Server(("127.0.0.1", 0), Handler) as server:
        if tls:
            server.socket = tls.wrap_socket(server.socket, server_side=True)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        proxy.url = f"{'https' if tls else 'http'}://127.0.0.1:{server.server_port}"
        try:
            yield proxy
        finally:
            server.shutdown()
