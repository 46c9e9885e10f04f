"""RSS and CPU of the whole agent as counted by the kernel: `python -m koordlet run` beside an API server on loopback.

    python -m benchmarks.bench_agent [--pods N ...] [--minutes M] [--tree files|live] [--env NAME=VALUE ...]
                                     [--predictor NAME] [--mid N [--suppress PERCENT]] [--koordlet]

`files` is a v2 tree of ordinary files in memory, so the kernel's own work for a cgroup read is not included; `live` is
real cgroups of this machine with a process in each container that touches memory twice a second (needs root). All sizes
run at the same time, each with an agent of its own. The agent's environment is that of the chart; reports go to an API
server in this process every 30 s. The bare reader reads the same files as often, through open descriptors, and does
nothing else: where system calls are slow, as on a node of `on_node`, only the ratio to it counts. A predictor of a
package is found through `--env PYTHONPATH=FOLDER`, after `pip install --no-deps --target FOLDER PACKAGE`. `--koordlet`
is Koordinator's own agent on the same live groups of v1 at the same time, built the first time, with all parts off that
write control groups, beside an API server of its own.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import functools
import itertools
import os
import signal
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import psutil

from e2e.support import koord_manager, upstream_koordlet, waiting
from koordlet.collectors.host import HostRoot
from koordlet.collectors.pod_pressure import POD_PRESSURE_TICKS
from koordlet.collectors.snapshot import HostCollector
from tests.fakes import agent_process, cluster
from tests.host_trees import live_cgroups, plain_files
from tests.host_trees.clock import Clock
from tools.localcluster import standalone_control_plane
from tools.localcluster.apiserver_requests import NODE_METRICS, NODES, exists
from tools.peers import programs

CONTAINERS = 2
NODE = "bench"
_COMPILE_SECONDS = 180.0
_PAUSE_SECONDS = 0.2  # caches cool, as between the ticks of an agent
# Only shell builtins: a command would be one more process, twice a second in every container.
TOUCH = 'while :; do printf -v s "%04096d" 1; read -r -t 0.5 _; done'


def uid(number: int) -> str:
    return f"00000000-0000-0000-0000-{number:012d}"


def container_id(number: int, container: int) -> str:
    return f"{number * CONTAINERS + container:064x}"


def qos_of(number: int) -> str:
    return ("", "burstable", "besteffort")[number % 3]


def pod(number: int, *, is_mid: bool = False) -> dict[str, Any]:
    """Return a pod of about 8 KB, most of which the agent does not need, as in a real cluster."""
    requests = {} if qos_of(number) == "besteffort" else {"cpu": "100m", "memory": "128Mi"}
    resources: dict[str, Any] = {"requests": requests}
    if is_mid:
        mid = {"kubernetes.io/mid-cpu": "100", "kubernetes.io/mid-memory": "128Mi"}
        resources = {
            "requests": {**mid, "cpu": "0", "memory": "0"}, "limits": {**mid, "cpu": "100m", "memory": "128Mi"}
        }  # fmt: skip
    names = [f"container-{index}" for index in range(CONTAINERS)]
    return {
        "metadata": {
            "name": f"pod-{number}", "namespace": "default", "uid": uid(number), "labels": {"app": f"app-{number}"},
            "managedFields": [{"manager": "kubelet", "fieldsV1": {f"f:{index}": {} for index in range(200)}}],
        },
        "spec": {
            "nodeName": NODE, "priority": 7000 if is_mid else 9000,
            "containers": [
                {
                    "name": name, "image": "registry.example/app:1", "resources": resources,
                    "env": [{"name": f"VARIABLE_{index}", "value": "x" * 40} for index in range(20)],
                }
                for name in names
            ],
        },
        "status": {
            "phase": "Running", "startTime": "2026-01-01T00:00:00Z",  # the kubelet has taken it: it is charged to Prod
            "qosClass": {"": "Guaranteed", "burstable": "Burstable", "besteffort": "BestEffort"}[qos_of(number)],
            "containerStatuses": [
                {"name": name, "containerID": f"containerd://{container_id(number, index)}"}
                for index, name in enumerate(names)
            ],
        },
    }  # fmt: skip


@contextlib.contextmanager
def live_tree(root: Path, pods: int) -> Iterator[None]:
    groups = root / "sys/fs/cgroup"
    groups.mkdir(parents=True)
    (root / "proc").symlink_to("/proc")
    host = live_cgroups.LiveCgroups(groups)
    if host.version == plain_files.V2:
        groups.rmdir()
        groups.symlink_to(host.host_root.cgroup_root)
    try:
        for number in range(pods):
            for container in range(CONTAINERS):
                group = f"kubepods/{qos_of(number)}/pod{uid(number)}/{container_id(number, container)}"
                host.group(group)
                host.run(group, "bash", "-c", TOUCH)
        yield
    finally:
        host.close()


@contextlib.contextmanager
def file_tree(root: Path, pods: int) -> Iterator[None]:
    host = plain_files.PlainHost(root)
    host.set_node(busy_ticks=1000, used_bytes=8 << 30)
    for number in range(pods):
        host.set_group(host.pod(uid(number), qos_of(number)), number, 200 << 20)
        for container in range(CONTAINERS):
            group = host.container(uid(number), container_id(number, container), qos_of(number))
            host.set_group(group, number, 100 << 20)
    yield


def objects(
    server: cluster.Cluster, pods: int, *, predictor: str | None = None, mid: int = 0, suppress_percent: int = 0
) -> None:
    """Create node, NodeMetric and pods; so many of them are Mid, suppressed above a usage of the node."""
    units = {"cpu": "64", "memory": "256Gi"}
    server.add("nodes", {"metadata": {"name": NODE}, "status": {"capacity": units, "allocatable": units}})
    spec: dict[str, Any] = {"metricCollectPolicy": {"reportIntervalSeconds": 30}}
    if predictor is not None:
        spec["predictPolicy"] = {"predictor": predictor}
    if suppress_percent:
        spec["midColocationPolicy"] = {"enable": True, "midSuppressThresholdPercent": suppress_percent}
    server.add("nodemetrics", {"metadata": {"name": NODE}, "spec": spec, "status": {}})
    for number in range(pods):
        server.add("pods", pod(number, is_mid=number < mid), namespace="default")


def agent_environment(arguments: argparse.Namespace, folder: str) -> dict[str, str]:
    """Return the environment of the chart, with byte code in a folder of this run."""
    more = dict(pair.split("=", 1) for pair in arguments.env)
    cache = {"PYTHONPYCACHEPREFIX": f"{folder}/bytecode", "PYTHONDONTWRITEBYTECODE": ""}
    return {**agent_process.CHART_ENVIRONMENT, **cache, **more}


def cpu_seconds(pid: int) -> float:
    """Return the CPU time of a process in nanosecond resolution, ended threads included.

    The clock of another process has the identifier that clock_getcpuclockid(3) returns for it.
    """
    return time.clock_gettime((~pid << 3) | 2)


def quiet(readings: Sequence[float]) -> float:
    """Return the first quartile of the differences of a counter: other programs slow down the other intervals."""
    return statistics.quantiles((after - before for before, after in itertools.pairwise(readings)), n=4)[0]


class Reading(NamedTuple):
    """What an agent reads in a tick, and what it costs a program that only reads."""

    files: float
    kibibytes: float
    quiet_cpu_micros: float


def bare_reading(host_root: Path) -> Reading:
    """Record what a collector reads in as many ticks as give every file its turn, then read the same again."""
    clock = Clock()
    collector = HostCollector(HostRoot.at(host_root), clock)
    pread, ticks = os.pread, []

    def recording(descriptor: int, size: int, offset: int) -> bytes:
        text = pread(descriptor, size, offset)
        ticks[-1].append((Path(f"/proc/self/fd/{descriptor}").readlink(), size, len(text)))
        return text

    collector.collect(0.0)  # has no rates, and so reads no memory
    os.pread = recording
    for _ in range(POD_PRESSURE_TICKS):
        ticks.append([])
        clock.advance(1.0)
        collector.collect(0.0)
    os.pread = pread
    collector.close()
    spent = [0.0]
    with contextlib.ExitStack() as opened:
        paths = {path for tick in ticks for path, *_ in tick}
        files = {path: opened.enter_context(path.open("rb", buffering=0)).fileno() for path in paths}
        for tick in ticks:
            time.sleep(_PAUSE_SECONDS)
            reads = [(files[path], size) for path, size, _ in tick]
            begin = time.thread_time()
            for descriptor, size in reads:
                pread(descriptor, size, 0)
            spent.append(spent[-1] + time.thread_time() - begin)
    lengths = [length for tick in ticks for *_, length in tick]
    return Reading(len(lengths) / POD_PRESSURE_TICKS, sum(lengths) / 1024 / POD_PRESSURE_TICKS, quiet(spent) * 1e6)


class Cost(NamedTuple):
    """Resources used by an agent."""

    agent: str
    pods: int
    reading: Reading
    cpu_micros: float
    """Per second of real time."""
    quiet_cpu_micros: float
    """In a second in which other programs took little."""
    first: agent_process.Usage
    last: agent_process.Usage


class Meter:
    """Counters of an agent from now on."""

    def __init__(self, agent: str, pid: int) -> None:
        self._agent, self._pid = agent, pid
        self._first, self._begin = agent_process.usage(pid), time.monotonic()
        self._readings = [cpu_seconds(pid)]

    def read(self) -> None:
        """Read the CPU time, once a second."""
        self._readings.append(cpu_seconds(self._pid))

    def cost(self, pods: int, reading: Reading) -> Cost:
        """Return what it has used."""
        last, elapsed = agent_process.usage(self._pid), time.monotonic() - self._begin
        used_micros = (last.cpu_seconds - self._first.cpu_seconds) / elapsed * 1e6
        return Cost(self._agent, pods, reading, used_micros, quiet(self._readings) * 1e6, self._first, last)


@contextlib.contextmanager
def koordlet(folder: Path, pods: int) -> Iterator[list[int]]:
    """Run Koordinator's agent over the same groups; return its process ID."""
    units = {"cpu": "64", "memory": "256Gi"}
    address = {"type": "InternalIP", "address": "127.0.0.1"}
    node = {"metadata": {"name": NODE}, "status": {"addresses": [address], "capacity": units, "allocatable": units}}
    named = {"apiVersion": "slo.koordinator.sh/v1alpha1", "metadata": {"name": NODE}}
    spec = {"metricCollectPolicy": {"reportIntervalSeconds": 30}}
    with (
        standalone_control_plane.running() as plane,
        contextlib.closing(plane.connect()) as api,
        upstream_koordlet.kubelet([pod(number) for number in range(pods)]) as port,
    ):
        koord_manager.install_crds(api)
        for path in (NODE_METRICS, upstream_koordlet.NODE_SLOS):
            waiting.until(f"{path} served", functools.partial(exists, api, path))
        api.send("POST", NODES, node)
        api.send("POST", NODE_METRICS, {**named, "kind": "NodeMetric", "spec": spec})
        api.send("POST", upstream_koordlet.NODE_SLOS, {**named, "kind": "NodeSLO"})
        process = upstream_koordlet.start(plane, NODE, folder / "koordlet", folder / "host/sys/fs/cgroup", port).process
        yield [process.pid]
        reported = len(api.send("GET", f"{NODE_METRICS}/{NODE}")["status"]["podsMetric"])
        assert reported == pods, f"koordlet: {reported} of {pods} pods reported"
        assert upstream_koordlet.STARTED in plane.log(upstream_koordlet.NAME).read_text()


async def until_reported(server: cluster.Cluster) -> None:
    """Wait for a report: by then all modules that the agent imports are compiled."""
    while not server.get("nodemetrics", NODE)["status"]:
        await asyncio.sleep(0.5)


async def measure(pods: int, arguments: argparse.Namespace) -> list[Cost]:
    """Run an agent with so many pods, and koordlet where that is asked for, and measure them."""
    tree = live_tree if arguments.tree == "live" else file_tree
    with (
        tempfile.TemporaryDirectory(dir="/dev/shm") as folder,
        tree(Path(folder) / "host", pods),
        koordlet(Path(folder), pods) if arguments.koordlet else contextlib.nullcontext([]) as others,
    ):
        reading = bare_reading(Path(folder) / "host")
        async with cluster.running() as server:
            objects(server, pods, predictor=arguments.predictor, mid=arguments.mid, suppress_percent=arguments.suppress)
            config = agent_process.kubeconfig(Path(folder) / "kubeconfig", server.connection().server)
            flags = (
                f"--kubeconfig={config}", f"--node-name={NODE}", f"--host-root={folder}/host",
                f"--state-dir={folder}", "--checkpoint-interval-seconds=60", "--http-port=0", "--log-level=error",
                "--enable-suppression",
            )  # fmt: skip
            environment = agent_environment(arguments, folder)
            start = functools.partial(agent_process.running, *flags, environment=environment, python=arguments.python)
            async with start():  # compiles, as in an image; compilation at start would cost 5 MiB permanently
                async with asyncio.timeout(_COMPILE_SECONDS):
                    await until_reported(server)
            async with start() as process:
                await asyncio.sleep(arguments.warm_up)
                meters = [Meter("", process.pid), *(Meter("koordlet, ", pid) for pid in others)]
                for _ in range(round(arguments.minutes * 60)):
                    await asyncio.sleep(1.0)
                    for meter in meters:
                        meter.read()
                costs = [meter.cost(pods, reading) for meter in meters]
            prediction = server.get("nodemetrics", NODE)["status"].get("prediction", {})
            assert arguments.predictor in {None, prediction.get("predictor")}, f"predicted by {prediction}"
            reported = len(server.get("nodemetrics", NODE)["status"].get("podsMetric", []))
            assert reported == pods, f"{reported} of {pods} pods reported"
    return costs


def row(cost: Cost, fewer: Cost | None) -> str:
    """Return a line of the table; the cost of a pod is the difference to an agent with fewer pods."""
    first, last = cost.first, cost.last
    mib = [f"{size / 2**20:.1f}" for size in (first.rss_bytes, last.rss_bytes, last.anonymous_bytes)]
    growth = ["", ""]
    if fewer is not None and cost.pods > fewer.pods:
        more = cost.pods - fewer.pods
        growth[0] = f"{(cost.cpu_micros - fewer.cpu_micros) / more:.1f}"
        growth[1] = f"{(last.rss_bytes - fewer.last.rss_bytes) / more / 1024:.0f}"
    files, kibibytes, bare_micros = cost.reading
    reads = [f"{files:.0f}", f"{kibibytes:.0f}", f"{cost.quiet_cpu_micros:.0f}", f"{bare_micros:.0f}"]
    reads.append(f"{cost.quiet_cpu_micros / bare_micros:.1f}")
    if cost.agent:  # the bare reader reads what this project's agent reads
        reads = ["", "", reads[2], "", ""]
    cells = (
        f"{cost.agent}{cost.pods} x {CONTAINERS}",
        f"{cost.cpu_micros / 1e4:.2f}",
        *mib,
        *growth,
        str(last.threads),
        *reads,
    )
    return " | ".join(("", *cells, "")).strip()


def machine_busy_seconds() -> float:
    """Return the CPU time of all processes of the machine since boot."""
    times = psutil.cpu_times()
    return times.user + times.nice + times.system + times.irq + times.softirq


async def bench(arguments: argparse.Namespace) -> None:
    busy = machine_busy_seconds()
    begin = time.monotonic()
    costs = await asyncio.gather(*(measure(pods, arguments) for pods in sorted(arguments.pods)))
    load = (machine_busy_seconds() - busy) / (time.monotonic() - begin)
    print(
        "| pods x containers | % of a core | RSS after warm-up, MiB | at the end | anonymous | a pod more, us/s | KiB "
        "| threads | files a tick | KiB a tick | a quiet second, us | bare reader | ratio |"
    )
    print("|---|---|---|---|---|---|---|---|---|---|---|---|---|")
    for of_agent in zip(*costs, strict=True):
        for fewer, cost in itertools.pairwise((None, *of_agent)):
            print(row(cost, fewer))
    print(f"\nThe machine, the load of this benchmark included, had {load:.1f} of {os.cpu_count()} CPUs at work.")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pods", type=int, nargs="+", default=[30, 110, 250], help="default: 30 110 250")
    parser.add_argument("--minutes", type=float, default=5.0, help="measured after the warm-up (default %(default)s)")
    parser.add_argument("--warm-up", type=float, default=75.0, metavar="SECONDS", help="default %(default)s")
    parser.add_argument("--tree", choices=("files", "live"), default="files", help="default %(default)s")
    parser.add_argument("--env", nargs="*", default=[], metavar="NAME=VALUE", help="more of the agent's environment")
    parser.add_argument("--predictor", help="in force, also one of a package (default: n-sigma-v2)")
    parser.add_argument("--mid", type=int, default=0, metavar="N", help="so many of the pods are Mid pods with limits")
    parser.add_argument("--suppress", type=int, default=0, metavar="PERCENT", help="threshold of their suppression")
    parser.add_argument("--python", nargs="*", default=[], metavar="FLAG", help="flags of the agent's interpreter")
    parser.add_argument(
        "--koordlet", action="store_true", help="Koordinator's agent beside it: needs --tree live on cgroup v1"
    )
    arguments = parser.parse_args()
    if arguments.koordlet:
        programs.program(upstream_koordlet.NAME)
    signal.signal(signal.SIGTERM, lambda number, _frame: sys.exit(128 + number))  # groups are removed at the end
    if arguments.tree == "live" and (reason := live_cgroups.why_not()):
        raise SystemExit(f"bench_agent --tree live {reason}")
    asyncio.run(bench(arguments))


if __name__ == "__main__":
    main()
