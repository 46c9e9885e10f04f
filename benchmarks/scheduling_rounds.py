"""Round of bench_scheduler: a backlog of pods, kube-scheduler with or without an extender, until all are bound."""

from __future__ import annotations

import contextlib
import multiprocessing
import pathlib
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any, NamedTuple

import msgspec
import psutil
import yaml

from benchmarks import bench_extender, c_extender, node_fleet, prometheus_page, synthetic_cluster
from tools.localcluster import apiserver_requests, content_cache, go_binaries, progress
from tools.localcluster.errors import ClusterProblem
from tools.localcluster.host import ports
from tools.localcluster.standalone_control_plane import ControlPlane, Running
from tools.peers import programs

NAMESPACE = "benchmark"
PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
SCHEDULER_NAME = "benchmark-scheduler"
PRIORITY_CLASS = "koord-prod"
PODS_REPORTED = 30
WEIGHTS = {
    "TaintToleration": 30, "NodeAffinity": 20, "NodeResourcesFit": 10, "PodTopologySpread": 20, "InterPodAffinity": 20,
    "NodeResourcesBalancedAllocation": 10, "ImageLocality": 10,
}  # fmt: skip
"""Weights of the chart: ten times the default, because kube-scheduler multiplies an extender's score by ten."""
LOAD_AWARE, ARGUMENTS = "LoadAwareScheduling", {
    "usageThresholds": {"cpu": 65, "memory": 95}, "nodeMetricExpirationSeconds": 86400
}  # fmt: skip
"""Arguments of the chart; reports are made once, so they must not expire."""

SKIPPED = "Skipping extender as it returned error"
_ALGORITHM = "scheduler_scheduling_algorithm_duration_seconds"


class _Spec(msgspec.Struct, rename="camel", frozen=True):
    node_name: str = ""


class _Metadata(msgspec.Struct):
    name: str


class _Pod(msgspec.Struct):
    metadata: _Metadata
    spec: _Spec = _Spec()


class Bound:
    """Node of each bound pod, and the time of its watch event."""

    def __init__(self, plane: ControlPlane) -> None:
        self.nodes: dict[str, str] = {}
        self.moments: dict[str, float] = {}
        apiserver_requests.follow(plane.connect, PODS, _Pod, self._see)

    def _see(self, pod: _Pod) -> None:
        if pod.spec.node_name and pod.metadata.name not in self.nodes:
            self.moments[pod.metadata.name] = time.monotonic()
            self.nodes[pod.metadata.name] = pod.spec.node_name


class Extender(NamedTuple):
    """Port of an extender."""

    port: int

    def running(self) -> Running:
        """Return the process that listens on the port."""
        listening = (each for each in psutil.net_connections("tcp4") if each.status == psutil.CONN_LISTEN)
        (pid,) = {each.pid for each in listening if each.laddr.port == self.port}
        return Running("extender", psutil.Process(pid))


class Inside(NamedTuple):
    """Build of kube-scheduler with a plugin, and the process that the plugin asks, if any."""

    program: pathlib.Path
    plugin: str
    arguments: dict[str, Any]
    process: Running | None = None
    ready_path: str = "/readyz"

    def running(self) -> Running | None:
        """Return the process."""
        return self.process


Variant = Callable[[ControlPlane, node_fleet.Fleet], AbstractContextManager[Extender | Inside | None]]


@contextlib.contextmanager
def without(_plane: ControlPlane, _fleet: node_fleet.Fleet) -> Iterator[None]:
    """Run kube-scheduler alone."""
    yield None


@contextlib.contextmanager
def doing_nothing(_plane: ControlPlane, _fleet: node_fleet.Fleet) -> Iterator[Extender]:
    """Run the extender in C that passes every name and scores it 0."""
    with c_extender.running() as port:
        yield Extender(port)


@contextlib.contextmanager
def naive(_plane: ControlPlane, fleet: node_fleet.Fleet) -> Iterator[Extender]:
    """Run an extender of http.server, json and a loop over dictionaries."""
    receiver, sender = multiprocessing.Pipe()
    start = multiprocessing.get_context("spawn").Process
    process = start(target=bench_extender.serve_naive, args=(sender, list(fleet.names)), daemon=True)
    process.start()
    try:
        yield Extender(receiver.recv())
    finally:
        process.terminate()
        process.join()


@contextlib.contextmanager
def suite(
    plane: ControlPlane,
    _fleet: node_fleet.Fleet,
    *,
    source: pathlib.Path = content_cache.REPOSITORY,
) -> Iterator[Extender]:
    """Run `python -m scheduler_plugin` of the checkout `source`, and wait until it is ready."""
    port = ports.free_port()
    with _scheduler_plugin(plane, "--extender-port", port, page="/readyz", source=source):
        yield Extender(port)


@contextlib.contextmanager
def inside(plane: ControlPlane, _fleet: node_fleet.Fleet) -> Iterator[Inside]:
    """Run `python -m scheduler_plugin` for the plugin inside kube-scheduler, and wait until it knows the nodes."""
    socket = plane.places.state / "plugin.sock"
    with _scheduler_plugin(plane, "--plugin-socket", socket, page="/startupz") as process:
        arguments = {"socket": str(socket), "deadlineMilliseconds": 5000}
        yield Inside(go_binaries.scheduler_with_plugin(), "KoordSuite", arguments, process)


@contextlib.contextmanager
def koordinator(_plane: ControlPlane, _fleet: node_fleet.Fleet) -> Iterator[Inside]:
    """Run koord-scheduler with LoadAwareScheduling as the only plugin that kube-scheduler lacks."""
    kind = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": f"{LOAD_AWARE}Args"}
    program = programs.program("koord-scheduler")
    yield Inside(program, LOAD_AWARE, kind | ARGUMENTS, ready_path="/healthz")


@contextlib.contextmanager
def _scheduler_plugin(
    plane: ControlPlane, *flags: object, page: str, source: pathlib.Path = content_cache.REPOSITORY
) -> Iterator[Running]:
    """Run `python -m scheduler_plugin` of the checkout `source` with more flags until the page answers."""
    config, http_port = plane.places.state / "scheduler-plugin.yaml", ports.free_port()
    config.write_text(yaml.safe_dump({"pluginConfig": [{"name": LOAD_AWARE, "args": ARGUMENTS}]}))
    process = plane.start_python(
        "scheduler-plugin", "-m", "scheduler_plugin", "run", "--config", config, "--kubeconfig", plane.kubeconfig,
        *flags, "--http-address", "127.0.0.1", "--http-port", http_port,
        source=source, OPENBLAS_NUM_THREADS="1", KOORD_SCHEDULER_DEBUG_PORT="0",
    )  # fmt: skip
    try:
        plane.wait_for_page(process, http_port, page)
        yield process
    finally:
        plane.stop("scheduler-plugin")


class Result(NamedTuple):
    """Result of one round. `cycle_*` are kube-scheduler's own times, from taking a pod to choosing its node, in ms."""

    pods_per_second: float
    cycle_mean: float
    cycle_p50: float
    cycle_p99: float
    scheduler_cpu_ms: float
    extender_cpu_ms: float


def configuration(extender: Extender | Inside | None, percent: int, *, own_scores: bool = True) -> dict[str, Any]:
    """Return a KubeSchedulerConfiguration as in the chart; a percentage of 0 is kube-scheduler's default sampling."""
    if isinstance(extender, Inside):
        profile = {
            "schedulerName": SCHEDULER_NAME,
            "plugins": {"multiPoint": {"enabled": [{"name": extender.plugin, "weight": 1}]}},
            "pluginConfig": [{"name": extender.plugin, "args": extender.arguments}],
        }
        return {"profiles": [profile], "percentageOfNodesToScore": percent}
    enabled = [{"name": name, "weight": weight} for name, weight in WEIGHTS.items()]
    plugins = {"multiPoint": {"enabled": enabled}} if own_scores else {"score": {"disabled": [{"name": "*"}]}}
    profile = {"schedulerName": SCHEDULER_NAME, "plugins": plugins}
    found: dict[str, Any] = {"profiles": [profile], "percentageOfNodesToScore": percent}
    if extender:
        found["extenders"] = [
            {
                "urlPrefix": f"http://127.0.0.1:{extender.port}",
                "filterVerb": "filter",
                "prioritizeVerb": "prioritize",
                "weight": 1,
                "nodeCacheCapable": True,
                "httpTimeout": "5s",  # not the chart's 300 ms: calls that time out would count as fast
                "ignorable": True,
            }
        ]
    return found


def pod(name: str) -> dict[str, Any]:
    """Return a pod of 5 kB; the requests of all have a mean of a core and 2 GiB."""
    made = synthetic_cluster.pod(name)
    del made["status"], made["spec"]["priority"], made["spec"]["nodeName"]
    made["metadata"] = {"name": name, "namespace": NAMESPACE, "labels": {"app": "web"}}
    made["spec"] |= {"schedulerName": SCHEDULER_NAME, "priorityClassName": PRIORITY_CLASS}
    return made


def prepare(plane: ControlPlane, nodes: int, *, alike: bool = False) -> node_fleet.Fleet:
    """Create nodes with reports, a namespace and a priority class."""
    api = plane.connect()
    plane.install(content_cache.REPOSITORY / "crds/slo.koordinator.sh_nodemetrics.yaml", "koordinator-system")
    api.send("POST", "/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
    api.send(
        "POST", "/apis/scheduling.k8s.io/v1/priorityclasses", {"metadata": {"name": PRIORITY_CLASS}, "value": 9000}
    )
    fleet = node_fleet.Fleet(plane, synthetic_cluster.node_names(nodes), PODS_REPORTED, alike=alike)
    with progress.step(f"registering {nodes} nodes and their first reports"):
        fleet.create_nodes()
        fleet.create_node_metrics()
        fleet.report_all()
    return fleet


def create_pods(plane: ControlPlane, names: list[str]) -> None:
    """Create pods."""
    apiserver_requests.in_parallel(plane.connect, names, lambda api, name: api.send("POST", PODS, pod(name)))


def delete_pods(plane: ControlPlane) -> None:
    """Delete all pods without grace period: there is no kubelet."""
    api = plane.connect()
    options = {"kind": "DeleteOptions", "apiVersion": "v1", "gracePeriodSeconds": 0}
    api.send("DELETE", PODS, options)


def play(
    plane: ControlPlane, fleet: node_fleet.Fleet, variant: Variant, *, percent: int, bound: Bound, names: list[str]
) -> Result:
    """Run one round: the backlog `names` from creation to deletion."""
    create_pods(plane, names)
    try:
        with variant(plane, fleet) as extender:
            build = (extender.program, extender.ready_path) if isinstance(extender, Inside) else ()
            scheduler = plane.start_scheduler(configuration(extender, percent), *build)
            asked = extender.running() if extender else None
            processes = [scheduler, *([asked] if asked else [])]
            before = [0.0, *(each.cpu_seconds() for each in processes[1:])]
            until(f"{len(names)} pods bound", lambda: sum(name in bound.nodes for name in names) == len(names))
            cpu = [each.cpu_seconds() - past for each, past in zip(processes, before, strict=True)]
            metrics = plane.scheduler_metrics()
            if SKIPPED in plane.log("kube-scheduler").read_text():
                raise ClusterProblem("kube-scheduler skipped the extender after an error: see kube-scheduler's log")
    finally:
        plane.stop("kube-scheduler")
        delete_pods(plane)
    moments = sorted(bound.moments[name] for name in names)
    first = len(moments) // 10  # the scheduler's warm-up
    rate = (len(moments) - 1 - first) / (moments[-1] - moments[first])
    mean, p50, p99 = (milliseconds * 1000 for milliseconds in cycle_seconds(metrics))
    per_pod = [spent / len(names) * 1000 for spent in (*cpu, 0.0)]
    return Result(rate, mean, p50, p99, per_pod[0], per_pod[1])


def cycle_seconds(page: str) -> tuple[float, float, float]:
    """Return mean, p50 and p99 of the scheduling algorithm."""
    total, count = (prometheus_page.total(page, f"{_ALGORITHM}_{part}") for part in ("sum", "count"))
    cumulative = prometheus_page.buckets(page, _ALGORITHM)
    p50, p99 = (prometheus_page.quantile(cumulative, share) for share in (0.5, 0.99))
    return total / count, p50, p99


def until(what: str, is_so: Callable[[], bool], timeout_seconds: float = 120) -> None:
    """Wait until a condition is true."""

    def give_up() -> None:
        raise ClusterProblem(f"{what}: not reached after {timeout_seconds:.0f} s")

    progress.wait_until(what, is_so, timeout_seconds, otherwise=give_up, poll=0.02)
