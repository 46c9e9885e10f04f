"""Measure the CPU time and memory of one component of any checkout, with the programs of this one.

    python -m benchmarks.product_cost agent|extender|manager [--source CHECKOUT]

The component runs as `python -m koordlet|manager|scheduler_plugin run` from the checkout, so that its layout does not
matter; everything around it is from here. CPU time changes less with the load of the machine than wall time does. The
result is one line of JSON: name of a cost to its value. `benchmarks.compare` runs this in turns for two checkouts.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import msgspec
import psutil

from benchmarks import bench_agent, c_client, manager_experiments, replay_apiserver, synthetic_cluster
from benchmarks.bench_agent import cpu_seconds, quiet
from tests.fakes import agent_process, cluster
from tools.localcluster import content_cache, standalone_control_plane
from tools.localcluster.host import ports

AGENT_PODS = 250
AGENT_REPORT_SECONDS = 10
AGENT_WARM_UP_SECONDS, AGENT_SECONDS = 3.0, 20

EXTENDER_NODES, EXTENDER_PODS_PER_NODE = 2000, 5
EXTENDER_CALLS, EXTENDER_BATCHES = 40, 12
EXTENDER_EVENTS_PER_SECOND, EXTENDER_EVENT_SECONDS = 400, 8
START_SECONDS = 120.0

MANAGER_NODES = 50
MANAGER_REPORTS_PER_SECOND, MANAGER_SECONDS = 50, 8.0
MANAGER_SETTLING_SECONDS = 3.0

MEBIBYTE = 2**20


async def agent_cost() -> dict[str, float]:
    """Run the agent of the current folder twice: the first start compiles, the second is measured."""
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder, bench_agent.file_tree(Path(folder, "host"), AGENT_PODS):
        async with cluster.running() as server, asyncio.timeout(START_SECONDS):
            bench_agent.objects(server, AGENT_PODS)
            spec = {"metricCollectPolicy": {"reportIntervalSeconds": AGENT_REPORT_SECONDS}}
            server.patch("nodemetrics", bench_agent.NODE, {"spec": spec})
            config = agent_process.kubeconfig(Path(folder, "kubeconfig"), server.connection().server)
            flags = (
                f"--kubeconfig={config}", f"--node-name={bench_agent.NODE}", f"--host-root={folder}/host",
                f"--state-dir={folder}", "--http-port=0", "--log-level=error",
            )  # fmt: skip
            environment = {**agent_process.CHART_ENVIRONMENT, "PYTHONPYCACHEPREFIX": f"{folder}/bytecode"}
            async with agent_process.running(*flags, environment=environment):
                await bench_agent.until_reported(server)
            async with agent_process.running(*flags, environment=environment) as process:
                last = server.get("nodemetrics", bench_agent.NODE)["status"]
                while server.get("nodemetrics", bench_agent.NODE)["status"] == last:
                    await asyncio.sleep(0.2)
                await asyncio.sleep(AGENT_WARM_UP_SECONDS)
                readings = [cpu_seconds(process.pid)]
                for _ in range(AGENT_SECONDS):
                    await asyncio.sleep(1.0)
                    readings.append(cpu_seconds(process.pid))
                rss = psutil.Process(process.pid).memory_info().rss
            reported = len(server.get("nodemetrics", bench_agent.NODE)["status"].get("podsMetric", []))
            assert reported == AGENT_PODS, f"{reported} of {AGENT_PODS} pods reported"
    return {
        "agent: CPU, ms/s": (readings[-1] - readings[0]) / AGENT_SECONDS * 1000,
        "agent: CPU of a quiet second, ms": quiet(readings) * 1000,
        "agent: RSS, MiB": rss / MEBIBYTE,
    }


def agent(source: Path) -> dict[str, float]:
    """Run the agent of a checkout beside 250 pods of two containers each, on a tree of plain files."""
    os.chdir(source)  # `python -m koordlet` imports from the current folder
    return asyncio.run(agent_cost())


def requests(batch: int) -> list[bytes]:
    """Return a filter and a prioritize request with all nodes, for each pod of a batch."""
    names = msgspec.json.encode(synthetic_cluster.node_names(EXTENDER_NODES))
    pods = [msgspec.json.encode(synthetic_cluster.pod(f"pod-{batch}-{index}")) for index in range(EXTENDER_CALLS)]
    bodies = [b'{"Pod":%b,"Nodes":null,"NodeNames":%b}' % (pod, names) for pod in pods]
    return [c_client.request(verb, body) for body in bodies for verb in ("filter", "prioritize")]


@contextlib.contextmanager
def extender_running(source: Path, apiserver_url: str) -> Iterator[tuple[int, psutil.Process]]:
    """Start the scheduler plugin of a checkout and wait until it is ready; yield its port and its process."""
    port, http_port = ports.free_ports(2)
    with tempfile.TemporaryDirectory() as folder:
        config = agent_process.kubeconfig(Path(folder) / "kubeconfig", apiserver_url)
        command = [
            sys.executable, "-m", "scheduler_plugin", "run", f"--kubeconfig={config}", "--log-level=error",
            f"--extender-port={port}", "--http-address=127.0.0.1", f"--http-port={http_port}",
        ]  # fmt: skip
        environment = {
            **os.environ,
            "OPENBLAS_NUM_THREADS": "1",
            "KOORD_SCHEDULER_DEBUG_PORT": "0",
            "PYTHONHASHSEED": "0",  # the order of sets is the same in every round
            "PYTHONPYCACHEPREFIX": f"{folder}/bytecode",
        }
        process = subprocess.Popen(command, cwd=source, env=environment)
        try:
            until(lambda: answers(f"http://127.0.0.1:{http_port}/readyz"), "the extender is ready")
            yield port, psutil.Process(process.pid)
        finally:
            process.terminate()
            process.wait()


def answers(url: str) -> bool:
    """Return whether a page has status 200."""
    with contextlib.suppress(urllib.error.URLError), urllib.request.urlopen(url, timeout=5) as answer:
        return bool(answer.status == 200)
    return False


def until(condition: Callable[[], bool], what: str) -> None:
    """Wait for a condition. Raises TimeoutError."""
    began = time.monotonic()
    while not condition():
        if time.monotonic() - began > START_SECONDS:
            raise TimeoutError(f"not after {START_SECONDS:.0f} s: {what}")
        time.sleep(0.2)


def extender(source: Path) -> dict[str, float]:
    """Run the scheduler plugin of a checkout with 2,000 nodes: calls about a pod, then NodeMetric events."""
    with (
        replay_apiserver.running(nodes=EXTENDER_NODES, pods_per_node=EXTENDER_PODS_PER_NODE) as url,
        extender_running(source, url) as (port, process),
    ):
        time.sleep(2.0)  # the watches begin
        c_client.seconds_of(port, requests(0)[:2], rounds=20, pause_seconds=0.001)
        calls = [cpu_seconds(process.pid)]
        for batch in range(EXTENDER_BATCHES):
            c_client.seconds_of(port, requests(batch), rounds=1, pause_seconds=0.001)
            calls.append(cpu_seconds(process.pid))
        urllib.request.urlopen(f"{url}/replay?rate={EXTENDER_EVENTS_PER_SECOND}").close()
        events = [cpu_seconds(process.pid)]
        for _ in range(EXTENDER_EVENT_SECONDS):
            time.sleep(1.0)
            events.append(cpu_seconds(process.pid))
        return {
            "extender: CPU of filter and prioritize, us": quiet(calls) / EXTENDER_CALLS * 1e6,
            "extender: CPU of a NodeMetric event, us": quiet(events) / EXTENDER_EVENTS_PER_SECOND * 1e6,
            "extender: RSS, MiB": process.memory_info().rss / MEBIBYTE,
        }


def manager(source: Path) -> dict[str, float]:
    """Run the manager of a checkout against a real apiserver: reports that change the Mid resources of 50 nodes."""
    with standalone_control_plane.running() as plane:
        bench = manager_experiments.Bench(plane, MANAGER_NODES, (), source)
        measured = bench.start_manager("manager-measured").running
        pid = measured.process.pid
        until(lambda: len(bench.specs.arrived) == MANAGER_NODES, "NodeMetrics of all nodes")
        bench.fleet.report_all()
        until(lambda: not bench.published.wrong(bench.fleet, bench.fleet.names), "Mid resources of the first reports")
        time.sleep(MANAGER_SETTLING_SECONDS)
        before = cpu_seconds(pid)
        reports, _ = bench.fleet.report_for(MANAGER_SECONDS, MANAGER_REPORTS_PER_SECOND, moving_share=1.0)
        until(lambda: not bench.published.wrong(bench.fleet, bench.fleet.names), "Mid resources of the last reports")
        spent = cpu_seconds(pid) - before
        return {
            "manager: CPU of a report that changes Mid, ms": spent / reports * 1000,
            "manager: RSS, MiB": measured.rss_mebibytes(),
        }


COMPONENTS: Mapping[str, Callable[[Path], dict[str, float]]] = {
    "agent": agent,
    "extender": extender,
    "manager": manager,
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("component", choices=COMPONENTS)
    parser.add_argument("--source", type=Path, default=content_cache.REPOSITORY, help="checkout (default: this one)")
    chosen = parser.parse_args()
    print(json.dumps(COMPONENTS[chosen.component](chosen.source.resolve())))
    return 0


if __name__ == "__main__":
    sys.exit(main())
