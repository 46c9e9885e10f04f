"""A server of probes and metrics in the process of a test, and its clients."""

import contextlib
import socket
import time

from component_base import http_endpoint, http_server

DEADLINE_SECONDS = 60.0
"""Of each connection here: longer than a test waits, so that no deadline closes what a test expects to be closed."""
FINE = http_endpoint.ProbeResult(True, "fine")


def fine(_query):
    return http_endpoint.probe_page(FINE)


@contextlib.contextmanager
def serving(routes=None, *, instant=frozenset({"/healthz"})):
    """Serve /healthz and other routes; yield the listener."""
    opened = socket.create_server(("127.0.0.1", 0))
    opened.setblocking(False)
    listener = http_server.Listener(opened, {"/healthz": fine, **(routes or {})}, DEADLINE_SECONDS, instant)
    server = http_server.HttpServer([listener])
    server.start()
    try:
        yield listener
    finally:
        server.stop()


def connected(listener):
    return socket.create_connection(listener.socket.getsockname(), timeout=5)


def answer(listener, request):
    with connected(listener) as client:
        client.sendall(request)
        return client.makefile("rb").read()


def until(true):
    deadline = time.monotonic() + 5
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.005)
