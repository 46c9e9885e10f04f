"""Measure the console of a large cluster: bytes and time of each page, memory and CPU of the process.

    python -m benchmarks.bench_console [--nodes 5000] [--pods 30] [--requests 30] [--seconds 120]

24 nodes of a real kube-apiserver, with a manager and kube-scheduler, are recorded and repeated by `replay_apiserver`.
`koordctl console` and the console of the chart run as processes and are asked over HTTP, with a kept connection. The
results are in docs/benchmarks/console-cost.md.
"""

from __future__ import annotations

import argparse
import contextlib
import http.client
import json
import os
import pathlib
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import psutil

from benchmarks import replay_apiserver, synthetic_cluster
from benchmarks.replay_apiserver import Recorded
from e2e.console import stage
from tools.localcluster.apiserver_requests import NODE_METRICS, NODES
from tools.localcluster.host import ports

NAMESPACE = "koordinator-system"
START_SECONDS = 300.0
LIMIT_BYTES, LIMIT_SECONDS, LIMIT_MEBIBYTES = 60_000, 0.150, 200
PAGES = {
    "Fleet": "/",
    "Fleet, last page by name": "/?sort=name&page=100",
    "Fleet, search": "/?q=instance-00123",
    "Node": f"/nodes/{synthetic_cluster.node_names(1)[0]}",
    "Mid": "/mid",
    "Prediction": "/prediction",
    "Decisions": "/decisions",
    "Health": "/health",
}
ANSWERS = (
    ("/version", ""),
    ("/api/v1/namespaces", ""),
    ("/api/v1/pods", "status.phase=Pending"),
    (f"/api/v1/namespaces/{NAMESPACE}/pods", ""),
    ("/api/v1/events", "reportingComponent=koord-manager"),
    ("/api/v1/events", "reason=FailedScheduling"),
    (f"/api/v1/namespaces/{NAMESPACE}/configmaps/slo-controller-config", ""),
    (f"/api/v1/namespaces/{NAMESPACE}/configmaps/koord-scheduler", ""),
    (f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases/koord-manager", ""),
)
KUBECONFIG = {
    "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
    "users": [{"name": "u", "user": {"token": "t"}}],
    "current-context": "x",
}


def recorded() -> Recorded:
    """Start a control plane with 24 nodes and record what it answers."""
    with stage.running() as made:
        made.until_scheduler_has_refused()
        nodes = made.lone.api.send("GET", NODES)["items"]
        reports = {each["metadata"]["name"]: each for each in made.lone.api.send("GET", NODE_METRICS)["items"]}
        answers = {
            (path, selector): made.lone.api.raw("GET", f"{path}?fieldSelector={selector}" if selector else path)
            for path, selector in ANSWERS
        }
    return Recorded(nodes, [reports[each["metadata"]["name"]] for each in nodes], answers)


class Console(NamedTuple):
    """A running console, as a browser sees it."""

    name: str
    process: psutil.Process
    port: int
    cookie: str = ""

    def page(self, connection: http.client.HTTPConnection, path: str) -> bytes:
        """Return the body of a page. Raises OSError."""
        connection.request("GET", path, headers={"Cookie": self.cookie})
        answer = connection.getresponse()
        body = answer.read()
        assert answer.status == http.client.OK, (path, answer.status, body[:300])
        return body

    def connect(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)

    def cpu_seconds(self) -> float:
        return sum(self.process.cpu_times()[:2])

    def resident(self) -> tuple[float, float]:
        """Return the memory now and the most so far, in MiB."""
        text = pathlib.Path(f"/proc/{self.process.pid}/status").read_text(encoding="ascii")
        return tuple(int(re.search(rf"{key}:\s+(\d+) kB", text)[1]) / 1024 for key in ("VmRSS", "VmHWM"))


@contextlib.contextmanager
def koordctl_console(kubeconfig: pathlib.Path) -> Iterator[Console]:
    """Run `koordctl console` and enter it."""
    words = [sys.executable, "-m", "koordctl", "console", "--no-browser", "--kubeconfig", str(kubeconfig)]
    process = psutil.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        address = process.stdout.readline().strip()
        port = int(re.search(r":(\d+)/", address)[1])
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        connection.request("GET", address.partition(f":{port}")[2])
        entered = connection.getresponse()
        entered.read()
        connection.close()
        yield Console("koordctl console", process, port, entered.headers["Set-Cookie"].partition(";")[0])
    finally:
        process.send_signal(signal.SIGINT)
        process.wait()


@contextlib.contextmanager
def console_of_the_chart(kubeconfig: pathlib.Path) -> Iterator[Console]:
    """Run `python -m console` with the interval and the history of the chart."""
    page_port, http_port = ports.free_port(), ports.free_port()
    words = ["-m", "console", f"--page-port={page_port}", f"--http-port={http_port}", f"--kubeconfig={kubeconfig}"]
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
    process = psutil.Popen([sys.executable, *words], stderr=subprocess.DEVNULL, env=environment)
    try:
        yield Console("console of the chart", process, page_port)
    finally:
        process.terminate()
        process.wait()


def until_nodes_are_shown(console: Console, nodes: int) -> float:
    """Return the seconds until the page Fleet has all nodes."""
    began = time.monotonic()
    while time.monotonic() - began < START_SECONDS:
        with contextlib.suppress(OSError, AssertionError), contextlib.closing(console.connect()) as connection:
            if f"{nodes:,} nodes use" in console.page(connection, "/").decode():
                return time.monotonic() - began
        time.sleep(0.2)
    raise AssertionError(f"{console.name}: no page with {nodes} nodes within {START_SECONDS:.0f} s")


class Measured(NamedTuple):
    """One page."""

    name: str
    longest_bytes: int
    first_seconds: float
    seconds: Sequence[float]
    cpu_seconds: float

    def row(self) -> str:
        median, longest = statistics.median(self.seconds), max(self.seconds)
        keeps = self.longest_bytes <= LIMIT_BYTES and median <= LIMIT_SECONDS
        return (
            f"| {self.name} | {self.longest_bytes / 1000:.1f} | {1000 * self.first_seconds:.0f} | {1000 * median:.0f} "
            f"| {1000 * longest:.0f} | {1000 * self.cpu_seconds:.0f} | {'yes' if keeps else 'NO'} |"
        )


def measure(console: Console, name: str, path: str, requests: int) -> Measured:
    """Ask for a page once, wait until what only it shows is read, and then ask many times."""
    with contextlib.closing(console.connect()) as connection:
        began = time.monotonic()
        console.page(connection, path)
        first = time.monotonic() - began
        end = time.monotonic() + START_SECONDS
        while b"and continues; the next request shows it" in console.page(connection, path) and time.monotonic() < end:
            time.sleep(1)
        sizes, seconds, cpu = [], [], console.cpu_seconds()
        for _ in range(requests):
            began = time.monotonic()
            sizes.append(len(console.page(connection, path)))
            seconds.append(time.monotonic() - began)
        return Measured(name, max(sizes), first, seconds, (console.cpu_seconds() - cpu) / requests)


def during_reads(console: Console, seconds: float) -> list[float]:
    """Ask for the page Fleet twice a second, also while snapshots are read; return the times, sorted."""
    found, end = [], time.monotonic() + seconds
    with contextlib.closing(console.connect()) as connection:
        while time.monotonic() < end:
            began = time.monotonic()
            console.page(connection, "/")
            found.append(time.monotonic() - began)
            time.sleep(0.5)
    return sorted(found)


def report(console: Console, options: argparse.Namespace) -> None:
    first = until_nodes_are_shown(console, options.nodes)
    _, after_first = console.resident()
    print(f"\n## {console.name}, {options.nodes:,} nodes, {options.nodes * options.pods:,} pods\n", flush=True)
    print("| page | kB | first ms | median ms | longest ms | CPU ms | within the limits |")
    print("|---|---|---|---|---|---|---|")
    for name, path in PAGES.items():
        print(measure(console, name, path, options.requests).row(), flush=True)
    cpu, began = console.cpu_seconds(), time.monotonic()
    times = during_reads(console, options.seconds)
    share = (console.cpu_seconds() - cpu) / (time.monotonic() - began)
    now, most = console.resident()
    print("\n| of the process | value |\n|---|---|")
    print(f"| start to the first page with all nodes | {first:.1f} s |")
    print(f"| most memory until then, MiB | {after_first:.0f} |")
    print(f"| memory at the end, MiB | {now:.0f} |")
    print(f"| most memory, MiB (limit {LIMIT_MEBIBYTES}) | {most:.0f} |")
    print(f"| CPU with a page twice a second, of a core | {100 * share:.0f} % |")
    spread = ", ".join(f"{1000 * times[int(len(times) * each)]:.0f}" for each in (0.5, 0.9, 0.99))
    print(f"| page Fleet in {options.seconds:.0f} s with reads: p50, p90, p99, ms | {spread} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--pods", type=int, default=30, help="Prod pods on each node")
    parser.add_argument("--requests", type=int, default=30, help="measured requests of each page")
    parser.add_argument("--seconds", type=float, default=120.0, help="time of the measurement beside reads")
    options = parser.parse_args()
    served = replay_apiserver.running(nodes=options.nodes, pods_per_node=options.pods, recorded=recorded())
    with tempfile.TemporaryDirectory() as folder, served as url:
        file = pathlib.Path(folder) / "kubeconfig"
        file.write_text(json.dumps(KUBECONFIG | {"clusters": [{"name": "c", "cluster": {"server": url}}]}))
        for running in (koordctl_console, console_of_the_chart):
            with running(file) as console:
                report(console, options)


if __name__ == "__main__":
    main()
