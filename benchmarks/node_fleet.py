"""Nodes of a benchmark's control plane: created, reported on as agents do (PUT nodemetrics/status), and watched.

Every node has 32 cores and 20 of them requested by Prod pods; a report's predicted peak is LOW or HIGH, so the values
that the manager must publish are known.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from benchmarks import synthetic_cluster
from tools.localcluster import apiserver_requests
from tools.localcluster.apiserver_requests import MERGE_PATCH, NODE_METRICS, NODES, Connection, RequestError
from tools.localcluster.standalone_control_plane import ControlPlane

PROD_REQUEST_MILLIS = 20_000  # as in `allocated` of synthetic_cluster
LOW_PEAK_MILLIS, HIGH_PEAK_MILLIS = 8_000, 12_000
CONFLICT = 409


def mid_cpu_of(peak_millis: int) -> int:
    """Return the value of the formula with every default: requests minus peak (the other bounds are larger)."""
    return PROD_REQUEST_MILLIS - peak_millis


@dataclass
class _Reporting:
    """State of the agent of one node."""

    template: bytes
    version: str = ""
    peak_millis: int = LOW_PEAK_MILLIS


@dataclass
class Fleet:
    """Nodes that report: each its own usage, or `alike`.

    `sent` has the time at which each report (node, its updateTime) that moves Mid was sent.
    """

    plane: ControlPlane
    names: Sequence[str]
    pods_each: int
    alike: bool = False
    sent: dict[tuple[str, str], float] = field(default_factory=dict)
    _agents: dict[str, _Reporting] = field(default_factory=dict)

    def create_nodes(self) -> None:
        """Create Node objects, with the status that a kubelet writes."""
        self._each(self.names, _create_node)

    def create_node_metrics(self) -> None:
        """Create empty NodeMetrics, for benchmarks without a manager."""

        def create(api: Connection, name: str) -> None:
            spec = {"metricCollectPolicy": {"reportIntervalSeconds": 60}}
            body = {"apiVersion": "slo.koordinator.sh/v1alpha1", "kind": "NodeMetric", "metadata": {"name": name}}
            api.send("POST", NODE_METRICS, {**body, "spec": spec})

        self._each(self.names, create)

    def report_all(self, *, moves: bool = False) -> None:
        """Send one report of every node, as fast as the apiserver accepts them."""
        self._each(self.names, lambda api, name: self.report(api, name, moves=moves))

    def report(self, api: Connection, name: str, *, moves: bool) -> None:
        """Send one report; where it `moves`, with the other peak than the last one."""
        if name not in self._agents:
            usage_of = self.names[0] if self.alike else name
            self._agents[name] = _agent(name, self.pods_each, usage_of)
        agent = self._agents[name]
        if moves:
            agent.peak_millis = LOW_PEAK_MILLIS + HIGH_PEAK_MILLIS - agent.peak_millis
        while not self._put(api, name, agent, moves=moves):  # the manager has changed its spec meanwhile
            agent.version = apiserver_requests.version_of.decode(
                api.raw("GET", f"{NODE_METRICS}/{name}")
            ).metadata.resource_version

    def _put(self, api: Connection, name: str, agent: _Reporting, *, moves: bool) -> bool:
        """Replace the status of the version that was read last; return False where that version is outdated."""
        if not agent.version:
            return False
        now = synthetic_cluster.moment(time.time())
        body = agent.template.replace(b"@version@", agent.version.encode()).replace(b"@time@", now.encode())
        body = body.replace(b"@peak@", b"%dm" % agent.peak_millis)
        if moves:
            self.sent[name, now] = time.monotonic()
        try:
            answer = api.raw("PUT", f"{NODE_METRICS}/{name}/status", body)
        except RequestError as refused:
            if refused.status != CONFLICT:
                raise
            return False
        agent.version = apiserver_requests.version_of.decode(answer).metadata.resource_version
        return True

    def report_for(self, seconds: float, per_second: float, *, moving_share: float) -> tuple[int, float]:
        """Report at a steady rate, one node after the other; return the number of reports and the seconds."""
        began = time.monotonic()

        def send(api: Connection, number: int) -> None:
            time.sleep(max(began + number / per_second - time.monotonic(), 0))
            moves = int((number + 1) * moving_share) > int(number * moving_share)
            if time.monotonic() < began + seconds * 1.2:  # an overloaded apiserver gets fewer
                self.report(api, self.names[number % len(self.names)], moves=moves)
                sent.append(number)

        sent: list[int] = []
        self._each(range(int(seconds * per_second)), send)
        return len(sent), time.monotonic() - began

    def wanted_mid_cpu(self, name: str) -> int:
        """Return the value to publish after the last report of a node."""
        return mid_cpu_of(self._agents[name].peak_millis)

    def _each(self, jobs: Iterable[Any], do: Callable[[Connection, Any], None]) -> None:
        apiserver_requests.in_parallel(self.plane.connect, jobs, do, threads=4)


def _create_node(api: Connection, name: str) -> None:
    node = synthetic_cluster.node(name)
    for given_by_the_apiserver in ("uid", "resourceVersion"):
        del node["metadata"][given_by_the_apiserver]
    del node["spec"]["podCIDR"]
    node["metadata"]["labels"]["kubernetes.io/hostname"] = name
    node["status"]["conditions"] = [{"type": "Ready", "status": "True"}]
    api.send("POST", NODES, node)


def _agent(name: str, pods_each: int, usage_of: str) -> _Reporting:
    report = synthetic_cluster.node_metric(usage_of, pods_each, 0)
    report |= {"apiVersion": "slo.koordinator.sh/v1alpha1", "kind": "NodeMetric"}
    report["metadata"] = {"name": name, "resourceVersion": "@version@"}
    amounts = {"cpu": "@peak@", "memory": "32Gi"}
    report["status"] |= {
        "updateTime": "@time@",
        "prodPeakMetric": {"resource": {"resources": amounts}},
        "prediction": {
            "predictor": "n-sigma-v2", "parameters": {"n": 5}, "time": "@time@", "warmPods": pods_each, "coldPods": 0,
            "node": dict.fromkeys(("mean", "stdev", "peak"), amounts),
            "prod": dict.fromkeys(("peak", "classPeak", "podSumPeak", "coldRequests", "systemPeak"), amounts),
        },
    }  # fmt: skip
    return _Reporting(json.dumps(report, separators=(",", ":")).encode())


class _Status(msgspec.Struct):
    sample: str = ""


class _SeenMetadata(msgspec.Struct):
    name: str
    annotations: dict[str, str] = {}


class _SeenStatus(msgspec.Struct, frozen=True):
    allocatable: dict[str, str] = {}


class _SeenObject(msgspec.Struct):
    metadata: _SeenMetadata
    status: _SeenStatus = _SeenStatus()
    spec: dict[str, Any] = {}


class PublishedMid:
    """Published values, and when the value of each sample appeared on its node."""

    def __init__(self, plane: ControlPlane) -> None:
        self.mid_cpu: dict[str, int] = {}
        self.arrived: dict[tuple[str, str], float] = {}
        apiserver_requests.follow(plane.connect, NODES, _SeenObject, self._see)

    def _see(self, node: _SeenObject) -> None:
        now, name = time.monotonic(), node.metadata.name
        if text := node.metadata.annotations.get("koordinator.sh/mid-resource-status"):
            sample = msgspec.json.decode(text, type=_Status).sample
            self.arrived.setdefault((name, sample), now)
        if "kubernetes.io/mid-cpu" in node.status.allocatable:
            self.mid_cpu[name] = _number(node.status.allocatable["kubernetes.io/mid-cpu"])

    def wrong(self, fleet: Fleet, names: Iterable[str]) -> list[str]:
        """Return the nodes whose values do not match their last report."""
        return [name for name in names if self.mid_cpu.get(name) != fleet.wanted_mid_cpu(name)]

    def latencies(self, fleet: Fleet, since: float) -> list[float]:
        """Return the seconds from sending a report to its value on the node, of all reports that caused a write."""
        both = fleet.sent.keys() & self.arrived.keys()
        return [self.arrived[key] - fleet.sent[key] for key in both if fleet.sent[key] >= since]


class NodeMetricSpecs:
    """Time of the last change of each NodeMetric's spec."""

    def __init__(self, plane: ControlPlane) -> None:
        self.arrived: dict[str, float] = {}
        self._known: dict[str, dict[str, Any]] = {}
        apiserver_requests.follow(plane.connect, NODE_METRICS, _SeenObject, self._see)

    def _see(self, metric: _SeenObject) -> None:
        name = metric.metadata.name
        if self._known.get(name) != metric.spec:
            self._known[name] = metric.spec
            self.arrived[name] = time.monotonic()


def _number(quantity: str) -> int:
    return int(quantity[:-1]) * 1000 if quantity.endswith("k") else int(quantity)


def patch_config(api: Connection, namespace: str, document: dict[str, Any]) -> None:
    """Apply a colocation-config, creating the ConfigMap where there is none."""
    body = {"data": {"colocation-config": json.dumps(document)}}
    path = f"/api/v1/namespaces/{namespace}/configmaps"
    try:
        api.send("PATCH", f"{path}/slo-controller-config", body, content=MERGE_PATCH)
    except RequestError:
        api.send("POST", path, {**body, "metadata": {"name": "slo-controller-config"}})
