"""A host of files with pods, the agent's observer of it, and a cluster with the same pods."""

from __future__ import annotations

import collections
from collections.abc import Sequence
from pathlib import Path

from api_types.kubernetes.priority_and_qos import PriorityClass, QoSClass
from api_types.node_metric import types as node_metric
from koordlet.cluster import spec_in_force
from koordlet.cluster.pods import PodOnNode, PodTable
from koordlet.node_observer import NodeObserver
from koordlet.prediction.allocation import WholeAmounts
from koordlet.report.builder import ReportBuilder
from tests.host_trees.clock import Clock
from tests.host_trees.plain_files import V1, PlainHost

START = 1.7e9
TRAIN_SECONDS = 30
GIB = 1 << 30


def bound_pod(name: str, priority_class: PriorityClass = PriorityClass.PROD, **overrides: object) -> PodOnNode:
    """Return a pod that requests one core and one GiB; its UID is its name."""
    values = {
        "uid": name,
        "namespace": "shop",
        "name": name,
        "priority_class": priority_class,
        "qos_class": QoSClass.LS,
        "cpu_request_millis": 1000,
        "memory_request_bytes": GIB,
        "mid_cpu_request_millis": 0,
        "mid_memory_request_bytes": 0,
        "is_terminated": False,
        "is_admitted": True,
        "cpu_limit_millis": None,
        "container_ids": frozenset(),
    }
    return PodOnNode(**{**values, **overrides})  # type: ignore[arg-type]


class StaticCluster:
    """A cluster in which nothing changes, on a node of 16 cores and 16 GiB that reserves half a core."""

    def __init__(self, *pods: PodOnNode, spec: dict[str, object] | None = None) -> None:
        self.pods = PodTable()
        for pod in pods:
            self.pods.put(pod)
        self.pods.keep_only([(pod.namespace, pod.name) for pod in pods])
        self.spec = node_metric.NodeMetricSpec.model_validate(spec or {})
        self.generation = 1
        self.conditions: Sequence[node_metric.NodeMetricCondition] = ()
        self.may_lack_pods = False
        self.reservation_problem = None
        self.spec_problem: str | None = None
        self.lacks_policy = False
        self.unreadable: dict[tuple[str, str], str] = {}
        self.capacity = WholeAmounts(16_000, 16 * GIB)
        self.allocatable = WholeAmounts(15_500, 15 * GIB)


class OneNode:
    """Runs the agent's observer on files, second by second, without waiting."""

    def __init__(self, root: Path, cluster: StaticCluster, version: str = V1, **options: object) -> None:
        self.host = PlainHost(root, version)
        self.cluster = cluster
        self.clock = Clock()
        self.observer = NodeObserver(root, 100, self.clock, **options)  # type: ignore[arg-type]
        self.reports = ReportBuilder(self.observer)
        self.seconds = 0
        self.node_cores, self.used_bytes = 4.0, 4 * GIB
        self.pod_cores: dict[str, float] = {}
        self.pod_bytes: dict[str, int] = {}
        self.used_seconds: collections.Counter[str] = collections.Counter()
        """CPU time of the node ("") and of each pod."""

    @property
    def now(self) -> float:
        return START + self.seconds

    @property
    def policy(self):
        return spec_in_force.predict_policy(self.cluster.spec.predict_policy)

    def run(self, seconds: int, after_writing=lambda: None) -> None:
        """Tick that often. A pod uses its `pod_cores`, and its `pod_bytes` or half a GiB."""
        for _ in range(seconds):
            self.seconds += 1
            self.clock.advance(1.0)
            self.used_seconds.update({"": self.node_cores, **self.pod_cores})
            self.host.set_node(round(self.used_seconds[""] * 100), self.used_bytes, cpus=16)
            for name in self.pod_cores:
                self.host.set_group(self.host.pod(name), self.used_seconds[name], self.pod_bytes.get(name, GIB // 2))
            after_writing()
            self.observer.observe(self.now, self.cluster)
            if self.seconds % TRAIN_SECONDS == 0:
                self.observer.train(self.now, spec_in_force.predict_parameters(self.policy))

    def report(self) -> dict[str, object]:
        """Return the status as it would be written."""
        forecast = self.reports.predict(self.now, self.cluster, self.policy)
        assert forecast is not None
        return self.reports.build(forecast, self.cluster, None).to_wire()

    def condition(self, name: str) -> dict[str, str]:
        (found,) = (each for each in self.report()["conditions"] if each["type"] == name)  # type: ignore[attr-defined]
        return found
