import asyncio
import contextlib
import gc
import json
import pathlib
import socket
import threading
import time
import urllib.error
import urllib.request

import prometheus_client
import pytest
from prometheus_client.metrics_core import GaugeMetricFamily

from component_base import http_endpoint, http_server


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


def test_probes_return_a_status_and_a_reason():
    with serving(ok=True) as endpoint:
        assert fetch(endpoint, "/healthz") == (200, "last tick 0.1 s ago\n")
        assert fetch(endpoint, "/readyz") == (503, "waiting for pods\n")


def test_metrics_are_those_of_the_registry():
    with serving() as endpoint:
        status, text = fetch(endpoint, "/metrics")
    assert status == 200
    assert "made_total 3.0" in text


def test_a_parameter_called_path_does_not_replace_the_path():
    with serving(routes={"/debug/nodes/": lambda query: http_endpoint.json_page(dict(query))}) as endpoint:
        _status, text = fetch(endpoint, "/debug/nodes/a?path=b")
    assert '"path": "a"' in text


def test_answers_a_malformed_url_with_400():
    with serving() as endpoint, socket.create_connection(("127.0.0.1", endpoint.port), timeout=5) as raw:
        raw.sendall(b"GET http://[bad HTTP/1.1\r\nHost: x\r\n\r\n")
        assert b"400 Bad Request" in raw.recv(1000)


@pytest.mark.parametrize("left", range(1, 6))
def test_the_end_of_a_head_is_found_wherever_it_is_cut(left):
    head = b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"
    with serving() as endpoint, socket.create_connection(("127.0.0.1", endpoint.port), timeout=5) as raw:
        raw.sendall(head[:-left])
        time.sleep(0.1)  # so that the rest comes in a piece of its own
        raw.sendall(head[-left:])
        assert b"200 OK" in raw.recv(1000)


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


@pytest.mark.parametrize("turns", range(12))
def test_a_client_accepted_just_before_the_stop_is_cut_off(turns):
    listener = socket.create_server(("127.0.0.1", 0))
    listener.setblocking(False)
    server = http_server.HttpServer([http_server.Listener(listener, {}, seconds=5.0)])

    async def connect_and_stop():
        serving = asyncio.create_task(server._serve())
        client = socket.create_connection(listener.getsockname(), timeout=5)
        for _ in range(turns):
            await asyncio.sleep(0)
        server._stopping.set()
        await serving
        return client

    with contextlib.closing(server._loop):
        client = server._loop.run_until_complete(connect_and_stop())
    with client:
        gc.collect()  # a socket that is left open is a warning, and a warning an error
        with contextlib.suppress(ConnectionResetError):
            assert client.recv(1) == b""


def test_can_be_stopped_before_the_first_request():
    with serving() as endpoint:
        pass
    endpoint.stop()


def test_a_hundred_clients_that_connect_at_the_same_moment_are_all_answered():
    with serving() as endpoint, contextlib.ExitStack() as ends:
        clients = [ends.enter_context(socket.socket()) for _ in range(100)]
        for client in clients:
            client.setblocking(False)
            client.connect_ex(("127.0.0.1", endpoint.port))
        for client in clients:
            client.settimeout(5)
            client.sendall(b"GET /healthz HTTP/1.0\r\n\r\n")
        answers = [client.makefile("rb").readline() for client in clients]
    assert answers == [b"HTTP/1.0 200 OK\r\n"] * 100


def transports():
    return sum(isinstance(each, asyncio.Transport) for each in gc.get_objects())


def test_a_closed_connection_is_freed_without_a_collection():
    with serving() as endpoint:
        gc.collect()
        gc.disable()
        try:
            before = transports()
            for _ in range(20):
                assert fetch(endpoint, "/metrics")[0] == 200
                with socket.create_connection(("127.0.0.1", endpoint.port), timeout=5) as slow:
                    slow.sendall(b"GET ")
            deadline = time.monotonic() + 10
            while transports() > before and time.monotonic() < deadline:
                time.sleep(0.01)
            assert transports() == before
        finally:
            gc.enable()


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


def test_a_half_closed_client_gets_its_whole_answer():
    with serving() as endpoint, socket.create_connection(("127.0.0.1", endpoint.port), timeout=30) as client:
        client.sendall(b"POST /metrics HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc")
        client.shutdown(socket.SHUT_WR)
        assert b"\nmade_total 3.0\n" in client.makefile("rb").read()


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
