"""The server of probes and metrics among thousands of clients that mean harm or are merely slow.

It runs in a process of its own, so that its memory and its descriptors are its own.
"""

import contextlib
import resource
import select
import socket
import subprocess
import sys
import time
import urllib.request

import psutil
import pytest

from component_base import http_endpoint

CLIENTS = 3000
SERVER = """
import logging, resource, sys, threading
import prometheus_client
from component_base import http_endpoint, logs
logs.configure(logs.LogFormat.JSON, logs.LogLevel.INFO)
http_endpoint._REQUEST_SECONDS = {seconds}
if {descriptors}:
    resource.setrlimit(resource.RLIMIT_NOFILE, ({descriptors}, {descriptors}))
registry = prometheus_client.CollectorRegistry()
gauge = prometheus_client.Gauge("value", "A value.", ["node"], registry=registry)
for number in range(20000):
    gauge.labels(f"node-{{number:05}}").set(number)
result = http_endpoint.ProbeResult(True, "fine")
endpoint = http_endpoint.HttpEndpoint("::", 0, health=lambda: result, ready=lambda: result, registry=registry)
endpoint.start()
print(endpoint.port, flush=True)
sys.stdin.read()
endpoint.stop()
"""


class Server:
    def __init__(self, child, log):
        self.port = int(child.stdout.readline())
        self.process = psutil.Process(child.pid)
        self._log = log

    def probe(self):
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/healthz", timeout=10) as answer:
            return answer.read()

    def metrics(self):
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/metrics", timeout=30) as answer:
            return answer.read()

    def rss_mebibytes(self):
        return self.process.memory_info().rss / 2**20

    def log(self):
        return self._log.read_text()


@contextlib.contextmanager
def serving(folder, *, seconds=3.0, descriptors=0):
    log = folder / "log"
    command = [sys.executable, "-c", SERVER.format(seconds=seconds, descriptors=descriptors)]
    with log.open("w") as written:
        child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=written, text=True)
    try:
        yield Server(child, log)
    finally:
        child.communicate(timeout=30)


@pytest.fixture(autouse=True)
def _many_descriptors():
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 2 * CLIENTS
    if hard != resource.RLIM_INFINITY and hard < wanted:
        pytest.skip(f"needs {wanted} descriptors, this machine allows {hard}")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, wanted), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


OPENINGS = {
    "says nothing": b"",
    "drips a header": b"GET /metrics HTTP/1.0\r\nX: ",
    "sends half a line": b"GET /heal",
    "sends an endless header": b"GET / HTTP/1.0\r\nX: " + b"x" * 8000,
    "never reads the answer": b"GET /metrics HTTP/1.0\r\n\r\n",
    "sends many requests at once": b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n" * 100,
}


class Clients:
    """Open connections; those that the server closed are dropped."""

    def __init__(self, port):
        self.open = []
        self._port = port
        self._drips = set()

    def connect(self, opening):
        client = socket.socket()
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.settimeout(30)
        client.connect(("127.0.0.1", self._port))
        client.setblocking(False)
        with contextlib.suppress(OSError):
            client.send(opening)
        self.open.append(client)
        if b"X: " in opening:
            self._drips.add(client)

    def drip(self):
        """Send one more byte of each header, and drop the clients whose connection is over."""
        poll = select.poll()
        by_descriptor = {client.fileno(): client for client in self.open}
        for descriptor in by_descriptor:
            poll.register(descriptor, select.POLLRDHUP)
        over = {by_descriptor[descriptor] for descriptor, _events in poll.poll(0)}
        for client in self._drips - over:
            with contextlib.suppress(OSError):
                client.send(b"a")
        for client in over:
            client.close()
        self._drips -= over
        self.open = [client for client in self.open if client not in over]

    def close(self):
        for client in self.open:
            client.close()


@contextlib.contextmanager
def clients_of(server):
    clients = Clients(server.port)
    try:
        yield clients
    finally:
        clients.close()


def test_thousands_of_slow_clients_are_all_closed_and_cost_little_while_probes_are_answered(tmp_path):
    assert http_endpoint._REQUEST_SECONDS <= 15
    with serving(tmp_path) as server, clients_of(server) as clients:
        assert server.probe() == b"fine\n"
        assert len(server.metrics()) > 500_000
        before, most = server.rss_mebibytes(), 0.0
        for number in range(CLIENTS):
            clients.connect(list(OPENINGS.values())[number % len(OPENINGS)])
            if number % 200 == 0:
                assert server.probe() == b"fine\n"
                clients.drip()
                most = max(most, server.rss_mebibytes())
        while clients.open:
            assert server.probe() == b"fine\n"
            clients.drip()
            most = max(most, server.rss_mebibytes())
            time.sleep(0.1)
        assert most - before <= 16, "MiB"
        assert server.process.num_threads() <= 8
        assert b"node-19999" in server.metrics()
    assert server.log() == ""


@pytest.mark.parametrize("opening", OPENINGS.values(), ids=OPENINGS)
def test_each_kind_of_slow_client_is_closed(tmp_path, opening):
    with serving(tmp_path, seconds=1.0) as server, clients_of(server) as clients:
        clients.connect(opening)
        while clients.open:
            clients.drip()
            time.sleep(0.05)
        assert server.probe() == b"fine\n"


def test_out_of_descriptors_it_waits_for_one_instead_of_turning(tmp_path):
    with serving(tmp_path, seconds=3.0, descriptors=40) as server, clients_of(server) as clients:
        assert server.probe() == b"fine\n"
        for _ in range(60):
            clients.connect(b"")
        before = sum(server.process.cpu_times()[:2])
        while clients.open:
            clients.drip()
            time.sleep(0.1)
        assert server.probe() == b"fine\n"
        used = sum(server.process.cpu_times()[:2]) - before
        assert used < 1.0, "seconds of CPU, in at least three of the clock"
    (line,) = server.log().splitlines()
    assert "cannot accept clients: [Errno 24] Too many open files" in line


def test_a_client_that_hangs_up_leaves_no_traceback(tmp_path):
    with serving(tmp_path) as server:
        for _ in range(20):
            client = socket.create_connection(("127.0.0.1", server.port), timeout=10)
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\x00\x00\x00\x00\x00\x00\x00")
            client.send(OPENINGS["never reads the answer"])
            client.close()  # resets the connection
        assert server.probe() == b"fine\n"
    assert server.log() == ""


def test_many_scrapes_at_once_are_one_making_of_the_metrics(tmp_path):
    with serving(tmp_path, seconds=30.0) as server, clients_of(server) as clients:
        server.metrics()
        before = sum(server.process.cpu_times()[:2])
        server.metrics()
        time.sleep(1.5)
        server.metrics()
        of_two = sum(server.process.cpu_times()[:2]) - before
        for _ in range(50):
            clients.connect(OPENINGS["never reads the answer"])
        server.metrics()
        of_many = sum(server.process.cpu_times()[:2]) - before - of_two
        assert of_many <= 5 * of_two


@pytest.mark.skipif(not socket.has_ipv6, reason="no IPv6 on this machine")
def test_answers_on_ipv6_and_on_ipv4(tmp_path):
    with serving(tmp_path) as server:
        for address in ("[::1]", "127.0.0.1"):
            with urllib.request.urlopen(f"http://{address}:{server.port}/readyz", timeout=10) as answer:
                assert answer.read() == b"fine\n"
