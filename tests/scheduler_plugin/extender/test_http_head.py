"""Heads of HTTP requests, by RFC 9112."""

import pytest

from scheduler_plugin.extender import http_head
from scheduler_plugin.extender.http_head import BadHead

FIRST = "POST /filter HTTP/1.1\r\nHost: x\r\n"


def parse(text):
    return http_head.parse(text.encode("latin-1"), 100)


@pytest.mark.parametrize(
    ("text", "keep_alive"),
    [
        (FIRST + "Content-Length: 2", True),
        (FIRST + "Content-Length: 2\r\nConnection: close", False),
        (FIRST + "Content-Length: 2\r\nConnection: Keep-Alive, Close", False),
        ("POST /filter HTTP/1.0\r\nContent-Length: 2", False),
        ("POST /filter HTTP/1.0\r\nContent-Length: 2\r\nConnection: keep-alive", True),
    ],
)
def test_a_connection_stays_open_unless_a_token_or_the_version_closes_it(text, keep_alive):
    assert parse(text).keep_alive is keep_alive


@pytest.mark.parametrize(
    "text",
    [
        "POST /filter HTTP/1.1\r\nContent-Length: 2",  # no host
        FIRST + "Host: y\r\nContent-Length: 2",
        FIRST + "Content-Length: 2\r\nContent-Length: 3",
        FIRST + "Content-Length : 2",
        FIRST + "X: a\r\n folded\r\nContent-Length: 2",
        FIRST + "X: \0\r\nContent-Length: 2",
        FIRST + ": empty",
        FIRST + "Content-Length: +2",
        FIRST + "Content-Length: 1_0",
        "POST http://[::1/filter HTTP/1.1\r\nHost: x\r\nContent-Length: 0",
        "POST /filter HTTP/2\r\nHost: x",
    ],
)
def test_a_malformed_head_is_refused(text):
    with pytest.raises(BadHead) as refused:
        parse(text)
    assert refused.value.status == 400


@pytest.mark.parametrize(
    ("text", "status"),
    [(FIRST, 411), (FIRST + "Transfer-Encoding: chunked", 411), (FIRST + "Content-Length: 101", 413)],
)
def test_a_body_without_a_known_end_or_too_large_is_refused(text, status):
    with pytest.raises(BadHead) as refused:
        parse(text.removesuffix("\r\n"))
    assert refused.value.status == status
