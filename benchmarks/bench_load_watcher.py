"""Measure the cost of the standalone load watcher: refresh of three windows, memory, requests and restart.

    python -m benchmarks.bench_load_watcher [--nodes N] [--refreshes R] [--clients C]

The real process reads NodeMetrics of a synthetic cluster from `replay_apiserver`. The results are in
docs/benchmarks/load-watcher-cost.md.
"""

from __future__ import annotations

import argparse
import contextlib
import http.client
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import psutil

from benchmarks import prometheus_page, replay_apiserver, synthetic_cluster
from tests.fakes import agent_process
from tools.localcluster.host import ports

INTERVAL_SECONDS = 5
START_SECONDS = 600.0  # a large synthetic cluster is slow to build
WINDOWS = 3


class Watcher(NamedTuple):
    """Running load watcher."""

    process: psutil.Process
    port: int
    began: float
    """Time of the start on the monotonic clock."""

    def page(self, path: str) -> tuple[int, bytes]:
        """Return status and body of a page. Raises OSError."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        with contextlib.closing(connection):
            connection.request("GET", path, headers={"Content-Type": "application/json"})
            response = connection.getresponse()
            return response.status, response.read()

    def seconds_to(self, nodes: int) -> float:
        """Return the seconds from the start to the first response with all nodes."""
        while time.monotonic() - self.began < START_SECONDS:
            with contextlib.suppress(OSError):
                status, body = self.page("/watcher")
                seconds = time.monotonic() - self.began
                if status == http.client.OK and len(json.loads(body)["data"]["NodeMetricsMap"]) == nodes:
                    return seconds
            time.sleep(0.005)
        raise TimeoutError(f"no response with {nodes} nodes within {START_SECONDS:.0f} s")

    def refreshes(self) -> float:
        """Return the number of refreshes of all three windows so far."""
        page = self.page("/metrics")[1].decode()
        return prometheus_page.total(page, "koord_load_watcher_refreshes_total") / WINDOWS

    def cpu_seconds(self) -> float:
        """Return user and system time so far."""
        times = self.process.cpu_times()
        return float(times.user + times.system)


@contextlib.contextmanager
def started(kubeconfig: pathlib.Path, database: pathlib.Path | None) -> Iterator[Watcher]:
    """Start the watcher as the chart does, and kill it at the end."""
    port = ports.free_port()
    flags = [f"--kubeconfig={kubeconfig}", f"--http-port={port}", f"--interval-seconds={INTERVAL_SECONDS}"]
    flags += ["--http-address=127.0.0.1", "--log-level=error"]
    flags += [f"--database-file={database}"] if database else []
    environment = {**os.environ, **agent_process.CHART_ENVIRONMENT, "METRICS_PROVIDER_NAME": "NodeMetric"}
    began = time.monotonic()
    child = subprocess.Popen([sys.executable, "-m", "scheduler_plugin.load_watcher", *flags], env=environment)
    try:
        yield Watcher(psutil.Process(child.pid), port, began)
    finally:
        child.kill()
        child.wait()


def refresh_cpu_seconds(watcher: Watcher, refreshes: int) -> float:
    """Return the mean CPU time of a refresh of three windows, over `refreshes` of them and without requests."""
    _until_refreshed(watcher, 1)
    before = watcher.cpu_seconds()
    _until_refreshed(watcher, refreshes)
    return (watcher.cpu_seconds() - before) / refreshes


def _until_refreshed(watcher: Watcher, more: int) -> None:
    wanted = int(watcher.refreshes()) + more
    while watcher.refreshes() < wanted:
        time.sleep(0.5)


def latencies(watcher: Watcher, paths: Sequence[str], rounds: int) -> list[float]:
    """Return the sorted latencies of one client for each path; each client sends its requests without a pause."""
    seconds: list[float] = []
    together = threading.Barrier(len(paths))

    def send_requests(path: str) -> None:
        together.wait()
        for _round in range(rounds):
            began = time.monotonic()
            status, _body = watcher.page(path)
            seconds.append(time.monotonic() - began)
            if status != http.client.OK:
                raise AssertionError(f"{path} returned {status}")

    clients = [threading.Thread(target=send_requests, args=(path,)) for path in paths]
    for client in clients:
        client.start()
    for client in clients:
        client.join()
    if len(seconds) != len(paths) * rounds:
        raise AssertionError("a client failed")
    return sorted(seconds)


def row(name: str, seconds: Sequence[float]) -> str:
    """Format a table row with median, 99th percentile and longest latency."""
    p50, p99 = (seconds[round(share * (len(seconds) - 1))] for share in (0.5, 0.99))
    return f"| {name} | {p50 * 1e3:.0f} ms | {p99 * 1e3:.0f} ms | {seconds[-1] * 1e3:.0f} ms |"


def main() -> int:
    """Run the benchmark and print the tables."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--refreshes", type=int, default=5)
    parser.add_argument("--clients", type=int, default=100)
    chosen = parser.parse_args()
    with (
        tempfile.TemporaryDirectory() as folder,
        replay_apiserver.running(nodes=chosen.nodes, pods_per_node=0) as url,
    ):
        kubeconfig = agent_process.kubeconfig(pathlib.Path(folder, "kubeconfig"), url)
        database = pathlib.Path(folder, "windows.sqlite")
        print(f"load of the machine: {os.getloadavg()[0]:.1f}, {chosen.nodes} nodes\n")
        with started(kubeconfig, database) as watcher:
            first = watcher.seconds_to(chosen.nodes)
            body = watcher.page("/watcher")[1]
            print("| what | value |\n|---|---|")
            print(f"| CPU for a refresh of three windows | {refresh_cpu_seconds(watcher, chosen.refreshes):.2f} s |")
            print(f"| resident memory | {watcher.process.memory_info().rss / 2**20:.0f} MiB |")
            print(f"| document of all nodes | {len(body) / 1e6:.2f} MB |")
            one = watcher.page(f"/watcher/{synthetic_cluster.node_names(1)[0]}")[1]
            print(f"| document of one node | {len(one)} bytes |")
            print(f"\n| {chosen.clients} clients at once | p50 | p99 | longest |\n|---|---|---|---|")
            names = synthetic_cluster.node_names(chosen.clients)
            print(row("one node each, 20 times", latencies(watcher, [f"/watcher/{name}" for name in names], 20)))
            print(row("all nodes, once", latencies(watcher, ["/watcher"] * chosen.clients, 1)))
            print(row("all nodes, one client, 20 times", latencies(watcher, ["/watcher"], 20)))
            _until_refreshed(watcher, 1)
        size = sum(file.stat().st_size for file in pathlib.Path(folder).glob("windows.sqlite*"))
        print("\n| to the first complete response | seconds |\n|---|---|")
        with started(kubeconfig, database) as restarted:
            print(f"| after kill -9, from the file of {size / 1e6:.1f} MB | {restarted.seconds_to(chosen.nodes):.2f} |")
        print(f"| without a file: initial lists, then a refresh | {first:.2f} |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
