"""The experiments of bench_manager, on one size of cluster in a control plane of its own."""

from __future__ import annotations

import contextlib
import pathlib
import signal
import statistics
import time
import urllib.request
from collections.abc import Callable, Sequence
from typing import NamedTuple

from benchmarks import node_fleet, prometheus_page, synthetic_cluster
from tools.localcluster import content_cache, progress
from tools.localcluster.apiserver_requests import RequestError
from tools.localcluster.errors import ClusterProblem
from tools.localcluster.host import ports
from tools.localcluster.standalone_control_plane import ControlPlane, Running

NAMESPACE = "koordinator-system"
LEASE = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases/koord-manager"
CONFIG = {
    "enable": True,
    "degradeTimeMinutes": 60,
    "metricReportIntervalSeconds": 60,
    "updateTimeThresholdSeconds": 86400,  # so that every write is caused by a report
}
PODS_EACH = 50
PROBES = 20
"""Number of nodes whose reports show when a new leader acts."""


class Manager(NamedTuple):
    """One process of the manager."""

    running: Running
    port: int

    def count(self, metric: str) -> float:
        """Return the sum of a metric's samples."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/metrics", timeout=30) as answer:
            return prometheus_page.total(answer.read().decode(), f"koord_manager_{metric}")


class Cost(NamedTuple):
    """CPU of each process, in seconds or as a share of a core."""

    manager: float
    floor: float
    apiserver: float
    etcd: float


class Phase(NamedTuple):
    """Results of a phase of steady reports. `cpu` is net of the idle usage of the processes."""

    nodes: int
    moving_share: float
    reports: int
    seconds: float
    cpu: Cost
    whole_manager_cpu: float
    watch_events: float
    requests: float
    latencies: Sequence[float]
    manager_rss: float
    floor_rss: float

    def row(self) -> str:
        """Return the row of the table with the head `PHASE_HEAD`."""

        def per_report(cpu_seconds: float) -> str:
            return f"{cpu_seconds / self.reports * 1000:.2f}"

        cells = [
            self.nodes,
            f"{self.reports / self.seconds:.1f}",
            f"{self.moving_share:.0%}",
            per_report(self.cpu.manager),
            per_report(self.cpu.floor),
            f"{self.watch_events / self.reports:.2f}",
            f"{self.whole_manager_cpu / self.seconds:.1%}",
            per_report(self.cpu.apiserver),
            per_report(self.cpu.etcd),
            f"{self.requests / self.seconds:.1f}",
            quantiles(self.latencies),
            f"{self.manager_rss:.0f}",
            f"{self.floor_rss:.0f}",
        ]
        return f"| {' | '.join(map(str, cells))} |"


PHASE_HEAD = (
    "| nodes | reports/s | that move Mid | manager, ms CPU a report | kopf alone, ms | watch events a report "
    "| manager with its idling, of a core | kube-apiserver, ms | etcd, ms | manager's requests/s "
    "| report to status p50 / p99, s | manager RSS, MiB | kopf alone RSS |\n" + "|---" * 13 + "|"
)


def quantiles(seconds: Sequence[float]) -> str:
    """Format p50 / p99."""
    if len(seconds) < 2:
        return "-"
    return f"{statistics.median(seconds):.3f} / {statistics.quantiles(seconds, n=100)[98]:.3f}"


class Bench:
    """Experiments on one control plane; `rows` are the results that are one number each."""

    def __init__(self, plane: ControlPlane, nodes: int, python_flags: Sequence[str], source: pathlib.Path) -> None:
        self.plane = plane
        self.api = plane.connect()
        self.fleet = node_fleet.Fleet(plane, synthetic_cluster.node_names(nodes), PODS_EACH)
        self.nodes = nodes
        self.rows: list[str] = []
        self._python_flags, self._source = tuple(python_flags), source
        self._expected: set[str] = set()
        plane.install(content_cache.REPOSITORY / "crds/slo.koordinator.sh_nodemetrics.yaml", "koordinator-system")
        node_fleet.patch_config(self.api, NAMESPACE, CONFIG)
        with progress.step(f"registering {nodes} nodes"):
            self.fleet.create_nodes()
        self.published = node_fleet.PublishedMid(plane)
        self.specs = node_fleet.NodeMetricSpecs(plane)

    def start_manager(self, name: str) -> Manager:
        """Start the program as its image does; `name` is the name of its log."""
        port = ports.free_port()
        argv = ("-m", "manager", "run", "--kubeconfig", self.plane.kubeconfig)
        endpoint = ("--http-address", "127.0.0.1", "--http-port", port)
        flags, source = self._python_flags, self._source
        running = self.plane.start_python(name, *argv, *endpoint, flags=flags, source=source, MALLOC_ARENA_MAX="1")
        self._expected.add(name)
        return Manager(running, port)

    def stop(self, name: str, number: signal.Signals = signal.SIGTERM) -> None:
        """Stop a program that was started here."""
        self._expected.discard(name)
        self.plane.process(name).process.send_signal(number)

    def start_floor(self) -> Running:
        """Start kopf alone."""
        argv = ("-m", "benchmarks.kopf_floor", self.plane.kubeconfig)
        return self.plane.start_python("kopf-floor", *argv, flags=self._python_flags, source=self._source)

    def first_start(self) -> None:
        """Start a manager on a cluster without NodeMetrics; then let every node report once."""
        self.start_manager("manager-first")
        seconds = self._until(f"{self.nodes} NodeMetrics made", lambda: len(self.specs.arrived) == self.nodes)
        self._note("first start until every NodeMetric is made", f"{seconds:.1f} s")
        with progress.step("first reports"):
            self.fleet.report_all()
        self._until("Mid on every node", lambda: not self.published.wrong(self.fleet, self.fleet.names))
        self.stop("manager-first")

    def start_again(self, name: str) -> Manager:
        """Start a manager where every object exists already; probes show when it acts."""
        probes = self.fleet.names[:PROBES]
        self._report(probes)
        began = time.monotonic()
        manager = self.start_manager(name)
        self._until("right values after the start", lambda: not self.published.wrong(self.fleet, probes))
        self._note("start until right values", f"{time.monotonic() - began:.1f} s")
        self._until("every object listed", lambda: manager.count("watch_events_total") >= 2 * self.nodes, poll=1.0)
        self._until_idle(manager.running)
        self._note(
            "start until every object is listed and reconciled",
            f"{time.monotonic() - began:.1f} s, {manager.running.cpu_seconds():.1f} s of CPU, "
            f"RSS {manager.running.rss_mebibytes():.0f} MiB",
        )
        return manager

    def idle(self, manager: Manager, floor: Running, seconds: float = 20.0) -> Cost:
        """Measure the shares of a core without reports: renewals of the Lease, bookmarks, timers."""
        for running in (manager.running, floor):
            self._until_idle(running)
        before = self._cpu(manager, floor)
        with progress.step(f"nothing for {seconds:.0f} s"):
            time.sleep(seconds)
        shares = Cost(*((b - a) / seconds for a, b in zip(before, self._cpu(manager, floor), strict=True)))
        self._note("idle, of a core", ", ".join(f"{name} {share:.1%}" for name, share in shares._asdict().items()))
        return shares

    def steady(self, manager: Manager, floor: Running, idle: Cost, seconds: float, moving_share: float) -> Phase:
        """Report at the rate of the cluster's size, or at the rate that the apiserver accepts."""
        events, requests = manager.count("watch_events_total"), self._requests()
        rate = self.nodes / float(CONFIG["metricReportIntervalSeconds"])
        before, began = self._cpu(manager, floor), time.monotonic()
        with progress.step(f"{rate:.1f} reports/s for {seconds:.0f} s, {moving_share:.0%} of them move Mid"):
            reports, reporting_seconds = self.fleet.report_for(seconds, rate, moving_share=moving_share)
        self._until_idle(manager.running)
        took = time.monotonic() - began
        spent = Cost(*(b - a for a, b in zip(before, self._cpu(manager, floor), strict=True)))
        phase = Phase(
            self.nodes,
            moving_share,
            reports,
            reporting_seconds,
            cpu=Cost(*(cpu - share * took for cpu, share in zip(spent, idle, strict=True))),
            whole_manager_cpu=spent.manager,
            watch_events=manager.count("watch_events_total") - events,
            requests=self._requests() - requests,
            latencies=self.published.latencies(self.fleet, began),
            manager_rss=manager.running.rss_mebibytes(),
            floor_rss=floor.rss_mebibytes(),
        )
        progress.report(phase.row())
        return phase

    def _cpu(self, manager: Manager, floor: Running) -> Cost:
        servers = [self.plane.process(name) for name in ("kube-apiserver", "etcd")]
        return Cost(*(each.cpu_seconds() for each in (manager.running, floor, *servers)))

    def change_every_spec(self, manager: Manager) -> None:
        """Edit the ConfigMap so that the spec of every NodeMetric changes."""
        self.specs.arrived.clear()
        processes = [manager.running, self.plane.process("kube-apiserver")]
        before, began = [each.cpu_seconds() for each in processes], time.monotonic()
        node_fleet.patch_config(self.api, NAMESPACE, CONFIG | {"metricReportIntervalSeconds": 45})
        arrived = self.specs.arrived
        self._until("every spec changed", lambda: len(arrived) == self.nodes)
        moments = sorted(arrived.values())
        cpu = [(each.cpu_seconds() - past) / self.nodes * 1000 for each, past in zip(processes, before, strict=True)]
        ahead = [sum(moment <= other < moment + 1 for other in moments) for moment in moments[:: self.nodes // 50]]
        self._note(
            "ConfigMap edit until every spec is changed",
            f"{moments[-1] - began:.1f} s (first after {moments[0] - began:.2f} s), at most {max(ahead)} writes/s; "
            f"CPU of a change: manager {cpu[0]:.1f} ms, kube-apiserver {cpu[1]:.1f} ms",
        )

    def take_over(self, leader: str, *, standby: str, kill: bool) -> Manager:
        """Stop or kill the leader, and report; the standby must publish the right values. Starts a new standby."""
        successor = self.start_manager(standby)
        self._until_idle(successor.running)
        before = self._holder()
        probes = self.fleet.names[:PROBES]
        began = time.monotonic()
        self.stop(leader, signal.SIGKILL if kill else signal.SIGTERM)
        self._report(probes)
        self._until("another leader", lambda: self._holder() not in ("", before))
        led = time.monotonic() - began
        self._until("right values", lambda: not self.published.wrong(self.fleet, probes))
        how = "killed" if kill else "stopped"
        self._note(f"leader {how}: standby leads, right values", f"{led:.1f} s, {time.monotonic() - began:.1f} s")
        return successor

    def _report(self, names: Sequence[str]) -> None:
        for name in names:
            self.fleet.report(self.api, name, moves=True)

    def _requests(self) -> float:
        """Return the number of served requests of the kinds that only the manager sends here."""
        page = self.api.raw("GET", "/metrics").decode()
        managers = {
            ("PATCH", "nodes"),
            ("PATCH", "nodemetrics"),
            ("POST", "events"),
            ("LIST", "pods"),
            ("PUT", "leases"),
        }
        return sum(
            each.value
            for each in prometheus_page.samples(page, "apiserver_request_total")
            if (each.labels["verb"], each.labels["resource"]) in managers
        )

    def _holder(self) -> str:
        with contextlib.suppress(RequestError):
            return str(self.api.send("GET", LEASE)["spec"].get("holderIdentity") or "")
        return ""

    def _until_idle(self, running: Running) -> None:
        """Wait until it uses less than a twentieth of a core over 5 s: between two pages of a list it is idle too."""

        def idles() -> bool:
            before = running.cpu_seconds()
            time.sleep(5.0)
            return running.cpu_seconds() - before < 0.25

        self._until(f"{running.name} idle", idles)

    def _until(
        self, what: str, is_so: Callable[[], bool], timeout_seconds: float = 900, *, poll: float = 0.05
    ) -> float:
        def give_up() -> None:
            raise ClusterProblem(f"{what}: not reached after {timeout_seconds:.0f} s")

        def is_so_and_all_live() -> bool:
            for name in self._expected:
                self.plane.process(name)
            return is_so()

        began = time.monotonic()
        progress.wait_until(what, is_so_and_all_live, timeout_seconds, otherwise=give_up, poll=poll)
        return time.monotonic() - began

    def _note(self, what: str, value: str) -> None:
        progress.report(f"{what}: {value}")
        self.rows.append(f"| {self.nodes} | {what} | {value} |")
