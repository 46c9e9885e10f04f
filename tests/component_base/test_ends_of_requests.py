"""A request that is only an empty line, and a client that closes its side before it has read the answer."""

import socket

import pytest

from component_base import http_server
from tests.component_base.serving import answer, serving, until

BODY = b"x" * 40_000
"""More than the client's socket takes and less than that of the server: the kernel keeps a part."""


ROUTES = {
    path: lambda _query, body=body: http_server.Page("text/plain; charset=utf-8", body)
    for path, body in {"/long": BODY, "/short": b"short"}.items()
}


def slow_client(listener):
    client = socket.socket()
    client.settimeout(5)
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
    client.connect(listener.socket.getsockname())
    return client


def test_an_empty_line_is_not_a_head_that_is_too_long():
    with serving(ROUTES, instant=frozenset(ROUTES)) as listener:
        assert answer(listener, b"\r\n\r\n").startswith(b"HTTP/1.0 400 Bad Request\r\n")


def test_a_client_that_has_sent_everything_keeps_its_answer_within_the_bound_until_it_has_read():
    with serving(ROUTES, instant=frozenset(ROUTES)) as listener, slow_client(listener) as client:
        client.sendall(b"GET /long HTTP/1.0\r\n\r\n")
        until(lambda: len(listener.answering) == 1)
        (connection,) = listener.answering
        client.shutdown(socket.SHUT_WR)
        for _ in range(30):  # more turns of the loop than the server needs to notice it
            assert answer(listener, b"GET /short HTTP/1.0\r\n\r\n").endswith(b"short")
        assert connection in listener.answering
        assert client.makefile("rb").read().endswith(b"\r\n\r\n" + BODY)


def test_a_client_that_closes_its_side_within_its_request_is_closed_at_once():
    with serving(ROUTES, instant=frozenset(ROUTES)) as listener, slow_client(listener) as client:
        client.sendall(b"GET /long HT")
        until(lambda: len(listener.waiting) == 1)
        client.shutdown(socket.SHUT_WR)
        assert client.recv(1) == b""
        until(lambda: not listener.waiting)


@pytest.mark.parametrize("apart", [1, 2, 3, 4])
def test_the_end_of_a_head_may_arrive_in_two_pieces(apart):
    request = b"GET /short HTTP/1.0\r\n\r\n"
    with serving(ROUTES, instant=frozenset(ROUTES)) as listener, slow_client(listener) as client:
        client.sendall(request[:-apart])
        until(lambda: [len(each._head) for each in listener.waiting] == [len(request) - apart])
        client.sendall(request[-apart:])
        assert client.makefile("rb").read().endswith(b"\r\n\r\nshort")
