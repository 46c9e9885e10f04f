"""A watch of a benchmark goes on after it was quiet, after it was ended, and after its version was compacted."""

import contextlib
import http.server
import json
import threading
from urllib.parse import parse_qs, urlsplit

import msgspec
import pytest

from tools.localcluster import apiserver_requests
from tools.localcluster.apiserver_requests import PlainConnection


class Seen(msgspec.Struct):
    name: str


def line(name, version, kind="ADDED"):
    return (
        json.dumps({"type": kind, "object": {"name": name, "metadata": {"resourceVersion": version}}}).encode() + b"\n"
    )


EXPIRED = b'{"type":"ERROR","object":{"kind":"Status","code":410}}\n'
QUIET = b""
"""The server sends nothing more, and keeps the connection."""


@pytest.fixture
def server():
    asked, answers, end = [], [], threading.Event()

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            asked.append(parse_qs(urlsplit(self.path).query)["resourceVersion"][0])
            self.send_response(200)
            self.end_headers()
            for part in answers[len(asked) - 1] if len(asked) <= len(answers) else (QUIET,):
                self.wfile.write(part)
                self.wfile.flush()
                if part == QUIET:
                    end.wait(30)

        def log_message(self, *_):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as made:
        made.daemon_threads = True
        thread = threading.Thread(target=made.serve_forever)
        thread.start()
        yield made, asked, answers
        end.set()
        made.shutdown()
        thread.join()


def followed(server, answers, wanted):
    """Watch until an object of this name was seen; return all names, and the versions that were asked for."""
    made, asked, scripted = server
    scripted += answers
    found, arrived = [], threading.Event()

    def see(item):
        found.append(item.name)
        if item.name == wanted:
            arrived.set()

    def connect():
        made_connection = PlainConnection(made.server_address[1])
        made_connection._http.timeout = 0.2
        return made_connection

    apiserver_requests.follow(connect, "/watched", Seen, see)
    assert arrived.wait(30), (found, asked)
    return found, asked[: len(answers)]


def test_a_quiet_watch_is_resumed_where_it_was(server):
    answers = [(line("a", "5"), QUIET), (line("b", "6", "MODIFIED"),)]
    assert followed(server, answers, "b") == (["a", "b"], ["0", "5"])


def test_a_watch_that_ends_is_resumed_where_it_was(server):
    answers = [(line("a", "5"), line("x", "6", "BOOKMARK")), (line("b", "7"),)]
    assert followed(server, answers, "b") == (["a", "b"], ["0", "6"])


def test_a_version_that_is_too_old_means_everything_again(server):
    answers = [(line("a", "5"),), (EXPIRED,), (line("a", "9"), line("b", "9"))]
    assert followed(server, answers, "b") == (["a", "a", "b"], ["0", "5", "0"])


def test_a_plain_connection_raises_the_status_of_an_error(server):
    made, _, _ = server
    with contextlib.closing(PlainConnection(made.server_address[1])) as api:
        with pytest.raises(apiserver_requests.RequestError) as refused:
            api.raw("POST", "/watched", b"{}")
        assert refused.value.status == 501
