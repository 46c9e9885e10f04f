"""The connections of the server of probes and metrics, in the process of the test: their start, bounds and end."""

import contextlib
import logging
import socket
import struct
import threading

import prometheus_client
import pytest

from component_base import http_endpoint, http_server
from tests.component_base.serving import FINE, answer, connected, fine, serving, until


def get(listener, path):
    return answer(listener, f"GET {path} HTTP/1.0\r\n\r\n".encode())


def is_reset(client):
    try:
        client.send(b"x")
    except ConnectionError:
        return True
    return False


def test_probes_are_answered_while_pages_occupy_every_worker():
    going_on, began = threading.Event(), threading.Semaphore(0)

    def slow(_query):
        began.release()
        assert going_on.wait(30)
        return fine({})

    with serving({"/slow": slow}) as listener, contextlib.ExitStack() as ends:
        clients = [ends.enter_context(connected(listener)) for _ in range(http_server._WORKERS + 1)]
        try:
            for client in clients:
                client.sendall(b"GET /slow HTTP/1.0\r\n\r\n")
            for _ in range(http_server._WORKERS):
                assert began.acquire(timeout=5)
            assert get(listener, "/healthz").endswith(b"\r\n\r\nfine\n")
            assert get(listener, "/healthz?verbose=1").endswith(b"\r\n\r\nfine\n")
        finally:
            going_on.set()
        for client in clients:
            assert client.makefile("rb").read().endswith(b"\r\n\r\nfine\n")


@pytest.mark.parametrize("path", ["/healthz", "/made"])
def test_the_answer_to_head_has_the_length_of_the_page_and_not_its_text(path):
    with serving({"/made": fine}) as listener:
        head = answer(listener, f"HEAD {path} HTTP/1.0\r\n\r\n".encode())
        assert get(listener, path) == head + b"fine\n"
    assert head.startswith(b"HTTP/1.0 200 OK\r\n")
    assert b"\r\nContent-Length: 5\r\n" in head


def test_the_longest_prefix_of_a_path_is_its_route():
    def route(name):
        return lambda query: http_server.Page("text/plain", f"{name}: {query['path']}".encode())

    with serving({"/a/": route("short"), "/a/long/": route("long")}) as listener:
        assert get(listener, "/a/long/x").endswith(b"\r\n\r\nlong: x")
        assert get(listener, "/a/lon/x").endswith(b"\r\n\r\nshort: lon/x")


def test_a_head_of_8192_bytes_is_complete_or_refused_at_once():
    begin, end = b"GET /healthz HTTP/1.0\r\nX: ", b"\r\n\r\n"
    most = begin.ljust(8192 - len(end), b"x") + end
    assert len(most) == 8192
    with serving() as listener:
        assert answer(listener, most).startswith(b"HTTP/1.0 200 ")
        assert answer(listener, begin.ljust(8192, b"x")).startswith(b"HTTP/1.0 431 ")
        with connected(listener) as client:
            client.sendall(begin.ljust(8192 - len(end), b"x"))
            until(lambda: listener.waiting)
            assert answer(listener, most).startswith(b"HTTP/1.0 200 ")
            client.sendall(end)
            assert client.makefile("rb").read().startswith(b"HTTP/1.0 200 ")


@pytest.mark.parametrize(
    ("request_", "status", "reason"),
    [
        (b"\r\n\r\n", 400, b"not an HTTP request\n"),
        (b"hello\r\n\r\n", 400, b"not an HTTP request\n"),
        (b"DELETE /healthz HTTP/1.0\r\n\r\n", 501, b"want GET\n"),
        (b"GET / HTTP/1.0\r\nX: ".ljust(8192, b"x"), 431, b"the head of the request has more than 8192 bytes\n"),
        (b"GET /other HTTP/1.0\r\n\r\n", 404, b"no such page; there are: /healthz\n"),
    ],
)
def test_a_refusal_states_its_reason(request_, status, reason):
    with serving() as listener:
        head, _, body = answer(listener, request_).partition(b"\r\n\r\n")
    assert head.startswith(f"HTTP/1.0 {status} ".encode())
    assert body == reason


def test_a_request_without_any_line_is_refused_at_once():
    with serving() as listener:
        assert answer(listener, b"\r\n\r\n").startswith(b"HTTP/1.0 4")


def test_a_client_that_leaves_before_its_request_takes_no_place():
    with serving() as listener:
        with connected(listener) as client:
            client.sendall(b"GET ")
            until(lambda: listener.waiting)
        until(lambda: not listener.waiting)


def test_a_client_that_has_read_its_answer_and_closes_takes_no_place():
    with serving() as listener:
        assert get(listener, "/healthz")
        until(lambda: not listener.answering)


def test_a_client_that_keeps_its_answered_connection_is_closed_for_a_newer_one(monkeypatch):
    monkeypatch.setattr(http_server, "MOST_ANSWERING", 2)
    with serving() as listener, contextlib.ExitStack() as ends:
        oldest, second, third = (ends.enter_context(connected(listener)) for _ in range(3))
        for client in (oldest, second):
            client.sendall(b"GET /healthz HTTP/1.0\r\n\r\n")
            assert client.makefile("rb").read().endswith(b"fine\n")
        (first, kept) = listener.answering
        third.sendall(b"GET /healthz HTTP/1.0\r\n\r\n")
        assert third.makefile("rb").read().endswith(b"fine\n")
        assert kept in listener.answering
        assert first not in listener.answering
        assert len(listener.answering) == 2
        assert not listener.waiting
        until(lambda: is_reset(oldest))


def test_a_lost_client_is_logged_for_debugging_and_a_served_one_is_not(caplog):
    caplog.set_level(logging.DEBUG, http_server.__name__)
    with serving() as listener:
        assert get(listener, "/healthz")
        until(lambda: not listener.answering)
        assert not caplog.records
        client = connected(listener)
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        until(lambda: listener.waiting)
        client.close()  # resets the connection
        until(lambda: not listener.waiting)
        until(lambda: caplog.records)
    (line,) = caplog.records
    assert line.levelno == logging.DEBUG
    assert line.getMessage().startswith("a client is gone: [Errno 104]")


def test_clients_wait_in_the_queue_of_the_kernel_while_the_thread_is_busy():
    busy, going_on = threading.Event(), threading.Event()

    def blocking(_query):
        busy.set()
        assert going_on.wait(30)
        return fine({})

    routes = {"/block": blocking}
    with serving(routes, instant=frozenset({"/healthz", "/block"})) as listener, contextlib.ExitStack() as ends:
        try:
            clients = [ends.enter_context(connected(listener))]
            clients[0].sendall(b"GET /block HTTP/1.0\r\n\r\n")
            assert busy.wait(5)
            for _ in range(100):
                clients.append(ends.enter_context(connected(listener)))
                clients[-1].sendall(b"GET /healthz HTTP/1.0\r\n\r\n")
        finally:
            going_on.set()
        answers = [client.makefile("rb").read() for client in clients]
    assert all(each.endswith(b"\r\n\r\nfine\n") for each in answers)


def test_little_of_a_page_that_its_client_does_not_read_is_in_memory():
    piece, pieces = b"x" * 16384, 1000
    made = []

    def body():
        for number in range(pieces):
            made.append(number)
            yield piece

    def page(_query):
        return http_server.Page("text/plain", body())

    def is_paused():
        before = len(made)
        return all(get(listener, "/other") for _ in range(20)) and before == len(made) > 0

    with serving({"/large": page, "/other": fine}) as listener, socket.socket() as client:
        assert get(listener, "/healthz")  # the thread has set the buffers of connections from now on
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.settimeout(5)
        client.connect(listener.socket.getsockname())
        client.sendall(b"GET /large HTTP/1.0\r\n\r\n")
        until(is_paused)
        assert len(made) * len(piece) < 2**19
        connection = next(iter(listener.answering))  # the oldest
        assert 0 < connection._transport.get_write_buffer_size() <= len(piece)
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2**20)
        text = client.makefile("rb").read()
    assert text.partition(b"\r\n\r\n")[2] == piece * pieces


def test_an_endpoint_is_stopped_once_and_frees_its_port():
    endpoint = http_endpoint.HttpEndpoint(
        "127.0.0.1",
        0,
        health=lambda: FINE,
        ready=lambda: FINE,
        registry=prometheus_client.CollectorRegistry(),
    )
    endpoint.stop()  # of one that was not started nothing is stopped
    endpoint.start()
    endpoint.stop()
    endpoint.stop()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", endpoint.port), timeout=5)
