"""A throttled pod, from its files to /metrics and to the conditions of the report."""

from __future__ import annotations

import msgspec
import pytest
from prometheus_client import CollectorRegistry

from api_types.mid_pods import cpu_limits
from api_types.node_metric import types as node_metric
from koordlet.cluster import pods, spec_in_force
from koordlet.cluster.pods import PodTable
from koordlet.collectors.pod_pressure import POD_PRESSURE_TICKS
from koordlet.metrics import agent as metrics
from koordlet.node_observer import NodeObserver
from koordlet.prediction.allocation import WholeAmounts
from koordlet.prediction.checkpointer import Checkpointer
from koordlet.report.builder import ReportBuilder
from tests.host_trees.plain_files import V2, PlainHost, rewrite
from tests.koordlet.one_node import bound_pod

UID, CID = "a", "c" * 64
PRESSURE = "some avg10=0.00 avg60=0.00 avg300=0.00 total={}\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=0\n"
POLICY = spec_in_force.predict_policy(None)


class OnePod:
    """A cluster with one Prod pod on a node of four cores."""

    def __init__(self):
        self.pods = PodTable()
        self.pods.put(bound_pod("cart-0", uid=UID, container_ids=frozenset({CID})))
        self.pods.keep_only([("shop", "cart-0")])
        self.spec = node_metric.NodeMetricSpec()
        self.generation = None
        self.may_lack_pods = False
        self.reservation_problem = None
        self.conditions = ()
        self.spec_problem = None
        self.lacks_policy = False
        self.unreadable = {}
        self.allocatable = self.capacity = WholeAmounts(4000, 16 << 30)


class Node:
    """A host with that pod, and the agent's observer of it."""

    def __init__(self, root, with_pressure):
        self.files = PlainHost(root, V2)
        self.with_pressure = with_pressure
        self.observer = NodeObserver(root, 1500)
        self.reports = ReportBuilder(self.observer)
        self.ticks = 0
        self.set_periods(0, 0)

    def set_periods(self, periods, throttled):
        groups = self.files.pod(UID), self.files.container(UID, CID)
        for group in groups:
            if not (self.files.cpu_mount / group).exists():
                self.files.set_group(group, 0.0, 0)
        text = f"usage_usec 0\nuser_usec 0\nsystem_usec 0\nnr_periods {periods}\nnr_throttled {throttled}\n"
        for folder in (self.files.cpu_mount / "kubepods", *(self.files.cpu_mount / group for group in groups)):
            rewrite(folder / "cpu.stat", text)
            for resource in ("cpu", "memory", "io") if self.with_pressure else ():
                rewrite(folder / f"{resource}.pressure", PRESSURE.format(3_000_000))
                pressure = self.files.host_root.proc_root / "pressure"
                pressure.mkdir(exist_ok=True)
                rewrite(pressure / resource, PRESSURE.format(9_000_000))

    def run(self, ticks):
        for _ in range(ticks):
            self.files.set_node(0, 1 << 30)
            self.ticks += 1
            self.observer.observe(1000.0 + self.ticks, OnePod())

    def sample(self, name, **labels):
        registry = CollectorRegistry()
        registry.register(
            metrics.AgentCollector(
                self.reports,
                metrics.Counts(),
                {},
                Checkpointer("", "n1", self.observer.server),
                cluster=OnePod(),
            )
        )
        return registry.get_sample_value(name, labels)

    def conditions(self, cluster=None):
        now = 1000.0 + self.ticks
        self.observer.train(now, spec_in_force.predict_parameters(POLICY))
        cluster = cluster or OnePod()
        status = self.reports.build(self.reports.predict(now, cluster, POLICY), cluster, None)
        return {each.type: each for each in status.conditions}


@pytest.fixture
def node(tmp_path):
    node = Node(tmp_path, with_pressure=True)
    yield node
    node.observer.collector.close()


def test_a_throttled_prod_pod_is_named_while_it_is_throttled_and_degrades_nothing(node):
    node.run(1)
    node.set_periods(100, 40)
    node.run(POD_PRESSURE_TICKS)
    condition = node.conditions()["Throttled"]
    assert (condition.status, condition.reason) == ("True", "ThrottledPods")
    assert "shop/cart-0" in condition.message
    node.set_periods(200, 41)
    node.run(POD_PRESSURE_TICKS)
    found = node.conditions()
    assert (found["Throttled"].status, found["Throttled"].reason) == ("False", "NotThrottled")
    assert found["PredictionDegraded"].reason == "Predicting"


@pytest.mark.parametrize(("memory", "is_named"), [({}, True), ({"kubernetes.io/mid-memory": "1Gi"}, False)])
def test_a_mid_pod_with_a_container_without_a_limit_is_named(node, memory, is_named):
    mid = {"name": "main", "resources": {"limits": {"kubernetes.io/mid-cpu": "500", **memory}}}
    document = {"metadata": {"name": "etl", "namespace": "shop", "uid": "b"}, "spec": {"priority": 7000}}
    document["spec"]["containers"] = [mid]
    cluster = OnePod()
    cluster.pods.put(pods.describe(msgspec.convert(document, cpu_limits.WrittenPod)))
    node.run(POD_PRESSURE_TICKS)
    condition = node.conditions(cluster).get("MidPodsWithoutLimits")
    assert (
        condition is not None and "1 Mid pods lack a limit of CPU or memory: shop/etl" in condition.message
    ) is is_named


def test_metrics_have_the_pod_and_its_waiting_time(node):
    node.run(1)
    node.set_periods(100, 40)
    node.run(POD_PRESSURE_TICKS)
    assert node.sample("koordlet_pod_throttled_ratio", namespace="shop", pod="cart-0") == 0.4
    assert node.sample("koordlet_node_stalled_seconds_total", resource="io", kind="some") == 9.0
    labels = {"namespace": "shop", "pod": "cart-0", "resource": "cpu"}
    assert node.sample("koordlet_pod_stalled_seconds_total", kind="some", **labels) == 3.0
    assert node.sample("koordlet_pod_stalled_seconds_total", kind="full", **labels) == 0.0
    assert node.sample("koordlet_source_supported", source="pod pressure") == 1.0


def test_a_kernel_without_pressure_shows_as_unsupported_and_degrades_no_source(tmp_path):
    node = Node(tmp_path, with_pressure=False)
    node.run(2)
    assert node.sample("koordlet_source_supported", source="pod pressure") == 0.0
    assert node.sample("koordlet_source_supported", source="node pressure") == 0.0
    assert node.sample("koordlet_source_supported", source="pod throttling") == 1.0
    assert node.sample("koordlet_node_stalled_seconds_total", resource="io", kind="some") is None
    assert node.conditions()["SourceDegraded"].status == "False"
    node.observer.collector.close()


class TickBetweenTwoPods(dict):
    """Pods by UID; reading one triggers a tick of the other thread in which a pod appears."""

    def __init__(self, node, pods):
        super().__init__(pods)
        self.node = node

    def get(self, uid, default=None):
        self.node.files.set_group(self.node.files.pod("new"), 0.0, 0)
        self.node.run(1)
        return super().get(uid, default)


def test_a_pod_that_comes_while_metrics_are_read_does_no_harm(node):
    node.run(1)
    cluster = OnePod()
    pods = TickBetweenTwoPods(node, cluster.pods.by_uid())
    cluster.pods.by_uid = lambda: pods
    node.observer.observe(1002.0, cluster)
    labels = {"namespace": "shop", "pod": "cart-0", "resource": "cpu", "kind": "some"}
    assert node.sample("koordlet_pod_stalled_seconds_total", **labels) == 3.0


def test_a_pod_that_is_gone_leaves_the_metrics(node):
    node.run(2)
    labels = {"namespace": "shop", "pod": "cart-0", "resource": "cpu", "kind": "some"}
    assert node.sample("koordlet_pod_stalled_seconds_total", **labels) == 3.0
    node.files.remove_group(node.files.pod(UID))
    node.run(2)
    assert node.sample("koordlet_pod_stalled_seconds_total", **labels) is None
