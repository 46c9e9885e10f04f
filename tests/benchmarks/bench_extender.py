"""How long a filter and a prioritize call take: the extender, beside an echo of the same bytes and a naive extender.

    python -m tests.benchmarks.bench_extender [--rounds N]

Each server is a process of its own; one client sends over one keep-alive connection, as kube-scheduler does, and the
three take turns within each round. The echo does no work, so it is the floor of any server in Python.
"""

from __future__ import annotations

import argparse
import asyncio
import http.server
import json
import multiprocessing
import random
import socket
import statistics
import sys
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any

import msgspec
from prometheus_client import CollectorRegistry

from api_types import pods
from scheduler_plugin import configuration, extender_app, metrics, request_dispatch
from scheduler_plugin.cluster_state.node_metric_intake import NodeMetric
from scheduler_plugin.extender_server import ExtenderServer

NOW = 1_700_000_000.0
SIZES = (500, 5000)
CALLS = 40


def node_names(count: int) -> list[str]:
    return [f"node-pool-{index // 100:04d}-instance-{index:06d}-abcdef" for index in range(count)]


def node(name: str) -> dict[str, Any]:
    allocatable = {"cpu": "32", "memory": "131072Mi"}
    return {"metadata": {"name": name}, "status": {"allocatable": allocatable, "capacity": allocatable}}


def node_metric(name: str, pod_count: int = 30) -> dict[str, Any]:
    seed = random.Random(name)
    usage = {"cpu": f"{seed.randint(1000, 28000)}m", "memory": str(seed.randint(10, 100) * 2**30)}
    return {
        "metadata": {"name": name},
        "spec": {"metricCollectPolicy": {"reportIntervalSeconds": 60}},
        "status": {
            "updateTime": "2023-11-14T22:13:00Z",
            "nodeMetric": {"nodeUsage": {"resources": usage}},
            "podsMetric": [
                {
                    "namespace": "default",
                    "name": f"{name}-{index}",
                    "podUsage": {
                        "resources": {"cpu": f"{seed.randint(10, 900)}m", "memory": str(seed.randint(1, 2**30))}
                    },
                    "priority": "koord-prod",
                }
                for index in range(pod_count)
            ],
        },
    }


def pod(name: str) -> dict[str, Any]:
    container = {
        "image": "registry.example/app:v1",
        "env": [{"name": f"VARIABLE_{index}", "value": "value-" * 5} for index in range(24)],
        "resources": {"requests": {"cpu": "500m", "memory": "1Gi"}, "limits": {"cpu": "1", "memory": "2Gi"}},
    }
    return {
        "metadata": {"name": name, "namespace": "default", "uid": f"uid-{name}", "labels": {"app": "web"}},
        "spec": {"containers": [{"name": f"c{index}", **container} for index in range(2)], "priority": 9500},
        "status": {"phase": "Pending", "qosClass": "Burstable"},
    }


def serve_extender(port_to: Connection, names: list[str]) -> None:
    parts = extender_app.Parts(configuration.parse({}), notice_ttl_seconds=60)
    for name in names:
        parts.cluster.node_changed(msgspec.convert(node(name), pods.Node))
        parts.cluster.metric_changed(msgspec.convert(node_metric(name), NodeMetric))
    requests = metrics.RequestMetrics(CollectorRegistry())
    dispatch = request_dispatch.Dispatch(parts.extender, requests, list, lambda: NOW)

    async def serve() -> None:
        server = ExtenderServer("127.0.0.1", 0, dispatch, max_body_bytes=2**25)
        await server.start()
        port_to.send(server.port)
        await asyncio.Event().wait()

    asyncio.run(serve())


def serve_echo(port_to: Connection, names: list[str]) -> None:
    answers = {
        b"/filter": json.dumps({"NodeNames": names}).encode(),
        b"/prioritize": json.dumps([{"Host": name, "Score": 57} for name in names]).encode(),
    }
    listener = socket.create_server(("127.0.0.1", 0))
    port_to.send(listener.getsockname()[1])
    connection, _ = listener.accept()
    received = bytearray()
    while chunk := connection.recv(2**20):
        received += chunk
        head, found, body = received.partition(b"\r\n\r\n")
        if found and len(body) == int(head.lower().partition(b"content-length: ")[2].split(b"\r\n")[0]):
            answer = answers[bytes(head.split(b" ")[1])]
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(answer), answer))
            received.clear()


def serve_naive(port_to: Connection, names: list[str]) -> None:
    state = {name: (node(name), node_metric(name)) for name in names}

    def estimate(args: dict[str, Any]) -> tuple[float, float]:
        requests = [container["resources"]["requests"] for container in args["Pod"]["spec"]["containers"]]
        cpu = sum(int(request["cpu"][:-1]) for request in requests) * 0.85
        return cpu, sum(int(request["memory"][:-2]) * 2**30 for request in requests) * 0.7

    def used_and_total(own_cpu: float, own_memory: float, name: str) -> list[tuple[float, float]]:
        own, reported = state[name]
        usage = reported["status"]["nodeMetric"]["nodeUsage"]["resources"]
        cpu, memory = int(usage["cpu"][:-1]) + own_cpu, int(usage["memory"]) + own_memory
        total = own["status"]["allocatable"]
        return [(cpu, int(total["cpu"]) * 1000), (memory, int(total["memory"][:-2]) * 2**20)]

    def answer_to(path: str, args: dict[str, Any]) -> Any:
        own = estimate(args)
        loads = {name: used_and_total(*own, name) for name in args["NodeNames"]}
        if path == "/prioritize":
            scored = {name: sum(int((t - u) * 100 // t) for u, t in load) // 2 for name, load in loads.items()}
            return [{"Host": name, "Score": max(score, 0)} for name, score in scored.items()]
        hot = {
            name
            for name, ((cpu, cpus), (memory, memories)) in loads.items()
            if cpu > 0.65 * cpus or memory > 0.95 * memories
        }
        return {"NodeNames": [name for name in loads if name not in hot], "FailedNodes": dict.fromkeys(hot, "too hot")}

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def do_POST(self) -> None:
            args = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            answer = json.dumps(answer_to(self.path, args)).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *_args: Any) -> None:
            pass

    server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
    port_to.send(server.server_address[1])
    server.serve_forever()


class Client:
    """One keep-alive connection that sends as Go does: head and first part, then the rest."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port))
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def call(self, verb: str, body: bytes) -> tuple[float, bytes]:
        """Seconds from the first byte sent to the last received, and the answer."""
        head = (
            f"POST /{verb} HTTP/1.1\r\nHost: localhost\r\nUser-Agent: Go-http-client/1.1\r\n"
            f"Content-Length: {len(body)}\r\nContent-Type: application/json\r\nAccept-Encoding: gzip\r\n\r\n"
        ).encode()
        began = time.perf_counter()
        self._socket.sendall(head + body[: 4096 - len(head)])
        self._socket.sendall(body[4096 - len(head) :])
        received = bytearray(self._socket.recv(2**20))
        while (end := received.find(b"\r\n\r\n")) < 0:
            received += self._socket.recv(2**20)
        length = int(received[:end].lower().partition(b"content-length: ")[2].split(b"\r\n")[0])
        while len(received) < end + 4 + length:
            received += self._socket.recv(2**20)
        return time.perf_counter() - began, bytes(received[end + 4 :])


def one_pod(client: Client, name: str, names: list[str]) -> tuple[float, float]:
    """Seconds of filter and of prioritize for one pod, bodies as Go's encoder writes them."""
    head = b'{"Pod":%b,"Nodes":null,"NodeNames":' % msgspec.json.encode(pod(name))
    filtering, answer = client.call("filter", head + msgspec.json.encode(names) + b"}")
    passed = json.loads(answer)["NodeNames"]
    time.sleep(0.0005)  # the scheduler's own scoring lies between the calls
    prioritizing, _ = client.call("prioritize", head + msgspec.json.encode(passed) + b"}")
    return filtering, prioritizing


def measure(size: int, rounds: int) -> dict[str, dict[str, list[float]]]:
    """Seconds of every call by server and verb."""
    names = node_names(size)
    servers: dict[str, Callable[[Connection, list[str]], None]] = {
        "echo (floor)": serve_echo,
        "extender": serve_extender,
        "naive": serve_naive,
    }
    seconds: dict[str, dict[str, list[float]]] = {}
    clients: dict[str, Client] = {}
    processes = []
    for label, serve in servers.items():
        ours, theirs = multiprocessing.Pipe()
        process = multiprocessing.get_context("spawn").Process(target=serve, args=(theirs, names), daemon=True)
        process.start()
        processes.append(process)
        clients[label] = Client(ours.recv())
        seconds[label] = {"filter": [], "prioritize": []}
    for round_index in range(rounds):
        for label, client in clients.items():
            for call_index in range(CALLS):
                filtering, prioritizing = one_pod(client, f"pod-{round_index}-{call_index}", names)
                seconds[label]["filter"].append(filtering)
                seconds[label]["prioritize"].append(prioritizing)
    for process in processes:
        process.terminate()
        process.join()
    return seconds


def measure_event(pod_count: int) -> list[float]:
    """Seconds of one NodeMetric event, decode and update, on a node whose reported pods are all assigned."""
    parts = extender_app.Parts(configuration.parse({}), notice_ttl_seconds=60)
    parts.cluster.node_changed(msgspec.convert(node("n1"), pods.Node))
    for index in range(pod_count):
        document = pod(f"n1-{index}")
        document["spec"]["nodeName"] = "n1"
        parts.cluster.pod_changed(msgspec.convert(document, pods.Pod), NOW - 1000)
    event = msgspec.json.encode(node_metric("n1", pod_count))
    decoder = msgspec.json.Decoder(NodeMetric)
    samples = []
    for _ in range(2000):
        began = time.perf_counter()
        parts.cluster.metric_changed(decoder.decode(event))
        samples.append(time.perf_counter() - began)
    return samples


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rounds", type=int, default=5)
    rounds = parser.parse_args().rounds
    print(f"{'names':>6}  {'server':<14}{'verb':<12}{'p50 us':>9}{'p99 us':>9}{'x floor':>9}")
    for size in SIZES:
        seconds = measure(size, rounds)
        for label, by_verb in seconds.items():
            for verb, samples in by_verb.items():
                p50, p99 = statistics.median(samples), statistics.quantiles(samples, n=100)[98]
                floor = statistics.median(seconds["echo (floor)"][verb])
                print(f"{size:>6}  {label:<14}{verb:<12}{p50 * 1e6:>9.0f}{p99 * 1e6:>9.0f}{p50 / floor:>9.1f}")
    for pod_count in (30, 50, 110):
        samples = measure_event(pod_count)
        p50, p99 = statistics.median(samples), statistics.quantiles(samples, n=100)[98]
        print(f"NodeMetric event, {pod_count:>3} pods, decode + update: p50 {p50 * 1e6:.0f} us, p99 {p99 * 1e6:.0f} us")
    return 0


if __name__ == "__main__":
    sys.exit(main())
