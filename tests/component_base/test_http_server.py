"""The server of probes and metrics, in the process of the test: refusals, bounds of a connection, its own problems."""

import contextlib
import errno
import logging
import socket
import types

import prometheus_client
import pytest

from component_base import http_endpoint, http_server
from tests.component_base.serving import FINE, answer, connected, serving, until


def probe(listener):
    return answer(listener, b"GET /healthz HTTP/1.0\r\n\r\n")


@pytest.mark.parametrize(
    ("request_head", "status", "text"),
    [
        (b"GET / HTTP/1.0\r\nX: " + b"x" * 8192, b"431 Request Header Fields Too Large", b"more than 8192 bytes\n"),
        (b"hello\r\n\r\n", b"400 Bad Request", b"not an HTTP request\n"),
        (b"\r\n\r\n", b"400 Bad Request", b"not an HTTP request\n"),
        (b"\r\nGET / HTTP/1.1\r\n\r\n", b"400 Bad Request", b"not an HTTP request\n"),
        (b"DELETE /healthz HTTP/1.0\r\n\r\n", b"501 Not Implemented", b"want GET\n"),
    ],
)
def test_what_is_not_a_request_for_a_page_is_answered_with_the_reason(request_head, status, text):
    with serving() as listener:
        found = answer(listener, request_head)
        assert probe(listener).endswith(b"\r\n\r\nfine\n")
    assert found.startswith(b"HTTP/1.0 " + status + b"\r\n")
    assert found.endswith(text)


def test_one_connection_too_many_closes_the_oldest_at_once(monkeypatch):
    monkeypatch.setattr(http_server, "MOST_WAITING", 2)
    with serving() as listener, connected(listener) as oldest, connected(listener) as second:
        until(lambda: len(listener.waiting) == 2)
        assert probe(listener).endswith(b"fine\n")
        with contextlib.suppress(ConnectionResetError):
            assert oldest.recv(1) == b""
        second.sendall(b"GET /healthz HTTP/1.0\r\n\r\n")
        assert second.makefile("rb").read().endswith(b"fine\n")


@pytest.mark.parametrize(("more_bytes", "is_read"), [(64 * 1024, True), (64 * 1024 + 1, False)])
def test_a_client_may_send_64_kib_beyond_its_request_and_no_more_is_read(more_bytes, is_read):
    with serving() as listener, connected(listener) as client:
        client.sendall(b"POST /healthz HTTP/1.0\r\n\r\n")
        assert client.makefile("rb").read().endswith(b"fine\n")
        (connection,) = listener.answering
        client.sendall(b"x" * more_bytes)
        client.shutdown(socket.SHUT_WR)
        if is_read:
            until(lambda: connection not in listener.answering)
        for _ in range(30):  # more turns of the loop than the server needs to read everything
            assert probe(listener).endswith(b"fine\n")
        assert (connection in listener.answering) is not is_read


@pytest.fixture
def server():
    made = http_server.HttpServer([])
    with contextlib.closing(made._loop):
        yield made


def report(server, error):
    server._loop.call_exception_handler({"message": "in the loop", "exception": error})


def test_an_unexpected_error_of_the_loop_is_logged_with_its_traceback(server, caplog):
    report(server, ValueError("unexpected"))
    (line,) = caplog.records
    assert (line.levelno, line.getMessage()) == (logging.ERROR, "probes and metrics: in the loop")
    assert isinstance(line.exc_info[1], ValueError)


def test_a_connection_that_fails_is_worth_no_line_of_an_operator(server, caplog):
    caplog.set_level(logging.DEBUG)
    report(server, ConnectionResetError(errno.ECONNRESET, "reset"))
    (line,) = caplog.records
    assert line.levelno == logging.DEBUG
    assert "reset" in line.getMessage()


def test_clients_that_cannot_be_accepted_are_one_warning_a_minute(server, caplog, monkeypatch):
    now = types.SimpleNamespace(seconds=0.0)
    monkeypatch.setattr(http_server, "time", types.SimpleNamespace(monotonic=lambda: now.seconds))
    for seconds, warnings in ((0.0, 1), (1.0, 1), (59.9, 1), (60.0, 2), (119.9, 2), (120.0, 3)):
        now.seconds = seconds
        report(server, OSError(errno.EMFILE, "Too many open files"))
        assert [line.levelno for line in caplog.records] == [logging.WARNING] * warnings, seconds
    assert "cannot accept clients: [Errno 24] Too many open files" in caplog.text


def test_an_endpoint_that_cannot_open_its_debug_port_leaves_the_other_one_free():
    with socket.create_server(("127.0.0.1", 0)) as holder:
        endpoint = http_endpoint.HttpEndpoint(
            "127.0.0.1",
            0,
            health=lambda: FINE,
            ready=lambda: FINE,
            registry=prometheus_client.CollectorRegistry(),
            debug_port=holder.getsockname()[1],
            debug_routes={"/debug/x": lambda _query: http_endpoint.json_page(1)},
        )
        with pytest.raises(http_endpoint.CannotListen, match="debug pages") as refused:
            endpoint.start()
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", endpoint.port), timeout=5)
    assert str(endpoint.debug_port) in str(refused.value)
