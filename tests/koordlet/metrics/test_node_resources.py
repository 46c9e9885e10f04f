"""What the node leaves to pods and what they request; and the time for which Prod uses more than its peak."""

import prometheus_client
import pytest

from api_types.kubernetes.priority_and_qos import PriorityClass
from koordlet.cluster.view import ClusterView
from koordlet.metrics.node_resources import NodeResourcesCollector
from koordlet.node_observer import NodeObserver
from koordlet.prediction.allocation import WholeAmounts
from koordlet.prediction.peak_comparison import PeakComparison
from koordlet.samples import Resource, UsageSample
from tests.koordlet.one_node import GIB, OneNode, StaticCluster, bound_pod

PEAK = WholeAmounts(2000, GIB)


def test_time_counts_for_each_resource_on_its_own():
    comparison = PeakComparison()
    comparison.add(1.0, UsageSample(2.5, GIB // 2), PEAK)
    comparison.add(2.0, UsageSample(2.0, 2 * GIB), PEAK)
    assert comparison.compared == {Resource.CPU: 3.0, Resource.MEMORY: 3.0}
    assert comparison.exceeded == {Resource.CPU: 1.0, Resource.MEMORY: 2.0}


@pytest.mark.parametrize(("usage", "peak"), [(None, PEAK), (UsageSample(9.0, 9 * GIB), None)])
def test_unknown_time_is_not_compared(usage, peak):
    comparison = PeakComparison()
    comparison.add(60.0, usage, peak)
    assert comparison.compared == comparison.exceeded == {Resource.CPU: 0.0, Resource.MEMORY: 0.0}


def page(observer, cluster):
    registry = prometheus_client.CollectorRegistry()
    registry.register(NodeResourcesCollector(observer, cluster, PeakComparison()))
    return {
        (sample.name, *sample.labels.values()): sample.value
        for family in registry.collect()
        for sample in family.samples
    }


def test_allocatable_and_requests_of_a_node(tmp_path):
    mid = bound_pod(
        "mid", PriorityClass.MID, cpu_request_millis=0, mid_cpu_request_millis=1500, mid_memory_request_bytes=2 * GIB
    )
    node = OneNode(tmp_path, StaticCluster(bound_pod("a"), bound_pod("b"), mid))
    node.run(2)
    found = page(node.observer, node.cluster)
    assert found["koordlet_allocatable_cpu_cores",] == 15.5
    assert found["koordlet_allocatable_memory_bytes",] == 15 * GIB
    assert found["koordlet_requests_cpu_cores", "prod"] == 2.0
    assert found["koordlet_requests_memory_bytes", "prod"] == 2 * GIB
    assert found["koordlet_requests_cpu_cores", "mid"] == 1.5
    assert found["koordlet_requests_memory_bytes", "mid"] == 2 * GIB


def test_a_node_without_pods_requests_nothing(tmp_path):
    node = OneNode(tmp_path, StaticCluster())
    node.run(1)
    assert page(node.observer, node.cluster)["koordlet_requests_cpu_cores", "mid"] == 0.0


def test_before_the_cluster_is_known_there_is_no_value_but_the_counters(tmp_path):
    found = page(NodeObserver(tmp_path, 100), ClusterView("n1"))
    assert {name for name, *_ in found} == {
        "koordlet_prod_peak_compared_seconds_total",
        "koordlet_prod_peak_exceeded_seconds_total",
    }
