"""Measure the time of a filter and a prioritize call, beside a C echo of the same bytes and a naive extender.

    python -m benchmarks.bench_extender [--rounds N] [--sizes 500 5000] [--nodes 5000]

Each server is a separate process; one client in C sends over one keep-alive connection, as kube-scheduler does. The
echo reads the same requests and returns the same bytes as the extender; all take turns within each round. Client and
server each run on a core of their own. p50 and p99 are those of each server's quietest round, so that other load on the
machine does not count. Every call of a round is about another pod, of 300 different requests.

A cluster has as many nodes as a call has names (--sizes), and in the last rows more, of which each call has other 500
(--nodes). The scores are made in the pause after the filter response. "all work" is the CPU time of a pod in a process
without HTTP and with warm caches: filter, that pause, prioritize, and what follows it.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import functools
import gc
import http.server
import json
import multiprocessing
import os
import random
import statistics
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection
from typing import Any

import msgspec
from kubernetes.utils.quantity import parse_quantity

from api_types.kubernetes import pods
from benchmarks import c_client, c_extender, synthetic_cluster
from scheduler_plugin import assembly
from scheduler_plugin.config import loader
from scheduler_plugin.extender.server import ExtenderServer
from scheduler_plugin.extender.verbs import Extender
from scheduler_plugin.state.node_report import NodeMetric

SIZES = (500, 1000, 5000, 15000)
NAMES = 500  # of a call in a large cluster: kube-scheduler stops its search there or earlier
CALLS_A_ROUND = 60
PAUSE_SECONDS = 0.001  # the scheduler's own work between its calls


def reporting_extender(names: list[str]) -> Extender:
    """Return an extender of nodes that have all reported."""
    parts = assembly.Parts(loader.parse({}))
    now = time.time()
    for name in names:
        parts.cluster.node_changed(msgspec.convert(synthetic_cluster.node(name), pods.Node))
        report = msgspec.json.encode(synthetic_cluster.node_metric(name, 30, now))
        parts.cluster.metric_changed(msgspec.json.decode(report, type=NodeMetric))
    gc.freeze()  # as the process does once it is ready
    return parts.extender


def serve_extender(port_to: Connection, names: list[str]) -> None:
    extender = reporting_extender(names)

    async def serve() -> None:
        server = ExtenderServer("127.0.0.1", 0, {"filter": extender.filter, "prioritize": extender.prioritize})
        await server.start()
        port_to.send(server.port)
        await asyncio.Event().wait()

    asyncio.run(serve())


def send_work(seconds_to: Connection, names: list[str], size: int) -> None:
    """Send the CPU seconds of each pod; all pods are placed once before."""
    extender, now = reporting_extender(names), time.time()
    seed = random.Random(1)
    heads = [head_of(f"pod-{index}") for index in range(synthetic_cluster.POD_SHAPES)]
    seconds = []
    for head in heads * 3:
        filtering = request_body(head, seed.sample(names, size))
        began = time.process_time()
        response = extender.filter(filtering, now)
        spent = time.process_time() - began
        scoring = request_body(head, json.loads(response)["NodeNames"])
        began = time.process_time()
        extender.prioritize(scoring, now)
        seconds.append(spent + time.process_time() - began)
    seconds_to.send(seconds[len(heads) :])


def serve_naive(port_to: Connection, names: list[str]) -> None:
    state = {
        name: (synthetic_cluster.node(name), synthetic_cluster.node_metric(name, 30, time.time())) for name in names
    }

    def estimate(args: dict[str, Any]) -> tuple[float, float]:
        requests = [container["resources"]["requests"] for container in args["Pod"]["spec"]["containers"]]
        cpu, memory = (sum(float(parse_quantity(request[name])) for request in requests) for name in ("cpu", "memory"))
        return cpu * 1000 * 0.85, memory * 0.7

    def used_and_total(own_cpu: float, own_memory: float, name: str) -> list[tuple[float, float]]:
        own, reported = state[name]
        usage = reported["status"]["nodeMetric"]["nodeUsage"]["resources"]
        cpu, memory = int(usage["cpu"][:-1]) + own_cpu, int(usage["memory"]) + own_memory
        total = own["status"]["allocatable"]
        return [(cpu, int(total["cpu"]) * 1000), (memory, int(total["memory"][:-2]) * 2**20)]

    def respond(path: str, args: dict[str, Any]) -> Any:
        own = estimate(args)
        loads = {name: used_and_total(*own, name) for name in args["NodeNames"]}
        if path == "/prioritize":
            scored = {name: sum(int((t - u) * 100 // t) for u, t in load) // 2 for name, load in loads.items()}
            return [{"Host": name, "Score": max(score, 0)} for name, score in scored.items()]
        hot = {
            name
            for name, ((cpu, cpus), (memory, memories)) in loads.items()
            if round(cpu / cpus * 100) > 65 or round(memory / memories * 100) > 95
        }
        return {"NodeNames": [name for name in loads if name not in hot], "FailedNodes": dict.fromkeys(hot, "too hot")}

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def do_POST(self) -> None:
            args = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            response = json.dumps(respond(self.path, args)).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(response)))
            self.end_headers()
            self.wfile.write(response)

        def log_message(self, *_args: Any) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    port_to.send(server.server_address[1])
    server.serve_forever()


@contextlib.contextmanager
def on_core(index: int) -> Iterator[None]:
    """Start processes on one core only."""
    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {sorted(allowed)[index % len(allowed)]})
    try:
        yield
    finally:
        os.sched_setaffinity(0, allowed)


@contextlib.contextmanager
def serving(serve: Callable[[Connection, list[str]], None], names: list[str]) -> Iterator[Any]:
    """Run a server in a process of its own; yield what it sends first, its port."""
    receiver, sender = multiprocessing.Pipe()
    process = multiprocessing.get_context("spawn").Process(target=serve, args=(sender, names), daemon=True)
    with on_core(0):
        process.start()
    try:
        yield receiver.recv()
    finally:
        process.terminate()
        process.join()


def call(port: int, verb: str, body: bytes) -> bytes:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/{verb}", data=body) as response:
        return bytes(response.read())


def head_of(pod: str) -> bytes:
    """Return a request as Go's encoder writes it, up to the names."""
    return b'{"Pod":%b,"Nodes":null,"NodeNames":' % msgspec.json.encode(synthetic_cluster.pod(pod))


def request_body(head: bytes, names: list[str]) -> bytes:
    return head + msgspec.json.encode(names) + b"}"


def bodies(port: int, names: list[str], pod: str) -> dict[str, bytes]:
    """Return both requests for a pod; prioritize has the names that filter passed."""
    head = head_of(pod)
    filtering = request_body(head, names)
    passed = json.loads(call(port, "filter", filtering))["NodeNames"]
    return {"filter": filtering, "prioritize": request_body(head, passed)}


def measure(size: int, nodes: int, rounds: int) -> dict[str, dict[str, list[list[float]]]]:
    """Return the seconds of every call by server, verb and round."""
    names = synthetic_cluster.node_names(nodes)
    seed = random.Random(1)
    servers = {"extender": serve_extender, "naive": serve_naive}
    with contextlib.ExitStack() as stack:
        ports = {label: stack.enter_context(serving(serve, names)) for label, serve in servers.items()}
        twin = stack.enter_context(serving(serve_extender, names))  # so that no measured call was made before
        first = bodies(twin, seed.sample(names, size), "warm-up")
        responses = {verb: call(twin, verb, body) for verb, body in first.items()}
        with on_core(0):
            ports = {"C echo": stack.enter_context(c_extender.running(responses)), **ports}
        seconds: dict[str, dict[str, list[list[float]]]] = {label: {"filter": [], "prioritize": []} for label in ports}
        for number in range(rounds):
            sent = [bodies(twin, seed.sample(names, size), f"pod-{number}-{index}") for index in range(CALLS_A_ROUND)]
            requests = [c_client.request(verb, body) for each in sent for verb, body in each.items()]
            for label, port in ports.items():
                with on_core(1):
                    samples = c_client.seconds_of(port, requests, rounds=1, pause_seconds=PAUSE_SECONDS)
                for offset, verb in enumerate(first):
                    seconds[label][verb].append([own for (own,) in samples[offset::2]])
    return seconds


def row(size: int, nodes: int, label: str, verb: str, seconds: list[float], floor: float | None = None) -> str:
    p50, p99 = statistics.median(seconds), statistics.quantiles(seconds, n=100)[98]
    times_floor = "" if floor is None else f"{p50 / floor:.1f}"
    times = f"{p50 * 1e6:>9.0f}{p99 * 1e6:>9.0f}{times_floor:>9}{p50 / size * 1e6:>11.3f}"
    return f"{size:>6}{nodes:>7}  {label:<16}{verb:<12}{times}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES)
    parser.add_argument("--nodes", type=int, nargs="*", default=(5000,), help=f"of clusters with {NAMES} names a call")
    chosen = parser.parse_args()
    columns = f"{'names':>6}{'nodes':>7}  {'server':<16}{'verb':<12}"
    print(f"{columns}{'p50 us':>9}{'p99 us':>9}{'x C echo':>9}{'us a name':>11}")
    for size, nodes in [*zip(chosen.sizes, chosen.sizes, strict=True), *((NAMES, nodes) for nodes in chosen.nodes)]:
        seconds = measure(size, nodes, chosen.rounds)
        quietest = {
            (label, verb): min(by_round, key=statistics.median)
            for label, by_verb in seconds.items()
            for verb, by_round in by_verb.items()
        }
        for (label, verb), own in quietest.items():
            print(row(size, nodes, label, verb, own, statistics.median(quietest["C echo", verb])))
        with serving(functools.partial(send_work, size=size), synthetic_cluster.node_names(nodes)) as work:
            print(row(size, nodes, "no HTTP", "all work", work), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
