import contextlib
import json
import pathlib
import resource
import select
import socket
import subprocess
import sys
import threading
import time
import types
import urllib.error
import urllib.request

import prometheus_client
import psutil
import pytest
from prometheus_client.metrics_core import GaugeMetricFamily

from component_base import gauge_rows, http_endpoint

pytestmark = pytest.mark.slow


@contextlib.contextmanager
def serving(*, ok=True, routes=None):
    registry = prometheus_client.CollectorRegistry()
    prometheus_client.Counter("made", "Things made.", registry=registry).inc(3)
    endpoint = http_endpoint.HttpEndpoint(
        "127.0.0.1",
        0,
        health=lambda: http_endpoint.ProbeResult(ok, "last tick 0.1 s ago"),
        ready=lambda: http_endpoint.ProbeResult(not ok, "waiting for pods"),
        registry=registry,
        routes=routes,
    )
    endpoint.start()
    try:
        yield endpoint
    finally:
        endpoint.stop()


def fetch(endpoint, path):
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{endpoint.port}{path}", timeout=5) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


def answer(endpoint, request):
    with socket.create_connection(("127.0.0.1", endpoint.port), timeout=5) as client:
        client.sendall(request)
        return client.makefile("rb").read()


def test_probes_return_a_status_and_a_reason():
    with serving(ok=True) as endpoint:
        assert fetch(endpoint, "/healthz") == (200, "last tick 0.1 s ago\n")
        assert fetch(endpoint, "/readyz") == (503, "waiting for pods\n")


def test_metrics_are_those_of_the_registry():
    with serving() as endpoint:
        status, text = fetch(endpoint, "/metrics")
    assert status == 200
    assert "made_total 3.0" in text


def test_a_route_ending_in_a_slash_gets_the_rest_of_the_path():
    with serving(routes={"/debug/nodes/": lambda query: http_endpoint.json_page(dict(query))}) as endpoint:
        status, text = fetch(endpoint, "/debug/nodes/a%20b?depth=2")
    assert status == 200
    assert '"path": "a b"' in text
    assert '"depth": "2"' in text


def test_a_failing_page_is_an_internal_error_and_the_server_goes_on(caplog):
    with serving(routes={"/debug": lambda _query: 1 / 0}) as endpoint:
        assert fetch(endpoint, "/debug")[0] == 500
        assert fetch(endpoint, "/healthz")[0] == 200
    assert "the page /debug failed" in caplog.text


def test_an_unknown_page_lists_the_known_ones():
    with serving() as endpoint:
        assert fetch(endpoint, "/nothing") == (404, "no such page; there are: /healthz /metrics /readyz\n")


def test_the_longest_prefix_of_a_path_is_its_route():
    routes = {
        "/a/": lambda _query: http_endpoint.json_page("short"),
        "/a/b/": lambda query: http_endpoint.json_page(f"long {query['path']}"),
    }
    with serving(routes=routes) as endpoint:
        assert [fetch(endpoint, path)[1] for path in ("/a/b/c", "/a/c")] == ['"long c"\n', '"short"\n']


@pytest.mark.parametrize(
    ("head", "status", "text"),
    [
        (b"GET / HTTP/1.0\r\nX: " + b"x" * 8192, b"431 ", b"more than 8192 bytes\n"),
        (b"hello\r\n\r\n", b"400 ", b"Bad request syntax ('hello')\n"),
        (b"GET http://[bad HTTP/1.1\r\n\r\n", b"400 ", b"not a URL: Invalid IPv6 URL\n"),
        (b"DELETE /healthz HTTP/1.0\r\n\r\n", b"501 ", b"Unsupported method ('DELETE')\n"),
    ],
)
def test_what_is_not_a_request_for_a_page_is_answered_with_the_reason(head, status, text):
    with serving() as endpoint:
        refusal = answer(endpoint, head)
        assert fetch(endpoint, "/healthz")[0] == 200
    assert refusal.startswith(b"HTTP/1.0 " + status)
    assert refusal.endswith(text)


def test_the_answer_to_head_has_the_length_of_the_page_and_not_its_text():
    with serving() as endpoint:
        head = answer(endpoint, b"HEAD /healthz HTTP/1.0\r\n\r\n")
    assert b"Content-Length: 20\r\n" in head
    assert head.endswith(b"\r\n\r\n")


@pytest.mark.parametrize("rest", [1, 3])
def test_a_head_may_arrive_in_pieces(rest):
    head = b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"
    with serving() as endpoint, socket.create_connection(("127.0.0.1", endpoint.port), timeout=5) as client:
        client.sendall(head[:-rest])
        time.sleep(0.1)
        client.sendall(head[-rest:])
        assert b" 200 OK" in client.recv(1000)


def test_a_half_closed_client_gets_its_whole_answer():
    with serving() as endpoint, socket.create_connection(("127.0.0.1", endpoint.port), timeout=30) as client:
        client.sendall(b"POST /metrics HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc")
        client.shutdown(socket.SHUT_WR)
        assert b"\nmade_total 3.0\n" in client.makefile("rb").read()


def test_a_taken_port_is_named():
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        holder.listen()
        port = holder.getsockname()[1]
        probe = http_endpoint.ProbeResult(True, "")
        endpoint = http_endpoint.HttpEndpoint(
            "127.0.0.1",
            port,
            health=lambda: probe,
            ready=lambda: probe,
            registry=prometheus_client.CollectorRegistry(),
        )
        with pytest.raises(http_endpoint.CannotListen, match=f"127.0.0.1:{port}"):
            endpoint.start()


def test_a_stopped_endpoint_leaves_no_thread_and_no_port_behind():
    with serving() as endpoint:
        assert fetch(endpoint, "/healthz")[0] == 200
        port = endpoint.port
    assert "http-endpoint" not in {thread.name for thread in threading.enumerate()}
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port), timeout=5)


def test_one_connection_too_many_closes_the_oldest():
    with serving() as endpoint, contextlib.ExitStack() as ends:
        address = ("127.0.0.1", endpoint.port)
        clients = [
            ends.enter_context(socket.create_connection(address, timeout=5))
            for _ in range(http_endpoint.MOST_CONNECTIONS)
        ]
        assert fetch(endpoint, "/healthz")[0] == 200
        with contextlib.suppress(ConnectionResetError):
            assert clients[0].recv(1) == b""
        clients[-1].sendall(b"GET /healthz HTTP/1.0\r\n\r\n")
        assert clients[-1].makefile("rb").read().endswith(b"last tick 0.1 s ago\n")


@contextlib.contextmanager
def serving_debug_pages(debug_routes):
    result = http_endpoint.ProbeResult(True, "fine")
    endpoint = http_endpoint.HttpEndpoint(
        "::",
        0,
        health=lambda: result,
        ready=lambda: result,
        registry=prometheus_client.CollectorRegistry(),
        debug_routes=debug_routes,
    )
    endpoint.start()
    try:
        yield endpoint
    finally:
        endpoint.stop()


@contextlib.contextmanager
def asking_for_debug_page(pieces):
    routes = {"/debug/x": lambda _query: http_endpoint.Page("text/plain", pieces)}
    with (
        serving_debug_pages(routes) as endpoint,
        socket.create_connection(("127.0.0.1", endpoint.debug_port), timeout=30) as client,
    ):
        client.sendall(b"GET /debug/x HTTP/1.0\r\n\r\n")
        yield client


def addresses_of(port):
    """Return the local addresses that listen on a port, as the kernel lists them."""
    found = set()
    for table in ("tcp", "tcp6"):
        for line in pathlib.Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
            _slot, local, _remote, state, *_rest = line.split()
            address, _, hexadecimal = local.partition(":")
            if state == "0A" and int(hexadecimal, 16) == port:
                found.add(address)
    return found


def test_debug_pages_are_on_loopback_only_also_where_probes_are_on_every_address():
    with serving_debug_pages({"/debug/x": lambda _query: http_endpoint.json_page({"a": 1})}) as endpoint:
        address = f"http://127.0.0.1:{endpoint.debug_port}"
        with urllib.request.urlopen(f"{address}/debug/x", timeout=5) as answer:
            assert json.loads(answer.read()) == {"a": 1}
        assert fetch(endpoint, "/debug/x")[0] == 404
        assert fetch(endpoint, "/healthz")[0] == 200
        assert addresses_of(endpoint.debug_port) == {"0100007F"}
        assert addresses_of(endpoint.port) <= {"00000000", "0" * 32}


def test_a_streamed_page_is_made_only_as_far_as_its_client_reads():
    made = []

    def pieces():
        for number in range(1000):
            made.append(number)
            yield b"x" * 65536

    with asking_for_debug_page(pieces()) as client:
        assert client.recv(100)
        last = -1
        while not made or made[-1] != last:
            last = max(made, default=-1)
            time.sleep(0.2)
        assert last < 500, "stopped by the buffers of the kernel"
        assert len(client.makefile("rb").read()) > 999 * 65536
    assert len(made) == 1000


def test_a_page_that_fails_on_its_way_resets_the_connection(caplog):
    def pieces():
        yield b"a part"
        raise RuntimeError("lost")

    with asking_for_debug_page(pieces()) as client, pytest.raises(ConnectionResetError):
        client.makefile("rb").read()
    assert "the page /debug/x failed on its way" in caplog.text


def test_an_endpoint_that_cannot_open_its_debug_port_leaves_the_other_one_free():
    with socket.create_server(("127.0.0.1", 0)) as holder:
        endpoint = http_endpoint.HttpEndpoint(
            "127.0.0.1",
            0,
            health=lambda: http_endpoint.ProbeResult(True, "fine"),
            ready=lambda: http_endpoint.ProbeResult(True, "fine"),
            registry=prometheus_client.CollectorRegistry(),
            debug_port=holder.getsockname()[1],
            debug_routes={"/debug/x": lambda _query: http_endpoint.json_page(1)},
        )
        with pytest.raises(http_endpoint.CannotListen, match="debug pages") as refused:
            endpoint.start()
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", endpoint.port), timeout=5)
    assert str(endpoint.debug_port) in str(refused.value)


def test_stops_while_clients_are_connected_and_pages_are_made():
    going_on = threading.Event()
    with serving(routes={"/slow": lambda _query: going_on.wait(30) and http_endpoint.json_page(1)}) as endpoint:
        clients = [socket.create_connection(("127.0.0.1", endpoint.port), timeout=30) for _ in range(3)]
        clients[1].sendall(b"GET /slow HTTP/1.0\r\n\r\n")
        clients[2].sendall(b"GET /metrics HTTP/1.0\r\n\r\n")
        assert clients[2].recv(10) == b"HTTP/1.0 2"
    going_on.set()
    for client in clients:
        with contextlib.suppress(ConnectionResetError):
            while client.recv(100_000):
                pass
        client.close()


class LargeCollector:
    def __init__(self):
        self.collected = 0

    def collect(self):
        self.collected += 1
        metric = GaugeMetricFamily("value", "A value.", labels=["node"])
        for number in range(20_000):
            metric.add_metric([f"node-{number}"], number)
        yield metric


def test_many_scrapes_at_once_are_a_few_makings_of_the_metrics():
    registry, collector = prometheus_client.CollectorRegistry(), LargeCollector()
    registry.register(collector)
    before = collector.collected
    page = http_endpoint._Metrics(registry)
    bodies = [page({}).body for _ in range(50)]
    assert collector.collected - before <= 5
    assert len(bodies[0]) > 400_000


def test_large_json_is_made_in_pieces_that_are_one_document():
    value = ["x" * 1000] * 200  # three pieces and a rest
    pieces = list(http_endpoint.json_page(value).body)
    line = '  "' + "x" * 1000 + '"'
    assert b"".join(pieces).decode() == "[\n" + ",\n".join([line] * 200) + "\n]\n"
    assert len(pieces) == 4


@pytest.mark.parametrize("began_at", [0.0, 5000.0])
def test_metrics_are_made_again_after_nine_times_the_cpu_time_of_their_making(monkeypatch, began_at):
    now = types.SimpleNamespace(seconds=100.0, cpu=began_at)
    clocks = types.SimpleNamespace(monotonic=lambda: now.seconds, thread_time=lambda: now.cpu)
    monkeypatch.setattr(http_endpoint, "time", clocks)
    monkeypatch.setattr(http_endpoint, "_MOST_NEW_BYTES_PER_SECOND", float("inf"))
    made = []

    def page(_registry):
        now.cpu += 2.0
        made.append(1)
        return b"%d" % len(made)

    monkeypatch.setattr(gauge_rows, "page", page)
    metrics = http_endpoint._Metrics(prometheus_client.CollectorRegistry())
    for seconds, body in ((100.0, b"1"), (117.9, b"1"), (118.0, b"2"), (135.9, b"2"), (136.0, b"3")):
        now.seconds = seconds
        assert metrics({}).body == body, seconds


def test_metrics_that_cost_no_time_are_made_again_at_512_kib_a_second(monkeypatch):
    now = types.SimpleNamespace(seconds=100.0)
    clocks = types.SimpleNamespace(monotonic=lambda: now.seconds, thread_time=lambda: 7.0)
    monkeypatch.setattr(http_endpoint, "time", clocks)
    made = iter((b"a" * 2**20, b"b"))
    monkeypatch.setattr(gauge_rows, "page", lambda _registry: next(made))
    metrics = http_endpoint._Metrics(prometheus_client.CollectorRegistry())
    for seconds, begin in ((100.0, b"a"), (101.9, b"a"), (102.0, b"b")):
        now.seconds = seconds
        assert metrics({}).body[:1] == begin, seconds


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
for number in range({series}):
    gauge.labels(f"node-{{number:05}}").set(number)
result = http_endpoint.ProbeResult(True, "fine")
endpoint = http_endpoint.HttpEndpoint("::", 0, health=lambda: result, ready=lambda: result, registry=registry)
endpoint.start()
print(endpoint.port, flush=True)
sys.stdin.read()
endpoint.stop()
"""


class Process:
    """A server in a process of its own, so that its memory and its descriptors are its own."""

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
def process(folder, *, seconds=3.0, descriptors=0, series=20_000):
    log = folder / "log"
    command = [sys.executable, "-c", SERVER.format(seconds=seconds, descriptors=descriptors, series=series)]
    with log.open("w") as written:
        child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=written, text=True)
    try:
        yield Process(child, log)
    finally:
        child.communicate(timeout=30)


@pytest.fixture
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


@pytest.mark.usefixtures("_many_descriptors")
def test_thousands_of_slow_clients_are_all_closed_and_cost_little_while_probes_are_answered(tmp_path):
    assert http_endpoint._REQUEST_SECONDS <= 15
    with process(tmp_path, series=3000) as server, clients_of(server) as clients:
        assert server.probe() == b"fine\n"
        assert len(server.metrics()) > 50_000, "as those of an agent: making them costs memory for a moment"
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
        assert server.process.num_threads() <= 2 * http_endpoint.MOST_CONNECTIONS + 8
        assert b"node-02999" in server.metrics()
    assert server.log() == ""


@pytest.mark.usefixtures("_many_descriptors")
def test_out_of_descriptors_it_waits_for_one_instead_of_turning(tmp_path):
    with process(tmp_path, seconds=1.5, descriptors=25) as server, clients_of(server) as clients:
        assert server.probe() == b"fine\n"
        for _ in range(60):
            clients.connect(b"")
        before = sum(server.process.cpu_times()[:2])
        while clients.open:
            clients.drip()
            time.sleep(0.1)
        assert server.probe() == b"fine\n"
        used = sum(server.process.cpu_times()[:2]) - before
        assert used < 0.5, "seconds of CPU, in at least one and a half of the clock"
    (line,) = server.log().splitlines()
    assert "cannot accept clients: [Errno 24] Too many open files" in line


def test_a_client_that_hangs_up_leaves_no_traceback(tmp_path):
    with process(tmp_path) as server:
        for _ in range(20):
            client = socket.create_connection(("127.0.0.1", server.port), timeout=10)
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\x00\x00\x00\x00\x00\x00\x00")
            client.send(OPENINGS["never reads the answer"])
            client.close()  # resets the connection
        assert server.probe() == b"fine\n"
    assert server.log() == ""
