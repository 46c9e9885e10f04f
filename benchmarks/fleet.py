"""Measure manager and scheduler plugin with fleets of nodes that report in real time: `make fleet`.

    python -m benchmarks.fleet                                       # 1,000, 5,000 and 15,000 nodes, 20 minutes each
    python -m benchmarks.fleet --nodes 50 --minutes 1

Up to `--real-up-to` nodes they run with a real etcd, kube-apiserver and kube-scheduler, beyond with a server in their
place. Reports are made beforehand by the agent's own code from traces of usage, of agents of three versions; one in a
hundred is broken. Nodes are replaced all the time. The table is on stdout, progress on stderr.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

import msgspec
import psutil
import yaml

from benchmarks import (
    bar_picture,
    c_client,
    fleet_apiserver,
    fleet_reports,
    node_fleet,
    scheduling_rounds,
    synthetic_cluster,
)
from benchmarks.fleet_generator import THRESHOLD, Generator, Server
from benchmarks.fleet_reports import Corpus
from koordctl.backtest import sources
from tests.fakes import agent_process
from tools.localcluster import content_cache, progress, standalone_control_plane
from tools.localcluster.apiserver_requests import PlainConnection
from tools.localcluster.errors import ClusterProblem
from tools.localcluster.host import ports
from tools.localcluster.standalone_control_plane import ControlPlane, Running

TRACES: Final = content_cache.REPOSITORY / "benchmarks/backtest/data/azure_v1_vm_cpu_avg_excerpt.csv.gz"
ARCHETYPES: Final = 24
NAMESPACE: Final = "koordinator-system"
INTERVALS: Final = (60, 61)
"""Report interval in the configuration, and the one of its roll-out."""
CONFIG: Final = {"enable": True, "metricReportIntervalSeconds": INTERVALS[0]}
THRESHOLDS: Final = {"usageThresholds": {"cpu": 65, "memory": 95}}
PLUGINS: Final = {"pluginConfig": [{"name": "LoadAwareScheduling", "args": THRESHOLDS}]}
"""Of the scheduler plugin, as in the chart."""
REPLACED_SHARE_A_MINUTE: Final = 0.002
SAMPLE_SECONDS: Final = 5.0
SCHEDULING_SECONDS: Final = 30.0
CALLED_NAMES: Final = 500
BOUND_PODS: Final = 500
ENVIRONMENT: Final = {
    "MALLOC_ARENA_MAX": "1",
    "MALLOC_MMAP_THRESHOLD_": "131072",
    "OPENBLAS_NUM_THREADS": "1",
    "PYTHONOPTIMIZE": "2",
    "KOORD_SCHEDULER_DEBUG_PORT": "0",
}
"""Of the processes, as the chart and the image set it."""
_STARTED: Final[dict[str, subprocess.Popen[bytes]]] = {}
"""Programs of the suite that have to run."""
PICTURES: Final = {
    "latency": "From a report to the status of its node, milliseconds",
    "memory": "Resident memory, MiB",
    "cpu": "CPU, percent of a core",
}


class Programs(NamedTuple):
    """What runs for one size."""

    server: Server
    kubeconfig: Path
    servers: Mapping[str, Running]
    """Processes of the API server."""
    plane: ControlPlane | None


class Result(NamedTuple):
    """Figures of one size."""

    nodes: int
    is_real: bool
    minutes: float
    reports: int
    cpu: Mapping[str, float]
    """Process -> share of a core while nodes report."""
    memory: Mapping[str, float]
    """Process -> largest resident memory in MiB."""
    latencies: Sequence[float]
    rows: Mapping[str, str]
    """Other figures as text."""

    def quantile(self, percent: int) -> float:
        """Return a quantile of the latencies in seconds, 0 without any."""
        if len(self.latencies) < 2:
            return 0.0
        return statistics.quantiles(self.latencies, n=100)[percent - 1]


@contextlib.contextmanager
def real() -> Iterator[Programs]:
    """Start etcd and kube-apiserver."""
    with standalone_control_plane.running() as plane:
        plane.install(content_cache.REPOSITORY / "crds/slo.koordinator.sh_nodemetrics.yaml", NAMESPACE)
        api = plane.connect()
        for name in (fleet_reports.NAMESPACE, scheduling_rounds.NAMESPACE):
            api.send("POST", "/api/v1/namespaces", {"metadata": {"name": name}})
        classes = "/apis/scheduling.k8s.io/v1/priorityclasses"
        api.send("POST", classes, {"metadata": {"name": scheduling_rounds.PRIORITY_CLASS}, "value": 9000})
        servers = {name: plane.process(name) for name in ("kube-apiserver", "etcd")}
        yield Programs(Server(plane.connect, collects_garbage=False), plane.kubeconfig, servers, plane)


@contextlib.contextmanager
def replayed(corpus: Corpus, nodes: int) -> Iterator[Programs]:
    """Start the server in place of a kube-apiserver."""
    with (
        tempfile.TemporaryDirectory() as folder,
        fleet_apiserver.running(nodes=nodes, corpus=corpus) as (port, process),
    ):
        config = agent_process.kubeconfig(Path(folder) / "kubeconfig", f"http://127.0.0.1:{port}")
        server = Server(lambda: PlainConnection(port), collects_garbage=True)
        yield Programs(server, config, {"API server": Running("API server", process)}, None)


@contextlib.contextmanager
def program(name: str, to: Programs, *arguments: object) -> Iterator[tuple[Running, int]]:
    """Run a program of the suite until it is ready; yield it and the port of its metrics."""
    port = ports.free_port()
    own = ("--kubeconfig", to.kubeconfig, "--http-address", "127.0.0.1", "--http-port", port, "--log-level", "warning")
    words = [str(word) for word in (sys.executable, "-m", name, "run", *own, *arguments)]
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, **ENVIRONMENT, "PYTHONPYCACHEPREFIX": folder, "PYTHONDONTWRITEBYTECODE": ""}
        process = subprocess.Popen(words, cwd=content_cache.REPOSITORY, env=environment, stdout=sys.stderr)
        _STARTED[name] = process
        try:
            until(f"{name} answers", lambda: answers(port, "/healthz"))
            yield Running(name, psutil.Process(process.pid)), port
        finally:
            del _STARTED[name]
            process.terminate()
            process.wait()


def answers(port: int, path: str) -> bool:
    """Return whether a page has status 200."""
    with (
        contextlib.suppress(urllib.error.URLError, ConnectionError, TimeoutError),
        urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=10) as answer,
    ):
        return bool(answer.status == 200)
    return False


def until(what: str, is_so: Callable[[], bool], *, seconds: float = 1800) -> float:
    """Wait for a condition and return the seconds. Raises ClusterProblem, also where a program has ended."""
    began = time.monotonic()

    def give_up() -> None:
        raise ClusterProblem(f"{what}: not reached after {seconds:.0f} s")

    def checked() -> bool:
        for name, process in _STARTED.items():
            if process.poll() is not None:
                raise ClusterProblem(f"{what}: {name} ended with exit code {process.returncode}; its log is above")
        return is_so()

    progress.wait_until(what, checked, seconds, otherwise=give_up, poll=0.5)
    return time.monotonic() - began


class Watch:
    """CPU and memory of processes over time."""

    def __init__(self, processes: Mapping[str, Running]) -> None:
        self._processes = processes
        self._began, self._before = time.monotonic(), self._cpu()
        self._own = time.process_time()
        self.memory: dict[str, float] = dict.fromkeys(processes, 0.0)
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._sample)
        self._thread.start()

    def _cpu(self) -> dict[str, float]:
        return {name: each.cpu_seconds() for name, each in self._processes.items()}

    def _sample(self) -> None:
        while not self._ended.wait(SAMPLE_SECONDS):
            self._note()

    def _note(self) -> None:
        for name, each in self._processes.items():
            self.memory[name] = max(self.memory[name], each.rss_mebibytes())

    def end(self) -> dict[str, float]:
        """Return the share of a core of each process since the begin, and that of the generator."""
        self._ended.set()
        self._thread.join()
        self._note()
        seconds = time.monotonic() - self._began
        shares = {name: (after - self._before[name]) / seconds for name, after in self._cpu().items()}
        return shares | {"generator": (time.process_time() - self._own) / seconds}


def measure(corpus: Corpus, nodes: int, minutes: float, refresh_seconds: int, *, is_real: bool) -> Result:
    """Run one size."""
    config = CONFIG | {"updateTimeThresholdSeconds": refresh_seconds}
    with contextlib.ExitStack() as stack:
        to = stack.enter_context(real() if is_real else replayed(corpus, nodes))
        api = to.server.connect()
        node_fleet.patch_config(api, NAMESPACE, config)
        generator = Generator(to.server, corpus, nodes, with_pods=is_real)
        if is_real:
            with progress.step(f"creating {nodes} nodes with their pods"):
                generator.create()
        manager, _ = stack.enter_context(program("manager", to))
        specs = node_fleet.NodeMetricSpecs(to.server)
        made = until(f"{nodes} NodeMetrics made", lambda: len(specs.arrived) >= nodes)
        with progress.step("first reports"):
            generator.report_all()
        until("Mid resources on every node", lambda: not generator.behind(0.0))
        arguments = Path(stack.enter_context(tempfile.TemporaryDirectory())) / "scheduler-plugin.yaml"
        arguments.write_text(yaml.safe_dump(PLUGINS))
        calls = ports.free_port()
        extender, port = stack.enter_context(
            program("scheduler_plugin", to, "--extender-port", calls, "--config", arguments)
        )
        ready = until("scheduler_plugin is ready", lambda: answers(port, "/readyz"))
        watch = Watch({"manager": manager, "scheduler plugin": extender, **to.servers})
        since, before = time.monotonic(), generator.reports
        with progress.step(f"{nodes} nodes report for {minutes:g} minutes", so_far=lambda: _so_far(generator)):
            generator.run(60 * minutes, replaced_per_minute=max(nodes * REPLACED_SHARE_A_MINUTE, 1))
        reports, seconds = generator.reports - before, time.monotonic() - since
        cpu = watch.end()
        latencies = [took for at, took in list(generator.published.latencies) if at >= since]
        until("every write seen", lambda: not generator.published.unseen(api), seconds=60)
        settled = until("values within the threshold", lambda: not generator.behind(THRESHOLD), seconds=600)
        rows = {
            "NodeMetrics of all nodes made after": f"{made:.0f} s",
            "scheduler plugin ready after": f"{ready:.0f} s",
            "reports a second": f"{reports / seconds:.1f} (of {nodes / fleet_reports.REPORT_SECONDS:.1f})",
            "reports later than 1 s": str(generator.late),
            "broken reports sent, rejected by the API server": f"{generator.broken}, {generator.rejected}",
            "nodes replaced": str(generator.replaced),
            "CPU of the manager a report": f"{cpu['manager'] * seconds / max(reports, 1) * 1000:.2f} ms",
            "writes compared with the formula": str(generator.published.compared),
            "**drift: writes that differ from it**": str(len(generator.published.wrong)),
            "all values within the threshold, after the last report": f"{settled:.1f} s",
            **scheduling(to, generator, calls),
            **roll_out(to, specs, generator, config),
        }
        for problem in generator.published.wrong[:20]:
            progress.report(f"drift: {problem}")
        return Result(nodes, is_real, minutes, reports, cpu, dict(watch.memory), latencies, rows)


def _so_far(generator: Generator) -> str:
    published = generator.published
    return f"({generator.reports} reports, {published.compared} writes compared, {len(published.wrong)} differ)"


def scheduling(to: Programs, generator: Generator, port: int) -> dict[str, str]:
    """Measure calls of the extender while nodes report, and pods through kube-scheduler where there is one."""
    names = msgspec.json.encode(generator.names[:CALLED_NAMES])
    pods = [msgspec.json.encode(synthetic_cluster.pod(f"pod-{index}")) for index in range(synthetic_cluster.POD_SHAPES)]
    bodies = [b'{"Pod":%b,"Nodes":null,"NodeNames":%b}' % (pod, names) for pod in pods]
    requests = [c_client.request(verb, body) for body in bodies for verb in ("filter", "prioritize")]
    reporting = threading.Thread(target=generator.run, args=(SCHEDULING_SECONDS,), kwargs={"replaced_per_minute": 0})
    reporting.start()
    found: list[float] = []
    began = time.monotonic()
    while time.monotonic() - began < SCHEDULING_SECONDS:
        calls = c_client.seconds_of(port, requests, rounds=1, pause_seconds=0.0)
        found += [filtered[0] + scored[0] for filtered, scored in zip(calls[::2], calls[1::2], strict=True)]
    reporting.join()
    p50, p99 = statistics.median(found) * 1000, statistics.quantiles(found, n=100)[98] * 1000
    rows = {
        "filter and prioritize of a pod, 500 names, p50 / p99": f"{p50:.2f} / {p99:.2f} ms",
        "pods a second of the scheduler plugin alone": f"{len(found) / sum(found):.0f}",
    }
    if to.plane:
        count = min(BOUND_PODS, len(generator.names))
        rows["pods a second through kube-scheduler"] = f"{_bound_per_second(to.plane, port, count):.0f}"
    return rows


def _bound_per_second(plane: ControlPlane, port: int, count: int) -> float:
    @contextlib.contextmanager
    def running(_plane: ControlPlane, _fleet: node_fleet.Fleet) -> Iterator[scheduling_rounds.Extender]:
        yield scheduling_rounds.Extender(port)

    bound = scheduling_rounds.Bound(plane)
    names = [f"backlog-{index}" for index in range(count)]
    none = node_fleet.Fleet(plane, (), 0)
    return scheduling_rounds.play(plane, none, running, percent=0, bound=bound, names=names).pods_per_second


def roll_out(
    to: Programs, specs: node_fleet.NodeMetricSpecs, generator: Generator, config: Mapping[str, object]
) -> dict[str, str]:
    """Measure the time from an edit of the ConfigMap until the spec of every NodeMetric has changed."""
    names = set(generator.names)
    until("a NodeMetric of every node", lambda: names <= specs.arrived.keys())
    specs.arrived.clear()
    api = to.server.connect()
    began = time.monotonic()
    node_fleet.patch_config(api, NAMESPACE, {**config, "metricReportIntervalSeconds": INTERVALS[1]})
    until("every spec changed", lambda: names <= specs.arrived.keys())
    last = max(specs.arrived[name] for name in names) - began
    return {"roll-out of a configuration to all NodeMetrics": f"{last:.1f} s"}


def table(results: Sequence[Result]) -> list[str]:
    """Return all figures, a column for each size."""
    head = [f"{each.nodes:,} nodes" for each in results]
    lines = [f"| | {' | '.join(head)} |", f"|---{'|---' * len(results)}|"]

    def add(name: str, value: Callable[[Result], str]) -> None:
        lines.append(f"| {name} | {' | '.join(value(each) for each in results)} |")

    add("API server", lambda each: "etcd and kube-apiserver" if each.is_real else "replayed")
    add("minutes", lambda each: f"{each.minutes:g}")
    add("reports", lambda each: str(each.reports))
    for name in dict.fromkeys(name for each in results for name in each.cpu):
        add(f"CPU of {name}, of a core", lambda each, name=name: _known(each.cpu, name, "{:.1%}"))  # type: ignore[misc]
    for name in dict.fromkeys(name for each in results for name in each.memory):
        add(f"largest RSS of {name}", lambda each, name=name: _known(each.memory, name, "{:.0f} MiB"))  # type: ignore[misc]
    add("reports that move a value by more than a tenth", lambda each: str(len(each.latencies)))
    add("report to node status, p50 / p99", _latency)
    for name in dict.fromkeys(name for each in results for name in each.rows):
        add(name, lambda each, name=name: each.rows.get(name, "-"))  # type: ignore[misc]
    return lines


def _latency(result: Result) -> str:
    return f"{result.quantile(50):.3f} / {result.quantile(99):.3f} s" if len(result.latencies) > 1 else "-"


def _known(values: Mapping[str, float], name: str, form: str) -> str:
    return form.format(values[name]) if name in values else "-"


def growth(results: Sequence[Result]) -> list[str]:
    """Return memory and CPU that a further node takes, from each size to the next."""
    lines = ["| from | to | manager, KiB a node | scheduler plugin, KiB a node |", "|---|---|---|---|"]
    for small, large in itertools.pairwise(results):
        grown = [
            (large.memory[name] - small.memory[name]) * 1024 / (large.nodes - small.nodes)
            for name in ("manager", "scheduler plugin")
        ]
        lines.append(f"| {small.nodes:,} | {large.nodes:,} | {grown[0]:.1f} | {grown[1]:.1f} |")
    return lines if len(results) > 1 else []


def pictures(results: Sequence[Result]) -> dict[str, str]:
    """Return SVG by name."""
    parts = ("manager", "scheduler plugin")
    groups = {
        "latency": {"p50": lambda each: each.quantile(50) * 1000, "p99": lambda each: each.quantile(99) * 1000},
        "memory": {name: lambda each, name=name: each.memory[name] for name in parts},  # type: ignore[misc]
        "cpu": {name: lambda each, name=name: each.cpu[name] * 100 for name in (*parts, "generator")},  # type: ignore[misc]
    }
    return {
        kind: bar_picture.svg(
            {
                f"{each.nodes:,} nodes": {name: max(value(each), 0.01) for name, value in bars.items()}
                for each in results
            },
            PICTURES[kind],
        )
        for kind, bars in groups.items()
    }


def main() -> int:
    """Run every size, print the table, and return the exit code: 1 where a value differs from the formula."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--nodes", type=int, nargs="+", default=[1000, 5000, 15000], help="default: %(default)s")
    parser.add_argument("--minutes", type=float, default=20.0, help="of reports of each size (default %(default)g)")
    parser.add_argument("--real-up-to", type=int, default=1000, help="nodes with a real etcd and kube-apiserver")
    parser.add_argument("--refresh-seconds", type=int, default=300, help="updateTimeThresholdSeconds (default: 300)")
    parser.add_argument("--traces", type=Path, default=TRACES, help="CSV of usage (default: an excerpt)")
    parser.add_argument("--pictures", type=Path, metavar="FOLDER", help="write fleet-latency.svg and others into it")
    arguments = parser.parse_args()
    steps = max(round(arguments.minutes), 5)
    with progress.step("making reports"):
        corpus = fleet_reports.make(sources.read_trace(arguments.traces), archetypes=ARCHETYPES, steps=steps)
    results = []
    for nodes in sorted(arguments.nodes):
        results.append(
            measure(corpus, nodes, arguments.minutes, arguments.refresh_seconds, is_real=nodes <= arguments.real_up_to)
        )
        for line in table(results[-1:]):
            progress.report(line)
    print(*table(results), "", *growth(results), sep="\n")
    if arguments.pictures:
        for kind, text in pictures(results).items():
            (arguments.pictures / f"fleet-{kind}.svg").write_text(text, encoding="utf-8")
    return int(any(each.rows["**drift: writes that differ from it**"] != "0" for each in results))


if __name__ == "__main__":
    sys.exit(main())
